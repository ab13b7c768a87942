"""Schemas that together have every type, role and order, each with a partition key column `case`.

One raw table holds the histories of many cases, so that one query answers for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc_views.formats.base import WriteOrder
from cdc_views.model.schema import Column, DroppedColumn, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.storage.relation import Relation

MIDDLE = 4
"""The drop time of re-added columns within a history's write times, 0 to 7."""


def scalar(kind: Kind) -> Scalar:
    """Shorthand."""
    return Scalar(kind)


INT, BIGINT, TEXT, DECIMAL, DOUBLE, FLOAT = map(scalar, (Kind.INT, Kind.BIGINT, Kind.TEXT, Kind.DECIMAL, Kind.DOUBLE, Kind.FLOAT))
TIMEUUID, UUID, VARINT, BLOB, INET, DATE = map(scalar, (Kind.TIMEUUID, Kind.UUID, Kind.VARINT, Kind.BLOB, Kind.INET, Kind.DATE))
BOOLEAN, SMALLINT, TIMESTAMP = map(scalar, (Kind.BOOLEAN, Kind.SMALLINT, Kind.TIMESTAMP))

CASSANDRA_KINDS = tuple(k for k in Kind if k not in (Kind.COUNTER, Kind.DATETIME, Kind.INSTANT, Kind.JSON))
RELATIONAL_KINDS = (Kind.SMALLINT, Kind.BIGINT, Kind.DOUBLE, Kind.DECIMAL, Kind.TEXT, Kind.DATETIME, Kind.INSTANT, Kind.JSON)


def every_kind(*, frozen: bool) -> Udt:
    """Return a user type with a field of each of Cassandra's scalar types."""
    return Udt("tests", "every", tuple((f"F_{k.value}", scalar(k)) for k in CASSANDRA_KINDS), frozen=frozen)


def table(
    name: str,
    *,
    partition: dict[str, LogicalType],
    clustering: dict[str, LogicalType] | None = None,
    statics: dict[str, LogicalType] | None = None,
    regulars: dict[str, LogicalType] | None = None,
    descending: tuple[str, ...] = (),
    dropped: dict[str, int] | None = None,
) -> TableSchema:
    """Return a schema; columns are given by role, name and type."""
    columns = [Column(n, t, Role.PARTITION) for n, t in partition.items()]
    columns += [Column(n, t, Role.CLUSTERING, n in descending) for n, t in (clustering or {}).items()]
    columns += [Column(n, t, Role.STATIC) for n, t in (statics or {}).items()]
    columns += [Column(n, t) for n, t in (regulars or {}).items()]
    gone = tuple(DroppedColumn(n, at) for n, at in (dropped or {}).items())
    return TableSchema("tests", name, tuple(columns), gone)


@dataclass(frozen=True, slots=True)
class Subject:
    """A schema to make histories of, and the kind of source they come from."""

    schema: TableSchema
    order: WriteOrder = WriteOrder.MICROS
    is_positioned: bool = False

    @property
    def name(self) -> str:
        """The table's name."""
        return self.schema.name

    @property
    def relation(self) -> Relation:
        """The canonical relation of its facts."""
        return Relation(self.schema, self.order, self.is_positioned)


NARROW = Subject(
    table(
        "narrow",
        partition={"case": INT},
        clustering={"c": INT},
        statics={"s": TEXT},
        regulars={"v": INT, "w": FLOAT, "e": SetOf(INT, frozen=False)},
    )
)
"""Few columns: a plan of the strategy self_join grows with them, and Spark plans slowly."""

PLAIN = Subject(
    table(
        "plain",
        partition={"case": INT, "id": TEXT},
        regulars={
            **{f"R_{kind.value}": scalar(kind) for kind in CASSANDRA_KINDS},
            "fl": ListOf(INT),
            "fs": SetOf(DECIMAL),
            "fm": MapOf(TEXT, DOUBLE),
            "tu": TupleOf((INT, TEXT)),
            "ve": VectorOf(FLOAT, 3),
            "fu": every_kind(frozen=True),
        },
    )
)
"""No clustering: a column of every scalar type and of every type stored as one cell."""

FIELDS = Subject(table("fields", partition={"case": INT}, regulars={"u": every_kind(frozen=False), "v": INT}))
"""A user type with a cell of every scalar type."""

WIDE = Subject(
    table(
        "wide",
        partition={"case": INT, "p": DECIMAL, "q": DOUBLE},
        clustering={"c1": INT, "c2": TIMEUUID, "c3": DECIMAL},
        descending=("c1", "c3"),
        statics={"s": BIGINT, "sm": MapOf(TEXT, INT, frozen=False), "sf": TupleOf((INT, TEXT))},
        regulars={
            "v": BIGINT,
            "l": ListOf(TEXT, frozen=False),
            "e": SetOf(DECIMAL, frozen=False),
            "m": MapOf(DOUBLE, INT, frozen=False),
            "mm": MapOf(ListOf(INT), FLOAT, frozen=False),
            "u": Udt("tests", "trio", (("a", INT), ("B b", DOUBLE), ("c", ListOf(TEXT))), frozen=False),
        },
    )
)
"""Composite keys that SQL would confuse, statics, and every multi-cell type."""

KEYS = Subject(
    table(
        "keys",
        partition={"case": INT, "p": TupleOf((INT, FLOAT))},
        clustering={
            "k1": UUID,
            "k2": VARINT,
            "size": TEXT,
            "k4": BLOB,
            "k5": INET,
            "k6": FLOAT,
            "inclusive": DATE,
            "k8": TupleOf((DECIMAL, DOUBLE)),
        },
        descending=("k2", "k4", "inclusive"),
        statics={"Static Col": INT},
        regulars={"it's": INT, "se": SetOf(TIMEUUID, frozen=False)},
    )
)
"""Clustering columns of many types, both orders, with ranges over every prefix of them; hostile names."""

READDED = Subject(
    table(
        "readded",
        partition={"case": INT},
        clustering={"c": SMALLINT},
        statics={"s": INT},
        regulars={
            "kept": INT,
            "v": INT,
            "l": ListOf(INT, frozen=False),
            "u": Udt("tests", "pair", (("a", INT), ("b", TEXT)), frozen=False),
        },
        dropped={"s": MIDDLE, "v": MIDDLE, "l": MIDDLE, "u": MIDDLE, "gone": MIDDLE},
    )
)
"""Columns that were dropped and added again (rule W6)."""

LOGGED = Subject(
    table(
        "logged",
        partition={"case": INT, "id": BIGINT, "num": DECIMAL},
        regulars={**{f"r_{kind.value}": scalar(kind) for kind in RELATIONAL_KINDS}, "r_array": ListOf(INT)},
    ),
    WriteOrder.LOG_POSITION,
    is_positioned=True,
)
"""Whole rows of a relational source, with truncates (the S rules)."""

SUBJECTS = (NARROW, PLAIN, FIELDS, WIDE, KEYS, READDED, LOGGED)
