"""Plans on Spark: the DataFrame compiler, a session with Delta, and the engine that `cdc-views` finds by entry point.

Needs the extra `spark`. `java` and `ivy` alone, which producers use too, do without.
"""
