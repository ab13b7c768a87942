"""Compares a contract with the views of tables, except what it leaves out, and adds its rules to a table's data tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from cdc_views.errors import CdcViewsError, ConfigError
from cdc_views.export.contracts.document import Contract, Element
from cdc_views.export.contracts.rules import rules_for
from cdc_views.export.contracts.source import PROPERTY, source_schema
from cdc_views.export.contracts.writing import object_of
from cdc_views.model.schema import Column, TableSchema
from cdc_views.quality.checks import MOST_PLACES, Check, Report
from cdc_views.quality.conditions import is_of_rows, test_name
from cdc_views.quality.validating import validate_table
from cdc_views.sql.dialects import dialect

if TYPE_CHECKING:
    from cdc_views.operations.context import TableContext
    from cdc_views.project.models import DataTest

_T = exp.DataType.Type
_ORDERS: tuple[tuple[Any, ...], ...] = (
    (_T.TINYINT, _T.SMALLINT, _T.INT, _T.BIGINT, _T.INT128),
    (_T.FLOAT, _T.DOUBLE),
    ("i8", "i16", "i32", "i64", "i128"),
    ("f32", "f64"),
    ("integer", "number"),
)
"""From narrow to wide."""
_OLDER = {("object", "map"), ("array", "map"), ("array", "vector")}
"""Pairs (contract, view): the best that versions before 3.2 of the standard could express."""
_MATCHES = Check("matches_contract", "the view is what the contract says: columns, types, keys", unit="differences")
_COVERED = Check("contract_is_tested", "each rule of the contract is a data test", unit="rules")


class Fit(Enum):
    """The relation of a promised type to the actual type."""

    SAME = "same"
    NARROWER = "narrower in the contract"
    WIDER = "wider in the contract"
    OTHER = "of another type"
    UNKNOWN = "not compared"


class ContractVerdict(str, Enum):
    """Whether the difference misleads a reader who trusts the contract."""

    DIFFERS = "differs"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class ContractDifference:
    """One difference; `contract` and `found` are the two sides, empty if one has nothing. `table` is the object's name if there
    is no such table; `element` is a column or a part of one, empty for the whole table; `where` is `file:line` in the contract.
    """

    table: str
    element: str
    what: str
    contract: str
    found: str
    verdict: ContractVerdict
    where: str


def compare(contract: Contract, tables: Sequence[TableContext], *, is_selection: bool) -> list[ContractDifference]:
    """Return the differences between a contract and tables of a project; raises `ConfigError` for a contract without tables.
    `is_selection`: the tables were selected, so each must be in the contract, which may have others.
    """
    if not contract.objects:
        raise ConfigError(f"{contract.path}: describes no table; `schema` with an object per table was expected")
    found = [(table, contract.object_of(table)) for table in tables]
    described = [_Table(contract, table, part) for table, part in found if part is not None]
    differs = ContractVerdict.DIFFERS
    if is_selection:
        where, lacking = contract.where(("schema",)), [table.name for table, part in found if part is None]
        alone = [ContractDifference(name, "", "is not in the contract", "", "a table", differs, where) for name in lacking]
    else:
        known = [one.described.place for one in described]
        others = [(part.name, contract.where(part.place)) for part in contract.objects if part.place not in known]
        alone = [ContractDifference(name, "", "no such table", "a table", "", differs, where) for name, where in others]
    return [*alone, *(difference for one in described for difference in one.differences())]


@dataclass(frozen=True, slots=True)
class _Table:
    contract: Contract
    table: TableContext
    described: Element

    def differences(self) -> Iterator[ContractDifference]:
        ours = object_of(self.table)
        yield from self._columns(self.described, ours["properties"], ())
        if any(True for _ in self.described.parts("properties")):
            yield from self._key(ours, "primaryKey", "primaryKeyPosition", "key")
            yield from self._key(ours, "partitioned", "partitionKeyPosition", "partition key")
        yield from self._untested()
        yield from self._source()

    def _difference(
        self, part: Element, element: str, what: str, said: Any, found: Any, verdict: ContractVerdict = ContractVerdict.DIFFERS
    ) -> ContractDifference:
        return ContractDifference(self.table.name, element, what, str(said), str(found), verdict, self.contract.where(part.place))

    def _columns(self, described: Element, ours: list[dict[str, Any]], path: tuple[str, ...]) -> Iterator[ContractDifference]:
        by_name = {part["name"]: part for part in ours}
        said = {part.name: part for part in described.parts("properties")}
        for name, part in said.items():
            if name not in by_name:
                yield self._difference(part, ".".join((*path, name)), "missing", part.value.get("logicalType", "a column"), "")
            else:
                yield from self._type(part, by_name[name], (*path, name))
        for name in by_name.keys() - said.keys() if said else ():
            found = by_name[name]["physicalType"]
            yield self._difference(described, ".".join((*path, name)), "not in the contract", "", found, ContractVerdict.NOTE)

    def _type(self, part: Element, ours: dict[str, Any], path: tuple[str, ...]) -> Iterator[ContractDifference]:
        unlike = [*self._unlike(part, part.value, ours, "logicalType", path)]
        yield from unlike
        if unlike:
            return
        yield from self._unlike(part, part.value, ours, "physicalType", path)
        if part.value.get("physicalType") is None and part.value.get("logicalType") != "string":
            said, found = part.value.get("logicalTypeOptions") or {}, ours.get("logicalTypeOptions") or {}
            for option in ("format", "timezone", "dimensions"):  # widths and time zones, if no physical type has them
                yield from self._unlike(part, said, found, option, path)
        for keys in (("items",), ("map", "key"), ("map", "value")):
            inner, there = part.part(*keys), Element(ours, ()).part(*keys)
            if inner is not None and there is not None:
                yield from self._type(inner, dict(there.value), (*path, keys[-1]))
        if ours.get("properties"):
            yield from self._columns(part, ours["properties"], path)

    def _unlike(
        self, part: Element, said: Mapping[str, Any], ours: Mapping[str, Any], key: str, path: tuple[str, ...]
    ) -> Iterator[ContractDifference]:
        if said.get(key) is None or key not in ours:
            return
        fit = fit_of(said[key], ours[key], key=key, dialect=dialect(self.table.project.config.engine).sqlglot_name)
        if fit is not Fit.SAME:
            verdict = ContractVerdict.DIFFERS if fit in (Fit.NARROWER, Fit.OTHER) else ContractVerdict.NOTE
            yield self._difference(part, ".".join(path), fit.value, said[key], ours[key], verdict)

    def _key(self, ours: dict[str, Any], flag: str, position: str, what: str) -> Iterator[ContractDifference]:
        said = _key_of([part.value for part in self.described.parts("properties")], flag, position)
        found = _key_of(ours["properties"], flag, position)
        if said and said != found:
            yield self._difference(self.described, "", f"{what} differs", ", ".join(said), ", ".join(found))

    def _untested(self) -> Iterator[ContractDifference]:
        tests = {(test.column, test.not_null) for test in self.table.config.tests}
        for test in rules_for(self.contract, self.table).tests:
            part = next((p for p in self.described.parts("properties") if p.name == test.column), self.described)
            if test.not_null and part.value.get("required") and (test.column, True) not in tests:
                yield self._difference(part, str(test.column), "required without a test", "required", "no not_null test")

    def _source(self) -> Iterator[ContractDifference]:
        """Compare types in the source, if cdc-views exported the contract."""
        if self.described.ours(PROPERTY) is None:
            return
        said, schema = schema_of(self.contract, self.described), self.table.schema
        for column in said.columns:
            if schema.has(column.name) and schema.column(column.name) != column:
                was, now = _source_text(column), _source_text(schema.column(column.name))
                yield self._difference(self.described, column.name, "of another type or role in the source", was, now)


def schema_of(contract: Contract, described: Element) -> TableSchema:
    """Return the source's schema in an exported contract; raises `ConfigError` if it has no valid one."""
    form = described.ours(PROPERTY)
    where = contract.where(described.place)
    try:
        return source_schema(form, where=where)
    except (CdcViewsError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise ConfigError(f"{where}: custom property {PROPERTY!r} of {described.name} is no table schema: {error}") from error


def _source_text(column: Column) -> str:
    return f"{column.role.value} {column.type}{' desc' if column.descending else ''}"


def _key_of(properties: Sequence[Any], flag: str, position: str) -> list[str]:
    """Return the names in key order; columns without a position keep their order."""
    flagged = [part for part in properties if part.get(flag)]
    return [str(part.get("name")) for part in sorted(flagged, key=lambda part: part.get(position) or 0)]


def fit_of(said: Any, found: Any, *, key: str, dialect: str) -> Fit:
    """Return how the contract's value `said` relates to the view's value `found`, both under `key` of a property."""
    if said == found or (said, found) in _OLDER:
        return Fit.SAME
    if key != "physicalType":
        return _ranked(said, found)
    try:
        promised, there = (_parsed(text, dialect) for text in (said, found))
    except (SqlglotError, ValueError):
        return Fit.UNKNOWN
    if promised == there:
        return Fit.SAME
    if promised.is_type(_T.UNKNOWN, _T.USERDEFINED):
        return Fit.UNKNOWN
    if promised.this is there.this or all(kind.is_type(*exp.DataType.TEXT_TYPES) for kind in (promised, there)):
        return _sized(promised, there)
    return _ranked(promised.this, there.this)


def _parsed(text: str, dialect: str) -> exp.DataType:
    """Return the type in a text; keeps a text's length, which DuckDB ignores but a contract promises."""
    found = exp.DataType.build(text, dialect=dialect)
    return exp.DataType.build(text) if found.is_type(*exp.DataType.TEXT_TYPES) and "(" in text else found


def _ranked(said: Any, found: Any) -> Fit:
    for order in _ORDERS:
        if said in order and found in order:
            return Fit.NARROWER if order.index(said) < order.index(found) else Fit.WIDER
    return Fit.OTHER


def _sized(promised: exp.DataType, there: exp.DataType) -> Fit:
    """Compare decimals by digits and texts by length; a text without a length may have any."""
    said, found = _sizes(promised), _sizes(there)
    if promised.is_type(*exp.DataType.TEXT_TYPES):
        longest = [sizes[0] if sizes else None for sizes in (said, found)]
        if longest[0] == longest[1] or longest[0] is None:
            return Fit.SAME if longest[0] == longest[1] else Fit.WIDER
        return Fit.NARROWER if longest[1] is None or longest[0] < longest[1] else Fit.WIDER
    if len(said) == len(found) == 2 and promised.this is _T.DECIMAL:
        whole = [sizes[0] - sizes[1] for sizes in (said, found)]
        return Fit.WIDER if whole[0] >= whole[1] and said[1] >= found[1] else Fit.NARROWER
    return Fit.OTHER


def _sizes(kind: exp.DataType) -> list[int]:
    texts = [part.name for part in kind.expressions]
    return [int(text) for text in texts] if texts and all(text.isdecimal() for text in texts) else []


def validate_with(contract: Contract, table: TableContext, **options: Any) -> Report:
    """Run the data tests of a table and of a contract, and compare the two; `options` are those of `validate_table`. A rule that
    is no data test does not fail: then `contract_is_tested` is skipped, and names it.
    """
    if contract.object_of(table) is None:
        report = validate_table(table, **options)
        return replace(report, checks=(*report.checks, _MATCHES.skipped(f"{contract.path} does not describe the table")))
    rules = rules_for(contract, table)
    report = validate_table(with_tests(table, rules.tests), **options)
    found = compare(contract, [with_tests(table, rules.tests)], is_selection=True)
    broken = [f"{d.where}: {d.element or d.table}: {d.what}" for d in found if d.verdict is ContractVerdict.DIFFERS]
    matches = replace(_MATCHES, broken=len(broken), where=tuple(broken[:MOST_PLACES]))
    told = "; ".join(map(str, rules.unexpressed))
    covered = _COVERED.skipped(told) if told else replace(_COVERED, note=f"{len(rules.tests) + len(rules.kept)} rules")
    return replace(report, checks=(*report.checks, matches, covered))


def with_tests(table: TableContext, tests: Sequence[DataTest]) -> TableContext:
    """Return the table with more data tests, without duplicates, and each under its own name."""
    kept = list(table.config.tests)
    taken = {test_name(test) for test in kept if is_of_rows(test)}
    for test in tests:
        if test in kept:
            continue
        if is_of_rows(test):
            names = (test_name(test) if n == 1 else f"{test_name(test)}.{n}" for n in count(1))
            name = next(name for name in names if name not in taken)
            taken.add(name)
            test = test if name == test_name(test) else test.model_copy(update={"name": name})
        kept.append(test)
    return replace(table, config=table.config.model_copy(update={"tests": tuple(kept)}))
