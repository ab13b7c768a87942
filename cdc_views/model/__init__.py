"""What everything else speaks of: types, schemas, names, conditions, strategies."""
