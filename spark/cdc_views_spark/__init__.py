"""Plans on Spark. Needs the extra `spark`, except for `java` and `ivy`, which producers use too."""
