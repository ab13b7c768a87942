"""Raw formats: what their events state about rows, and what they cannot carry."""
