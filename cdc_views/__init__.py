"""cdc-views: from raw change events to the latest cell of every column of every key."""
