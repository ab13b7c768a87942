"""Object stores by URL: `s3://bucket/…`, `gs://bucket/…`, `abfss://container@account…/…`; and how to reach them.

Options come from `storage_options:` of the project file, in the names of deltalake or obstore, and else from the environment,
which both read alike (`AWS_…`, `GOOGLE_…`, `AZURE_…`). An `http://` endpoint, which both refuse by default, is taken as named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cdc_views.errors import ConfigError, EngineError, TransientError, UnsupportedError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
SCHEMES = ("s3", "s3a", "gs", "abfss")
"""The schemes of stores that can create an object only if there is none, which every commit needs."""
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "abfss": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
"""Names of the address of a server instead of the cloud's own, by the beginning of a scheme."""
_CLOUDS = ("AWS_", "AZURE_", "AZURITE_", "GOOGLE_")
"""How names in the environment begin that say something of stores."""
_Named = tuple[tuple[str, str], ...]
_PREFIX = re.compile(r"^(aws|azure_storage|azure|google)_")
_UNSAFE = re.compile(r"(aws_)?(s3_)?allow_unsafe_rename|(aws_)?conditional_put=disabled")
_OF_CLIENT = frozenset(
    {
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only", "http2_only"),
        *("pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate", "proxy_excludes"),
        *("randomize_addresses", "timeout", "user_agent"),
    }
)
_OF_DELTA = ("aws_s3_locking_provider", "s3_locking_provider", "delta_dynamo_table_name", "aws_s3_pool_idle_timeout_seconds")
_MOST = 300
"""Letters of what a store says in an error."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def _span(text: str) -> timedelta:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *(ms|s|m)", text.strip())
    if found is None:
        raise ValueError(f"{text!r}: a number and a unit was expected, ms, s or m, as in 30s")
    return timedelta(seconds=float(found[1]) * _UNITS[found[2]])


_OF_RETRIES: Mapping[str, Callable[[str], Any]] = {"max_retries": int, "retry_timeout": _span}
_given: dict[str, Mapping[str, str]] = {}


def is_url(path: str) -> bool:
    """Whether `path` is a URL (`s3://…`) and not a path of this machine."""
    return bool(_URL.match(path))


def use_options(url: str, options: Mapping[str, str]) -> None:
    """Reach everything under `url` with these options from now on, in this process."""
    _given[url.rstrip("/")] = dict(options)


def given_options() -> dict[str, Mapping[str, str]]:
    """Return all that `use_options` was told, for a process that works for this one."""
    return dict(_given)


def options_of(url: str) -> dict[str, str]:
    """Return deltalake's `storage_options` for a URL: those of the longest URL above it that has some; none for a local path.

    Raises `ConfigError` for options that obstore does not take, some of which deltalake passes over, and `UnsupportedError` for
    those that give up safe commits.
    """
    if not is_url(url) or url.startswith("file:"):
        return {}
    store_of(url)
    return _options_of(url)


def _options_of(url: str) -> dict[str, str]:
    above = [known for known in _given if url == known or url.startswith(f"{known}/")]
    options = dict(_given[max(above, key=len)]) if above else {}
    if url.lower().startswith("s3"):
        named = (*options.items(), *os.environ.items())
        unsafe = [name for name, value in named if any(map(_UNSAFE.fullmatch, (name.lower(), f"{name}={value}".lower())))]
        if unsafe:
            raise UnsupportedError(
                f"{url}: {unsafe[0]} lets two writers overwrite each other's commits",
                remedy="leave it out: commits create objects only if there are none, which S3 and compatible stores do",
            )
        options = {_as_deltalake_names(name): value for name, value in options.items()}
    if endpoint_of(url, options).startswith("http://"):
        options.setdefault("allow_http", "true")
    return options


def _as_deltalake_names(name: str) -> str:
    """Return an option of S3 in the one spelling that deltalake and Hadoop's settings look for, as `AWS_REGION`.

    obstore takes `region` and `aws_region`, too; deltalake misses keys that are spelled so, and asks for a role instead.
    """
    plain = _plain(name)
    if name.lower() in _OF_DELTA:
        return name.upper()
    if plain in _OF_CLIENT or plain in _OF_RETRIES:
        return plain
    return f"AWS_{'ENDPOINT_URL' if plain == 'endpoint' else plain.upper()}"


def endpoint_of(url: str, options: Mapping[str, str]) -> str:
    """Return the address of a server instead of the cloud's own, from these options or the environment; empty without one."""
    names = next((names for scheme, names in _ENDPOINTS.items() if url.lower().startswith(scheme)), ())
    own = {_plain(name): value for name, value in options.items()}
    told = (*(own.get(_plain(name)) for name in names), *(os.environ.get(name) for name in names))
    return next(filter(None, told), "")


def _plain(name: str) -> str:
    """Return an option's name as obstore may spell it, `account_key` for `AZURE_STORAGE_ACCOUNT_KEY`."""
    return _PREFIX.sub("", name.lower())


def split(url: str) -> tuple[str, str]:
    """Return the URL of a store's bucket or container, and the key within it; raises `ConfigError` for another URL.

    >>> split("s3://lake/shop/raw/")
    ('s3://lake', 'shop/raw')
    """
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme.lower() not in SCHEMES:
        raise ConfigError(f"{url}: {scheme}:// is no store that cdc-views knows; one of {', '.join(SCHEMES)} was expected")
    if not bucket:
        raise ConfigError(f"{url}: names no bucket; {scheme}://<bucket>/<folder> was expected")
    return f"{scheme}://{bucket}", key.strip("/")


def store_of(url: str) -> ObjectStore:
    """Return the store of a URL's bucket. Raises `ConfigError` for wrong options."""
    environment = ((name, value) for name, value in os.environ.items() if name.startswith(_CLOUDS))
    return _opened(split(url)[0], tuple(sorted(_options_of(url).items())), tuple(sorted(environment)))


@lru_cache(maxsize=64)
def _opened(root: str, options: _Named, environment: _Named) -> ObjectStore:
    """Return a store that is kept until an option changes, or a variable of the environment, which obstore reads by itself."""
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    told: dict[str, Any] = {"config": {}, "client_options": {}, "retry_config": {}}
    try:
        for name, value in options:
            plain = _plain(name)
            if plain in _OF_RETRIES:
                told["retry_config"][plain] = _OF_RETRIES[plain](value)
            elif name.lower() not in _OF_DELTA:
                told["client_options" if plain in _OF_CLIENT else "config"][plain if plain in _OF_CLIENT else name] = value
        return from_url(root.replace("s3a://", "s3://"), **{name: some for name, some in told.items() if some})
    except (BaseError, ValueError, TypeError) as error:
        what = f"storage_options of {root}, or the environment's: {_first_line(error).partition('{')[0]}"  # before a key in JSON
        raise ConfigError(f"{what}; the names and values are in docs/how-to/object-store.md") from error


@contextmanager
def store_errors(url: str) -> Iterator[None]:
    """Raise what a store says as `FileNotFoundError`, `FileExistsError` or an error of ours, never as another `OSError`: callers
    take that for a file that is gone.
    """
    from obstore import exceptions as said

    try:
        yield
    except (FileNotFoundError, said.NotFoundError) as error:
        if _NO_BUCKET.search(str(error)):
            raise explained(url, error) from error
        raise FileNotFoundError(f"{url}: there is no such object") from error
    except (FileExistsError, said.AlreadyExistsError, said.PreconditionError) as error:
        raise FileExistsError(f"{url}: is there, or is another than it was") from error
    except (said.BaseError, OSError) as error:
        raise explained(url, error) from error


_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|specified (bucket|container) does not exist")
_NO_CREDENTIALS = re.compile(r"169\.254\.|metadata\.google|[Mm]issing.{0,20}credential|GenericCredential")
_WRONG_REGION = re.compile(r"incorrectly configured region|AuthorizationHeaderMalformed|PermanentRedirect")
_REFUSED = re.compile(
    r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|40[13] (Forbidden|Unauthorized)|[Pp]ermission ?[Dd]enied|"
    r"invalid_(grant|client)|unauthorized_client|AADSTS\d"
)
_TAGS = re.compile(r"\s*<[^>]*>\s*")
_UNREACHED = re.compile(r"error sending request|dns error|[Cc]onnection refused|error trying to connect")


def explained(url: str, error: BaseException) -> ConfigError | EngineError:
    """Return the error for what a store, or a library that asked it, says: what is wrong, and what to do."""
    text, root = str(error), split(url)[0]
    if _NO_BUCKET.search(text):
        what = "container" if root.lower().startswith("abfss") else "bucket"
        return ConfigError(f"{root}: there is no such {what}; create it, or correct `warehouse:` or `raw: {{table: …}}`")
    if _NO_CREDENTIALS.search(text):
        where = "set them in the environment or in `storage_options:` (docs/how-to/object-store.md)"
        return ConfigError(f"{root}: no credentials were found, and this machine has no role; {where}")
    if _WRONG_REGION.search(text):
        return ConfigError(f"{root}: the bucket is in another region: {_asked(error)}; correct AWS_REGION")
    if _REFUSED.search(text):
        return EngineError(f"{url}: the store refuses: {_asked(error)}; check the credentials and what they may do")
    again = "run the command again"
    if _UNREACHED.search(text):
        again += "; if that does not help, correct the name of the account, or the endpoint"
    return TransientError(f"{url}: the store did not answer: {_asked(error)}; {again}")


def _asked(error: BaseException) -> str:
    """Return what an error says from the innermost request on, with the answer's status; its first line if it names none."""
    lines = _lines(error)
    start = max((number for number, line in enumerate(lines) if "Error performing" in line), default=None)
    return _first_line(error) if start is None else _TAGS.sub(" ", " ".join(lines[start:]))[:_MOST].strip()


def _first_line(error: BaseException) -> str:
    return next(iter(_lines(error)), type(error).__name__)[:_MOST]


def _lines(error: BaseException) -> list[str]:
    said = str(error).partition("Debug source:")[0]
    return [found for line in said.splitlines() if (found := line.strip(" ↳\x1b[031m"))]
