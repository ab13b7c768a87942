"""Messages of a key and a value, which is the whole row."""
