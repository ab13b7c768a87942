"""Errors of calls that BigQuery refused: which job, why, what to do; no credentials, no row's value.

BigQuery's messages about running statements quote values ("Bad int64 value: …"). So they are passed on only if they cannot: for
a dry run, which reads no rows; for reasons that concern the job and not its data; and for what analysis finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cdc_views.errors import ConfigError, EngineError, TransientError
from cdc_views.storage.conflicts import ConflictError

_REMEDIES = {
    "accessDenied": "ask for the rights that it names",
    "bytesBilledLimitExceeded": "narrow the read, or raise `bigquery.maximum_bytes_billed` of the project file",
    "notFound": "check `warehouse` and `bigquery.location` of the project file, or run `cdc-views apply`",
    "quotaExceeded": "wait for the quota, or ask for more",
    "rateLimitExceeded": "try again later",
    "jobRateLimitExceeded": "try again later",
    "backendError": "try again later",
    "internalError": "try again later",
    "resourcesExceeded": "materialize the table, or read fewer columns",
    "billingNotEnabled": "enable billing for the project, or use another one",
    "responseTooLarge": "read fewer rows: --where, --limit, --columns",
    "timeout": "read less, or raise `bigquery.timeout` of the project file",
    "stopped": "somebody stopped the job; run it again",
}
"""Reasons whose messages concern the job and not rows."""
_LATER = frozenset({"rateLimitExceeded", "jobRateLimitExceeded", "backendError", "internalError", "quotaExceeded"})
_ANALYSIS = re.compile(
    r"(Syntax error|Unrecognized name|Name \S+ not found|No matching signature|Function not found|Table not found"
    r"|Not found|Duplicate column|Column \S+ (already|in|name)|Query error: (Syntax|Unrecognized)|Invalid field name|Field name)"
)
_NULL_IN_ARRAY = re.compile(r"Array cannot have a null element; error in writing field [^:]+\Z")
"""This message names a column and no value."""
_READS_NULLS = "read it as TO_JSON_STRING(column), element by element with UNNEST, or by `cdc-views query`"
_CONCURRENT = "aborted due to concurrent update"
"""A lost transaction's message; it names only tables. Source: BigQuery, Multi-statement transactions, Transaction concurrency."""
LOST = "cdc-views: others landed first"
"""The message of our scripts when their compare-and-swap fails."""
ATTEMPTS, PAUSE_SECONDS = 5, 0.1
"""How often a transaction that lost is begun, and seconds to wait before the second time; see `retried`."""


class InvalidQueryError(Exception):
    """BigQuery refused a statement, or a value in it; replaces an error whose text may hold that value."""


@contextmanager
def told(what: str, *, job: Any = None, is_analysis: bool = False) -> Iterator[None]:
    """Turn the client's errors into `EngineError`s about `what` and `job`; `is_analysis`: no row was read, so none is quoted."""
    try:
        from google.api_core.exceptions import GoogleAPICallError, RetryError
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException
    except ImportError:  # without the client nothing below can be raised
        yield
        return
    from concurrent.futures import TimeoutError as FutureTimeoutError

    try:
        yield
    except GoogleAuthError as error:
        # the kind of problem with the credentials, never their text
        kind = re.sub(r"(?<!^)([A-Z])", r" \1", type(error).__name__).lower()
        raise ConfigError(
            f"BigQuery, {what}: no usable credentials ({kind}); see Application Default Credentials of Google Cloud"
        ) from None
    except GoogleAPICallError as error:
        raise _worded(error, what=what, job=job, is_analysis=is_analysis) from InvalidQueryError(type(error).__name__)
    except (FutureTimeoutError, TimeoutError) as error:
        raise TransientError(f"BigQuery, {what}: no answer in time{_of(job)}; {_REMEDIES['timeout']}") from error
    except (RetryError, RequestException, ConnectionError) as error:
        raise TransientError(f"BigQuery, {what}: the server cannot be reached ({type(error).__name__}){_of(job)}") from None


def _worded(error: Any, *, what: str, job: Any, is_analysis: bool) -> EngineError:
    first = dict(error.errors[0]) if error.errors else {}
    reason = str(first.get("reason") or type(error).__name__)
    said = str(first.get("message") or error.message or "").strip().splitlines()
    text = said[0] if said else ""
    if _CONCURRENT in text or LOST in text:
        return ConflictError(f"BigQuery, {what}: another run was faster{_of(job, error)}; run it again")
    holds_null = bool(_NULL_IN_ARRAY.match(text))
    is_safe = is_analysis or holds_null or reason in _REMEDIES or bool(_ANALYSIS.match(text))
    shown = f": {text}" if text and is_safe else "; its words may quote rows, and are kept with the job"
    found = _READS_NULLS if holds_null else _REMEDIES.get(reason)
    kind = TransientError if reason in _LATER else EngineError
    return kind(f"BigQuery, {what}: {reason}{shown}{_of(job, error)}{f'; {found}' if found else ''}")


def _of(job: Any, error: Any = None) -> str:
    found = job if job is not None else getattr(error, "query_job", None)
    if found is None or not getattr(found, "job_id", None):
        return ""
    place = f"{found.project}:{found.location}." if found.location else f"{found.project}:"
    return f" (job {place}{found.job_id})"
