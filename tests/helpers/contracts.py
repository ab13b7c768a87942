"""Random schemas with hostile names, and random data tests of them: for what is written about tables, not for their rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from cdc_views.api import Project, Table
from cdc_views.model.schema import Column, DroppedColumn, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf

names = st.one_of(
    st.sampled_from(["id", "a b", "it's", 'say "x"', "{{ x }}", "$x", "# no", "a: b", "no", "1", "_op", "x.y", "é", "- x"]),
    st.text("ab'\"`{}%:#.- ,\\\n\t\u00e9\u4e2d\U0001f600", min_size=1, max_size=6),
)
_kinds = st.sampled_from([kind for kind in Kind if kind is not Kind.COUNTER])
scalars = st.builds(Scalar, _kinds) | st.builds(
    lambda scale, precision: Scalar(Kind.DECIMAL, scale, precision), st.integers(0, 9), st.none() | st.integers(9, 40)
)


def _frozen(parts: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[LogicalType]:
    return st.one_of(
        st.builds(ListOf, parts),
        st.builds(SetOf, parts),
        st.builds(MapOf, parts, parts),
        st.builds(lambda fields: TupleOf(tuple(fields)), st.lists(parts, min_size=1, max_size=3)),
        st.builds(VectorOf, parts, st.integers(1, 4)),
    )


frozen_types = st.recursive(scalars, _frozen, max_leaves=4)


@st.composite
def schemas(draw: st.DrawFn) -> TableSchema:
    """Draw a table: every role, nested and multi-cell types, user types, dropped columns."""
    listed = draw(st.lists(names, min_size=2, max_size=7, unique=True))
    user_types = draw(st.dictionaries(names, st.dictionaries(names, frozen_types, min_size=1, max_size=3), max_size=2))
    known = [Udt("ks", name, tuple(fields.items())) for name, fields in user_types.items()]
    some = frozen_types | st.sampled_from(known) if known else frozen_types
    roles = [Role.PARTITION, *draw(st.lists(st.sampled_from(Role), min_size=len(listed) - 1, max_size=len(listed) - 1))]
    if Role.CLUSTERING not in roles:
        roles = [Role.REGULAR if role is Role.STATIC else role for role in roles]
    columns = []
    for name, role in zip(listed, roles, strict=True):
        kind = draw(some)
        is_key = role in (Role.PARTITION, Role.CLUSTERING)
        if not is_key and isinstance(kind, (ListOf, SetOf, MapOf, Udt)) and draw(st.booleans()):
            kind = replace(kind, frozen=False)
        columns.append(Column(name, kind, role, role is Role.CLUSTERING and draw(st.booleans())))
    shuffled = draw(st.permutations(columns))
    dropped = draw(st.lists(st.builds(DroppedColumn, names, st.integers(0, 9), st.none() | scalars), max_size=2))
    return TableSchema("ks", draw(names.filter(lambda name: "." not in name)), tuple(shuffled), tuple(dropped))


@st.composite
def data_tests(draw: st.DrawFn, schema: TableSchema) -> dict[str, Any]:
    """Draw a data test of a table, as the project file has it."""
    column = draw(st.sampled_from([column.name for column in schema.columns]))
    quoted = '"' + column.replace('"', '""') + '"'
    kind = schema.column(column).type
    is_text = isinstance(kind, Scalar) and kind.kind in (Kind.DECIMAL, Kind.VARINT)  # a comparison with numbers is refused
    texts = st.text("ab'\"no1-:\n", max_size=3)
    one_kind = st.sampled_from([texts] if is_text else [texts, st.integers(-9, 9)])
    values = one_kind.flatmap(lambda value: st.lists(value, min_size=1, max_size=3))
    span = st.builds(lambda n, unit: f"{n}{unit}", st.integers(0, 99), st.sampled_from("smhd"))
    said = draw(
        st.one_of(
            st.just({"column": column, "not_null": True}),
            st.builds(lambda listed: {"column": column, "one_of": listed}, values),
            st.builds(lambda name: {"name": name, "holds": f"{quoted} IS NOT NULL"}, names),
            st.builds(lambda text: {"fresh_within": text}, span),
            st.builds(lambda text: {"lag_within": text}, span),
            st.builds(lambda name, at: {"truth": name, "as_of": at}, names, st.integers(0, 9)),
        )
    )
    more = draw(st.fixed_dictionaries({}, optional={"name": names, "severity": st.sampled_from(["error", "warning"])}))
    return more | said


@dataclass(frozen=True)
class Described:
    """A schema and the data tests of a project file."""

    schema: TableSchema
    tests: list[dict[str, Any]]

    def table(self, folder: Path) -> Table:
        """Return the table of a new project in `folder`."""
        (folder / "schema.cql").touch()
        name = self.schema.full_name
        entry = {"name": name, "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}, "tests": self.tests}
        (folder / "cdc_views.yml").write_text(json.dumps({"name": "tests", "engine": "duckdb", "tables": [entry]}))
        (made,) = Project.load(folder / "cdc_views.yml").tables
        made.__dict__["schema"] = self.schema
        return made


described = schemas().flatmap(lambda schema: st.builds(Described, st.just(schema), st.lists(data_tests(schema), max_size=4)))
