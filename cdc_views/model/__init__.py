"""Types, schemas, names, conditions and strategies: the words that all other packages use."""
