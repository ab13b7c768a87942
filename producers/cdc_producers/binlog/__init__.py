"""What the sources of MariaDB and MySQL share: the binlog, read as a replica does, and snapshots that fit it."""
