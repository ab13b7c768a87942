"""How values of logical types are written: serialized bytes, comparables, JSON text, columns of a raw table."""
