"""Real servers for tests: fetched from the package registries, on free loopback ports, stopped by their own pid."""
