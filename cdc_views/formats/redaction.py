"""Applies column policies to an event's text, before anything else sees it.

An event is parsed, and written again with only those members that its format reads: a value of a column with a policy can be
nowhere else. An event whose structure is not its format's is withheld: its text is replaced by its size and digest.

============================  ===================================================================================
member                        meaning
============================  ===================================================================================
`{"_withheld": {…}}`          a whole event: `bytes`, its size, and `sha256`, in place of its text
`_redacted` of an event       it waits in quarantine as policies left it: what is a hash is not hashed again
============================  ===================================================================================
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from cdc_views.errors import CdcViewsError, MalformedEventError
from cdc_views.formats.unavailable import is_unavailable
from cdc_views.model.column_policies import EXTRA, ColumnPolicies, ColumnPolicy, ExtraColumns, Policy
from cdc_views.model.naming import sanitized
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.rules.codec.jsontext import json_text

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WITHHELD = "_withheld"
_MARK = "_redacted"
_HASH = re.compile(r"[0-9a-f]{64}")
_AROUND = frozenset({"before", "after", "payload", "key", "value", "data", "source", "schema"})
"""Members of envelopes, whose content may be a whole row."""


class UnlocatedError(CdcViewsError):
    """An event in which the values of columns cannot be located, with the reason, which holds none of its values."""


class Redacted(NamedTuple):
    """An event as policies leave it. `reason` tells why it was withheld, empty if it was not; `is_new`: its text is another."""

    content: bytes
    reason: str = ""
    is_new: bool = False


Redact = Callable[[Any, "EventColumns"], Any]
"""Returns a parsed event with policies applied, without members that its format does not read. Raises `UnlocatedError`."""


@dataclass(frozen=True)
class Redaction:
    """The policies of a table's columns; `schema` is the source's, `stored` is that of what is stored."""

    schema: TableSchema
    policies: ColumnPolicies
    stored: TableSchema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "stored", self.policies.stored(self.schema))

    def redacted(self, redact: Redact, content: bytes) -> Redacted:
        """Return an event of a format as policies leave it; an event that was redacted before stays as it is."""
        try:
            document = parse_json(content.removeprefix(_BYTE_ORDER_MARK).decode())
            if isinstance(document, dict) and document.keys() == {_WITHHELD}:
                raise UnlocatedError("its text was not kept when it came")
            is_marked = isinstance(document, dict) and document.pop(_MARK, None) is not None
            text = json_text(redact(document, EventColumns(self, is_marked)))
            return Redacted(_encoded(text), is_new=True)
        except UnicodeDecodeError:
            return self.withheld(content, "not UTF-8")
        except (MalformedEventError, RecursionError):
            return self.withheld(content, "not JSON")
        except UnlocatedError as error:
            return self.withheld(content, str(error))

    def withheld(self, content: bytes, reason: str) -> Redacted:
        """Return the size and digest of an event in place of its text; without policies of columns, the event itself."""
        if not self.policies.columns:
            return Redacted(content)
        names = ", ".join(self.policies.columns)
        why = f"{reason}; values of {names} may be anywhere in it, so only its size and digest are kept"
        if withheld_size(content) is not None:
            return Redacted(content, why)
        found = {_WITHHELD: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}}
        return Redacted(json.dumps(found).encode(), why)

    @cached_property
    def _aliases(self) -> Mapping[str, ColumnPolicy]:
        """Policies by other spellings of a name: sinks write other letters, and a source may have another case."""
        spelled = [(spelling, one) for name, one in self.policies.columns.items() for spelling in (name, sanitized(name))]
        return {spelling.casefold(): one for spelling, one in spelled}

    def policy(self, name: str) -> ColumnPolicy | None:
        """Return the policy of a member of a row; None if it has none."""
        if (found := self.policies.columns.get(name)) is not None or self.schema.has(name):
            return found
        return self._aliases.get(name.casefold())

    def may_hold(self, value: Any) -> bool:
        """Whether a value of an unknown place may hold a row, or a part of one, in which a column has a policy."""
        if isinstance(value, dict):
            return any(self.policy(name) is not None or self.may_hold(inner) for name, inner in value.items())
        if isinstance(value, list):
            return any(map(self.may_hold, value))
        if not isinstance(value, str) or not value.lstrip().startswith(("{", "[", '"')):
            return False
        folded = value.casefold()
        return "\\" in folded or any(name in folded for name in self._aliases)


def marked(content: bytes) -> bytes:
    """Return a redacted event, an object, for quarantine, from which it is read again."""
    return b'{"%s":true%s%s' % (_MARK.encode(), b"" if content == b"{}" else b",", content[1:])


def is_as_it_came(content: bytes) -> bool:
    """Whether an event in quarantine was neither redacted nor withheld."""
    return withheld_size(content) is None and not content.startswith(b'{"%s":' % _MARK.encode())


def withheld_size(content: bytes) -> int | None:
    """Return the size of the event that was withheld; None if `content` is an event itself."""
    if not content.startswith(b'{"%s"' % _WITHHELD.encode()):
        return None
    size = parse_json(content.decode())[_WITHHELD]["bytes"]
    return size if isinstance(size, int) else None


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        # a lone surrogate, which JSON alone can hold, and only escaped
        return "".join(letter if ord(letter) < 0x80 else _escape(letter) for letter in text).encode()


def _escape(letter: str) -> str:
    return json.dumps(letter)[1:-1]


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Policies for one event; `is_marked`: they were applied to it before."""

    redaction: Redaction
    is_marked: bool = False

    @property
    def schema(self) -> TableSchema:
        """The source's schema."""
        return self.redaction.schema

    def policy(self, name: str) -> ColumnPolicy | None:
        """See `Redaction.policy`."""
        return self.redaction.policy(name)

    def value(self, policy: ColumnPolicy, value: Any) -> Any:
        """Return what is stored in place of a value; null, and a mark that it was not sent, stay."""
        if value is None or is_unavailable(value) or policy.policy is Policy.LEAVE_OUT:
            return None if policy.policy is Policy.LEAVE_OUT else value
        if self.is_marked and isinstance(value, str) and _HASH.fullmatch(value):
            return value
        return policy.applied(_canonical(value))

    def key(self, value: Any) -> Any:
        """Return the value of a table's only key column, of a record whose key is no object."""
        (column,) = self.schema.row_key
        policy = self.policy(column.name)
        return value if policy is None else self.value(policy, _lower(column.type, value))

    def row(self, row: Mapping[str, Any], *, takes_extra: bool = False) -> dict[str, Any]:
        """Return a row, by column; `takes_extra`: columns that the schema lacks count. Raises `UnlocatedError`."""
        known: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, value in self._unpacked(row).items():
            policy = self.policy(name)
            if policy is not None:
                if policy.policy is not Policy.LEAVE_OUT:
                    kind = self.schema.column(name).type if self.schema.has(name) else None
                    known[name] = self.value(policy, _lower(kind, value))
            elif self.schema.has(name) or self.schema.drop_time(name) is not None:
                known[name] = value
            else:
                extra[name] = value
        return known | self._extra(extra) if takes_extra else known

    def _unpacked(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        found = row.get(EXTRA) if self.is_marked and self.redaction.policies.extra is ExtraColumns.JSON else None
        rest = {name: value for name, value in row.items() if name != EXTRA} if self.is_marked else row
        return {**rest, **found} if isinstance(found, dict) else rest

    def _extra(self, extra: dict[str, Any]) -> dict[str, Any]:
        self.check_unknown(extra)
        match self.redaction.policies.extra:
            case ExtraColumns.LEAVE_OUT:
                return {}
            case ExtraColumns.JSON:
                return {EXTRA: extra or None}
        return extra

    def check_unknown(self, members: Mapping[str, Any]) -> None:
        """Raise `UnlocatedError` if members that the schema lacks may hold a row, or a part of one."""
        if not self.redaction.policies.columns:
            return
        for name, value in members.items():
            if name in _AROUND or self.redaction.may_hold(value):
                raise UnlocatedError(f"{self.schema.full_name} has no column {name!r}")


def _lower(kind: Any, value: Any) -> Any:
    """Return a UUID as all sources but some write it, in lower case."""
    is_uuid = isinstance(kind, Scalar) and kind.kind in (Kind.UUID, Kind.TIMEUUID)
    return value.lower() if is_uuid and isinstance(value, str) else value


def _canonical(value: Any) -> str:
    """Return one text of a value: itself, a number's digits, or JSON with members in order."""
    if isinstance(value, str):
        return value
    return json_text(_ordered(value))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _ordered(value[name]) for name in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list) else value
