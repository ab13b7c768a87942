"""Tokens as Debezium Server's HTTP sink asks for them and Memphis' REST gateway gave them.

A token is a JWT signed with HS256 only; its kind limits its use, so that a refresh token posts no events. Nothing is
stored: a token is valid until it expires, even after a restart, if the secret stays the same.
Source: Debezium Server 3.6, `JWTAuthenticator`, `JWTAuthorizationResponse` (snake case; `expires_in` is added to the
clock as milliseconds, and the token renewed after 0.9 of it), `JWTAuthorizationInitialRequest`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import jwt

from cdc_producers.http.answers import RefusedError
from cdc_views.errors import ConfigError

USER, PASSWORD, SECRET = (f"CDC_VIEWS_HTTP_{name}" for name in ("USER", "PASSWORD", "SECRET"))
"""Names of environment variables."""
_ALGORITHM = "HS256"
_ISSUER = "cdc-views http receiver"
_SHORTEST_SECRET = 32
_BEARER = re.compile(r"bearer:? +(?P<token>\S+) *\Z", re.IGNORECASE)
"""Debezium Server writes `Bearer: <jwt>`, RFC 6750 has `Bearer <jwt>`."""


class TokenKind(str, Enum):
    """What a token permits."""

    ACCESS = "access"
    REFRESH = "refresh"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who may post, and the key that signs tokens; neither is ever printed."""

    user: str = field(repr=False)
    password: str = field(repr=False)
    secret: str = field(repr=False)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Credentials:
        """Return the credentials from the environment; raises `ConfigError` that names a missing variable, never a value."""
        missing = [name for name in (USER, PASSWORD, SECRET) if not environment.get(name)]
        if missing:
            raise ConfigError(
                f"{', '.join(missing)}: not set; set {USER}, {PASSWORD} and {SECRET} in the environment, or, on this machine "
                "alone, give --no-auth"
            )
        if len(environment[SECRET].encode()) < _SHORTEST_SECRET:
            raise ConfigError(
                f"{SECRET}: is shorter than {_SHORTEST_SECRET} bytes, which can be guessed; "
                "make one with: python3 -c 'import secrets; print(secrets.token_hex())'"
            )
        return cls(environment[USER], environment[PASSWORD], environment[SECRET])

    def match(self, user: str, password: str) -> bool:
        """Return whether both are right, in a time that does not depend on where they differ."""
        return _equal(user, self.user) & _equal(password, self.password)


def _equal(given: str, expected: str) -> bool:
    # digests have equal lengths, so the time does not show the length of the expected text either
    digests = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in (given, expected))
    return hmac.compare_digest(*digests)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The issuer and checker of tokens."""

    credentials: Credentials

    def authenticate(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to `auth/authenticate`; raises `RefusedError` 401 if user and password do not match."""
        user, password = asked.get("username"), asked.get("password")
        if not isinstance(user, str) or not isinstance(password, str):
            raise RefusedError(400, "username and password, two texts, were expected; send both as JSON")
        if not self.credentials.match(user, password):
            raise RefusedError(401, f"user or password is wrong; they are those in {USER} and {PASSWORD} of the receiver")
        return self._pair(asked)

    def refresh(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to `auth/refreshToken`; raises `RefusedError` 401 for anything but a valid refresh token."""
        token = asked.get("jwt_refresh_token")
        if not isinstance(token, str):
            raise RefusedError(400, "jwt_refresh_token, a text, was expected; send what auth/authenticate answered as such")
        self._check(token, TokenKind.REFRESH)
        return self._pair(asked)

    def check_header(self, header: str | None) -> str:
        """Return the user of a request with this `Authorization` header; raises `RefusedError` 401."""
        if header is None:
            raise _not_authorized("Authorization: is missing; send `Bearer: <jwt>` with a token of auth/authenticate")
        found = _BEARER.match(header)
        if found is None:
            raise _not_authorized("Authorization: is no `Bearer: <jwt>`, nor `Bearer <jwt>`; send one of the two")
        return self._check(found["token"], TokenKind.ACCESS)

    def _check(self, token: str, kind: TokenKind) -> str:
        """Return the user of a token of this kind; raises `RefusedError` 401 with what is wrong with it."""
        try:
            # the algorithm is ours: the token's header does not choose it
            claims = jwt.decode(
                token,
                self.credentials.secret,
                algorithms=[_ALGORITHM],
                issuer=_ISSUER,
                options={"require": ["exp", "iat", "sub", "iss"], "verify_exp": False, "verify_iat": False},
            )
        except (jwt.InvalidTokenError, ValueError) as error:
            raise _not_authorized("the token is not one of this receiver's; get one by auth/authenticate") from error
        if not isinstance(claims["exp"], int) or claims["exp"] <= time.time():
            raise _not_authorized("the token has expired; get another by auth/refreshToken or auth/authenticate")
        if claims.get("kind") != kind.value:
            raise _not_authorized(f"the token is no {kind.value} token; an {TokenKind.ACCESS.value} token posts events")
        if not _equal(claims["sub"], self.credentials.user):
            raise _not_authorized("the token is of a user that there is no more; get one by auth/authenticate")
        return str(claims["sub"])

    def _pair(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        access = _minutes(asked, "token_expiry_in_minutes", default=15, longest=24 * 60)
        refresh = _minutes(asked, "refresh_token_expiry_in_minutes", default=5 * 60, longest=366 * 24 * 60)
        return {
            "jwt": self._signed(TokenKind.ACCESS, minutes=access),
            "expires_in": access * 60_000,
            "jwt_refresh_token": self._signed(TokenKind.REFRESH, minutes=refresh),
            "refresh_token_expires_in": refresh * 60_000,
        }

    def _signed(self, kind: TokenKind, *, minutes: int) -> str:
        now = int(time.time())
        claims = {"iss": _ISSUER, "sub": self.credentials.user, "kind": kind.value, "iat": now, "exp": now + 60 * minutes}
        return jwt.encode(claims, self.credentials.secret, algorithm=_ALGORITHM)


def _minutes(asked: Mapping[str, Any], name: str, *, default: int, longest: int) -> int:
    found = asked.get(name)
    if found is None:
        return default
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise RefusedError(400, f"{name}: a whole number of minutes, at least 1, was expected")
    return min(found, longest)


def _not_authorized(message: str) -> RefusedError:
    return RefusedError(401, message, headers={"WWW-Authenticate": "Bearer"})
