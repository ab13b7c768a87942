"""What "latest" means, in plain Python: cells, facts, the oracle, and how values become bytes and back."""
