"""The meaning of "latest" in plain Python: cells, facts and the oracle; and the codecs of values."""
