"""Land topics with Spark's own Kafka source, on as many executors as there are:

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 spark/jobs/kafka.py \
        --bootstrap broker:9092 --topic lab.public.orders --to s3a://lake/raw/orders --checkpoint s3a://lake/checkpoints/orders

Each message is a row of a Delta table, as Kafka has it; name it in the project file with `layout: as-found`, and views read
it through the raw format's adapter. Spark's checkpoint and Delta's transaction ids make it once each. One table a topic; no
registry: Avro is for `cdc-views produce kafka`.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
"""Of Kafka's records, what an external table's shape `line` knows."""


def rows_of(records: DataFrame) -> DataFrame:
    """Return Kafka's records as the rows of an external table: key and value as text, for JSON is what adapters read."""
    texts = [f.col(name).cast("string").alias(name) for name in ("key", "value")]
    return records.select(*texts, *COLUMNS[2:])


def main() -> None:
    """Land what is there (`--once`), or what comes, until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, help="host:port,…")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--to", required=True, help="the Delta table")
    parser.add_argument("--checkpoint", required=True, help="a folder of this topic's own")
    parser.add_argument("--once", action="store_true", help="land what is there now, and end")
    options = parser.parse_args()
    spark = SparkSession.builder.getOrCreate()
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        # what retention has deleted is missing: somebody has to decide
        .option("failOnDataLoss", "true")
        .load()
    )
    stream = rows_of(records).writeStream.format("delta").option("checkpointLocation", options.checkpoint)
    stream = stream.trigger(availableNow=True) if options.once else stream.trigger(processingTime="10 seconds")
    stream.start(options.to).awaitTermination()


if __name__ == "__main__":
    main()
