"""How facts are laid out in a raw table, and where the generations of a state are."""
