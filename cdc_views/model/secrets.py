"""What must not leave the process: values of environment variables that hold secrets, and passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_SECRET = re.compile(r"PASSWORD|PASSWD|SECRET|TOKEN|DSN|(?<!APPLICATION_)CREDENTIAL|KEY\Z|_SAS\Z", re.IGNORECASE)
_SHORTEST = 4
"""Shorter ones would take letters out of every word."""
_LEFT_OUT = "…"
_URL_PASSWORD = re.compile(r"(?P<user>://[^/@\s:]*:)(?P<password>[^/@\s]+)(?=@)")


def without_secrets(text: str, environment: Mapping[str, str]) -> str:
    """Return a text with `…` for each secret of the environment and for the password of each URL.

    >>> without_secrets("no route to db as hunter2, s3://a:b@c", {"PGPASSWORD": "hunter2"})
    'no route to db as …, s3://a:…@c'
    """
    for secret in sorted(_secrets(environment), key=len, reverse=True):
        text = text.replace(secret, _LEFT_OUT)
    return _URL_PASSWORD.sub(rf"\g<user>{_LEFT_OUT}", text) if "://" in text else text


def _secrets(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if _SECRET.search(name) and len(value) >= _SHORTEST:
            yield value
        found = _URL_PASSWORD.search(value)
        if found is not None and len(found["password"]) >= _SHORTEST:
            yield found["password"]
