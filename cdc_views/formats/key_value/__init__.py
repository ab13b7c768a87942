"""Messages of a key and a value; the value is the whole row."""
