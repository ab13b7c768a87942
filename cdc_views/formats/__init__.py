"""Raw formats: what an event of each says about rows, and what the format cannot carry."""
