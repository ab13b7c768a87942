"""CQL: CREATE TABLE, ALTER and CREATE TYPE statements, and the types they name."""
