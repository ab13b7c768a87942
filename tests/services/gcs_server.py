"""A small Google Cloud Storage, in memory: the part of its XML API that clients of Delta tables use.

It is not a real one: it answers as Google's documentation says. No server that can be had here speaks the XML API with its
preconditions, which every commit needs. A token must be signed by the account's key, as Google checks it.

`python -m services.gcs_server PORT KEY`: KEY is a file with the account's public key.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import sys
import threading
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import jwt

_MOST_LISTED = 1000
_PARTS = re.compile(rb"<PartNumber>(\d+)</PartNumber>")


class Refusal(Exception):
    """An error of the store: a status and Google's word for it."""

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(code)
        self.status, self.body = status, f"<Error><Code>{code}</Code><Message>{message or code}</Message></Error>".encode()


@dataclass(frozen=True)
class Object:
    """Content, and when it was written, as the how-manieth write."""

    content: bytes
    generation: int
    written: float

    def headers(self) -> dict[str, str]:
        return {
            "ETag": f'"{hashlib.md5(self.content, usedforsecurity=False).hexdigest()}"',
            "Last-Modified": formatdate(self.written, usegmt=True),
            "x-goog-generation": str(self.generation),
        }


@dataclass
class Bucket:
    """Objects, and parts of those that are not whole yet."""

    objects: dict[str, Object] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)


@dataclass
class Store:
    """All buckets; one request at a time, as each takes effect at once or not at all."""

    key: str
    buckets: dict[str, Bucket] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def check(self, token: str) -> None:
        """Raise `Refusal` for a token that the account's key did not sign."""
        try:
            jwt.decode(token.removeprefix("Bearer "), self.key, algorithms=["RS256"], options={"verify_aud": False})
        except jwt.InvalidTokenError as error:
            raise Refusal(401, "AuthenticationRequired", str(error)) from None

    def bucket(self, name: str) -> Bucket:
        if name not in self.buckets:
            raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
        return self.buckets[name]

    def found(self, bucket: str, key: str) -> Object:
        objects = self.bucket(bucket).objects
        if key not in objects:
            raise Refusal(404, "NoSuchKey", "The specified key does not exist.")
        return objects[key]

    def put(self, bucket: str, key: str, content: bytes, wanted: str | None) -> Object:
        """Write an object if its generation is the `wanted` one: 0 where there is none."""
        objects = self.bucket(bucket).objects
        if wanted is not None and int(wanted) != (objects[key].generation if key in objects else 0):
            raise Refusal(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")
        made = Object(content, next(self._numbers), datetime.now(timezone.utc).timestamp())
        objects[key] = made
        return made

    def listed(self, bucket: str, asked: dict[str, str]) -> str:
        """Return a page of a listing as XML: objects, and names up to the delimiter."""
        begin, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        most, after = min(int(asked.get("max-keys", _MOST_LISTED)), _MOST_LISTED), asked.get("continuation-token", "")
        names: dict[str, Object | None] = {}
        for key, one in sorted(self.bucket(bucket).objects.items()):
            if key.startswith(begin) and key > asked.get("start-after", ""):
                folder, cut, _ = key[len(begin) :].partition(delimiter) if delimiter else (key, "", "")
                names.setdefault(begin + folder + cut if cut else key, None if cut else one)
        rest = [(name, one) for name, one in names.items() if name > after]
        told = "".join(map(_told, *zip(*rest[:most], strict=True))) if rest else ""
        more = f"<NextContinuationToken>{escape(rest[most - 1][0])}</NextContinuationToken>" if len(rest) > most else ""
        return f"<ListBucketResult><Name>{bucket}</Name>{told}{more}</ListBucketResult>"


def _told(name: str, one: Object | None) -> str:
    if one is None:
        return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
    written = datetime.fromtimestamp(one.written, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    about = f"<Size>{len(one.content)}</Size><Generation>{one.generation}</Generation><LastModified>{written}</LastModified>"
    return f"<Contents><Key>{escape(name)}</Key>{about}<ETag>{one.headers()['ETag']}</ETag></Contents>"


Answered = tuple[int, dict[str, str], bytes]


def answer(store: Store, method: str, path: str, headers: Any, body: bytes) -> Answered:
    """Return status, headers and body for a request; raises `Refusal`."""
    at = urlsplit(path)
    bucket, _, key = unquote(at.path).lstrip("/").partition("/")
    asked = {name: values[0] for name, values in parse_qs(at.query, keep_blank_values=True).items()}
    store.check(headers.get("authorization", ""))
    with store.lock:
        if not key:
            if method == "PUT":
                store.buckets.setdefault(bucket, Bucket())
                return 200, {}, b""
            return 200, {"content-type": "application/xml"}, store.listed(bucket, asked).encode()
        if "uploads" in asked or "uploadId" in asked:
            return _in_parts(store, method, bucket, key, asked, headers, body)
        if method == "PUT":
            if source := headers.get("x-goog-copy-source"):
                body = store.found(*unquote(source).lstrip("/").split("/", 1)).content
            return 200, store.put(bucket, key, body, headers.get("x-goog-if-generation-match")).headers(), b"<CopyObjectResult/>"
        found = store.found(bucket, key)
        if method == "DELETE":
            del store.bucket(bucket).objects[key]
            return 204, {}, b""
        return _read(found, headers.get("range", ""))


def _read(found: Object, wanted: str) -> Answered:
    if not wanted:
        return 200, found.headers(), found.content
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    size = len(found.content)
    start, end = (int(first), min(int(last or size), size - 1)) if first else (max(size - int(last), 0), size - 1)
    if start >= size:
        raise Refusal(416, "InvalidRange")
    about = {**found.headers(), "content-range": f"bytes {start}-{end}/{size}"}
    return 206, about, found.content[start : end + 1]


def _in_parts(store: Store, method: str, bucket: str, key: str, asked: dict[str, str], headers: Any, body: bytes) -> Answered:
    uploads = store.bucket(bucket).uploads
    if "uploads" in asked:
        name = f"upload-{len(uploads) + 1}"
        uploads[name] = {}
        told = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>{name}</UploadId>"
        return 200, {}, f"<InitiateMultipartUploadResult>{told}</InitiateMultipartUploadResult>".encode()
    parts = uploads.get(asked["uploadId"])
    if parts is None:
        raise Refusal(404, "NoSuchUpload")
    if method == "PUT":
        parts[int(asked["partNumber"])] = body
        return 200, {"ETag": f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'}, b""
    del uploads[asked["uploadId"]]
    if method == "DELETE":
        return 204, {}, b""
    whole = b"".join(parts[int(number)] for number in _PARTS.findall(body))
    made = store.put(bucket, key, whole, headers.get("x-goog-if-generation-match"))
    etag = escape(made.headers()["ETag"])
    return 200, made.headers(), f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>".encode()


def handler(store: Store) -> type[BaseHTTPRequestHandler]:
    """Return what answers requests to this store."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                status, headers, content = answer(store, self.command, self.path, self.headers, body)
            except Refusal as refusal:
                status, headers, content = refusal.status, {}, refusal.body
            self.send_response_only(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), handler(Store(Path(sys.argv[2]).read_text()))) as server:
        server.daemon_threads = True
        server.serve_forever()
