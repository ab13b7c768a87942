"""JSON posted to others over HTTP. What goes wrong there is told, and never raised."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

TIMEOUT = 10.0
"""Seconds for an answer."""


class _StaysThere(HTTPRedirectHandler):
    """Follows no redirect: the POST would become a GET that says nothing."""

    def redirect_request(self, *_: Any) -> None:
        return None


def post_json(url: str, body: Mapping[str, Any], *, token: str = "") -> str:
    """Post a body, with a bearer token if there is one; return why that failed, without the URL, empty if it did not."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    # the project file admits http and https alone
    request = Request(url, json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace"), headers, method="POST")
    try:
        with build_opener(_StaysThere).open(request, timeout=TIMEOUT) as answer:
            answer.read(1)
    except HTTPError as error:
        return f"it answered {error.code}"
    except (OSError, ValueError) as error:
        return f"it did not answer ({getattr(error, 'reason', type(error).__name__)})"
    return ""
