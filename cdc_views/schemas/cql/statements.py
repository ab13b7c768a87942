"""The CQL statements that shape tables, as they are written; `cql_parser` makes them, `cql` applies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cdc_views.schemas.tokens import Token
from cdc_views.schemas.written_types import WrittenType


@dataclass(frozen=True, slots=True)
class QualifiedName:
    """The name of a table or type; `keyspace` is empty where the text leaves it out."""

    start: Token
    keyspace: str
    name: str


@dataclass(frozen=True, slots=True)
class CqlColumn:
    """One column's definition."""

    start: Token
    name: str
    type: WrittenType
    is_static: bool = False
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    """`CREATE TABLE`; the key lists hold names, in key order."""

    table: QualifiedName
    columns: tuple[CqlColumn, ...]
    partition: tuple[str, ...]
    clustering: tuple[str, ...]
    descending: frozenset[str]
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class CopyTable:
    """`CREATE TABLE … LIKE …`."""

    table: QualifiedName
    source: QualifiedName
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class AddColumns:
    """`ALTER TABLE … ADD`."""

    table: QualifiedName
    columns: tuple[CqlColumn, ...]
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropColumns:
    """`ALTER TABLE … DROP`; `at` is the time of `USING TIMESTAMP`, in µs."""

    table: QualifiedName
    names: tuple[str, ...]
    at: int | None


@dataclass(frozen=True, slots=True)
class RenameColumns:
    """`ALTER TABLE … RENAME`."""

    table: QualifiedName
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ChangeColumnType:
    """`ALTER TABLE … ALTER column TYPE`, of Cassandra before 3.10."""

    table: QualifiedName
    column: str
    type: WrittenType


@dataclass(frozen=True, slots=True)
class CreateType:
    """`CREATE TYPE`."""

    type: QualifiedName
    fields: tuple[tuple[str, WrittenType], ...]


@dataclass(frozen=True, slots=True)
class AddFields:
    """`ALTER TYPE … ADD`."""

    type: QualifiedName
    fields: tuple[tuple[str, WrittenType], ...]


@dataclass(frozen=True, slots=True)
class RenameFields:
    """`ALTER TYPE … RENAME`."""

    type: QualifiedName
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ChangeFieldType:
    """`ALTER TYPE … ALTER field TYPE`, of Cassandra before 3.10."""

    type: QualifiedName
    field: str
    new_type: WrittenType


@dataclass(frozen=True, slots=True)
class DropTable:
    """`DROP TABLE`."""

    table: QualifiedName


@dataclass(frozen=True, slots=True)
class DropType:
    """`DROP TYPE`."""

    type: QualifiedName


@dataclass(frozen=True, slots=True)
class UseKeyspace:
    """`USE`: the keyspace of the unqualified names after it."""

    keyspace: str


Statement: TypeAlias = (
    CreateTable
    | CopyTable
    | AddColumns
    | DropColumns
    | RenameColumns
    | ChangeColumnType
    | CreateType
    | AddFields
    | RenameFields
    | ChangeFieldType
    | DropTable
    | DropType
    | UseKeyspace
)
