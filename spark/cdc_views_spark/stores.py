"""Object stores in Spark: the jars of Hadoop's client, and its settings from deltalake's options.

Hadoop's client for S3 depends on a bundle of all of AWS, 640 MB; it needs 18 MB of it.
"""

from __future__ import annotations

import os
from pathlib import Path

from cdc_views.errors import UnsupportedError
from cdc_views.storage.stores import endpoint_of, given_options, is_url, options_of, split
from cdc_views_spark.ivy import Coordinates, fetched, leave_out
from cdc_views_spark.java import cache_folder

HADOOP_AWS = ("org.apache.hadoop", "hadoop-aws", "3.5.0")
"""Of the Hadoop in pyspark 4.2.0."""
_SDK = "2.35.4"
"""That Hadoop was built with."""
_PARTS: tuple[Coordinates, ...] = (
    *(("software.amazon.awssdk", name, _SDK) for name in ("s3", "s3-transfer-manager", "sts", "apache-client")),
    ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
)
_SPARK_HAS = ("netty-buffer", "netty-codec", "netty-common", "netty-handler", "netty-resolver", "netty-transport", "slf4j-api")
_S3 = ("s3", "s3a")
_FILE_SYSTEM = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
_TRUE = ("true", "1", "yes", "on")


def store_in(warehouse: str) -> str:
    """Return the URL that tells which store a session is to reach: that of the warehouse, or else of what else is named on S3.

    A local warehouse may have raw tables on a store, or rows to write there.
    """
    others = (url for url in given_options() if url.partition("://")[0].lower() in _S3)
    return warehouse if is_url(warehouse) else next(others, warehouse)


def store_jars(warehouse: str) -> list[Path]:
    """Return the jars for a warehouse on S3, fetched on the first call; none for a local one. Raises `EngineError`."""
    if not _is_s3(warehouse):
        return []
    folder = cache_folder() / f"jars-{HADOOP_AWS[1]}-{HADOOP_AWS[2]}"
    return sorted(fetched(HADOOP_AWS, folder, finish=leave_out(_SPARK_HAS), instead=_PARTS).glob("*.jar"))


def store_settings(warehouse: str) -> dict[str, str]:
    """Return a session's settings for the store of a warehouse; none for a local one.

    Credentials of the environment and roles reach Hadoop by themselves. Raises `UnsupportedError` for another store than S3.
    """
    if not _is_s3(warehouse):
        return {}
    own = options_of(warehouse)
    given = {name.upper(): value for name, value in (*os.environ.items(), *own.items())}

    def first(*names: str) -> str:
        return next((given[name] for name in names if given.get(name)), "")

    endpoint = endpoint_of(warehouse, own)
    is_virtual = first("AWS_VIRTUAL_HOSTED_STYLE_REQUEST").lower() in _TRUE
    is_anonymous = first("AWS_SKIP_SIGNATURE").lower() in _TRUE
    keys = own if "AWS_ACCESS_KEY_ID" in own else {}
    told = {
        "endpoint": endpoint,
        "endpoint.region": first("AWS_REGION", "AWS_DEFAULT_REGION"),
        "path.style.access": "true" if endpoint and not is_virtual else "",
        "connection.ssl.enabled": "false" if endpoint.startswith("http://") else "",
        "access.key": keys.get("AWS_ACCESS_KEY_ID", ""),
        "secret.key": keys.get("AWS_SECRET_ACCESS_KEY", ""),
        "session.token": keys.get("AWS_SESSION_TOKEN", ""),
        "aws.credentials.provider": _ANONYMOUS if is_anonymous else "",
    }
    settings = {f"spark.hadoop.fs.s3a.{name}": value for name, value in told.items() if value}
    return {"spark.hadoop.fs.s3.impl": _FILE_SYSTEM, **settings}


def _is_s3(warehouse: str) -> bool:
    if not is_url(warehouse):
        return False
    scheme = split(warehouse)[0].partition("://")[0].lower()
    if scheme not in _S3:
        raise UnsupportedError(
            f"{warehouse}: cdc-views brings Spark the jars for S3 alone",
            remedy=f"open a session that reads {scheme}:// first, with spark-submit or in a notebook: it is used as it is",
        )
    return True
