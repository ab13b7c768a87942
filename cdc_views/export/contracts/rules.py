"""A contract's rules as data tests of the project file. Lists every rule that is no data test, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlglot
from pydantic import ValidationError
from sqlglot import exp
from sqlglot.errors import SqlglotError

from cdc_views.engines.duckdb.types import quoted
from cdc_views.errors import CdcViewsError
from cdc_views.export.contracts.document import VENDOR, Contract, Element
from cdc_views.export.contracts.writing import INVARIANTS, SPANS, is_unique, span_of
from cdc_views.model.schema import TableSchema
from cdc_views.plan.where import parse_where
from cdc_views.project.models import DataTest
from cdc_views.quality.conditions import condition_of, never_null

if TYPE_CHECKING:
    from cdc_views.operations.context import TableContext


_PLACE = re.compile(r"\$?\{+\s*(object|table|model)\s*\}+", re.IGNORECASE)
_TABLE = "cdc_views_object"
_MINOR = frozenset({"warning", "warn", "info", "minor", "low"})


@dataclass(frozen=True, slots=True)
class NoTest:
    """The reason why no data test can express a rule."""

    why: str


def severity_of(rule: Mapping[str, Any]) -> str:
    """Return the severity of a rule; a rule that is not marked as minor is an error."""
    return "warning" if str(rule.get("severity") or "").lower() in _MINOR else "error"


def is_none(rule: Mapping[str, Any]) -> bool:
    """Return whether the rule states, in any form, that what it counts must not occur at all."""
    given = {name: value for name, value in rule.items() if name.startswith(("mustBe", "mustNotBe"))}
    if len(given) != 1:
        return False
    ((name, bound),) = given.items()
    if isinstance(bound, bool) or not isinstance(bound, (int, float)):
        return False
    is_percent = rule.get("unit") == "percent"
    return bound == 0 if name in ("mustBe", "mustBeLessOrEqualTo") else name == "mustBeLessThan" and bound == 1 and not is_percent


_UNRELATED = NoTest("tables are not compared with each other")
_OTHER = NoTest("only `SELECT COUNT(*) FROM {object} WHERE …` in DuckDB's dialect is understood")


def counted_condition(query: str, names: Set[str]) -> str | NoTest:
    """Return the condition of a query that counts rows, in DuckDB's dialect; `names` are the table's own."""
    try:
        (tree,) = sqlglot.parse(_PLACE.sub(_TABLE, query), read="duckdb")
    except (SqlglotError, ValueError, RecursionError):
        return _OTHER
    source, where = (tree.find(exp.From), tree.args.get("where")) if isinstance(tree, exp.Select) else (None, None)
    if tree is None or source is None or where is None or not isinstance(source.this, exp.Table):
        return _OTHER
    table, counted = source.this, [one.unalias() for one in tree.expressions]
    understood = exp.select("COUNT(*)", dialect="duckdb").from_(table.copy()).where(where.this.copy())
    tree.set("expressions", counted)
    if tree != understood or any(value for key, value in table.args.items() if key not in ("this", "db")):
        return _OTHER
    named = ".".join(part.name for part in table.parts)
    if named != _TABLE and named not in names:
        return _OTHER
    return str(where.this.sql(dialect="duckdb"))


RuleTest = dict[str, Any] | str | NoTest
"""The keys of a data test, the name of a check that always runs, or why it is neither."""
Rule = tuple[str, Element, RuleTest]
"""A rule's name, its place, and the test that it becomes."""
_BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
_LENGTHS = {"minLength": ">=", "maxLength": "<="}
_NO_RULES = frozenset({"format", "timezone", "defaultTimezone", "dimensions", "elementType"})
"""Options that describe the type; comparing schemas covers them."""
_ADVICE = frozenset({"distanceMetric", "embeddingModel", "embeddingModelVersion", "normalized"})


def _column_rules(column: Element, table: TableContext) -> Iterator[Rule]:
    schema = table.schema
    rules = [(rule, _of_quality(rule, table, column.name)) for rule in column.parts("quality")]
    for rule, test in rules:
        yield _called(rule), rule, test
    tests = [test for _, test in rules if isinstance(test, dict)]
    if column.value.get("required") and not any(test.get("not_null") for test in tests):
        is_sure = schema.has(column.name) and never_null(schema, schema.column(column.name))
        yield "required", column, "key_not_null" if is_sure else {"column": column.name, "not_null": True}
    if column.value.get("unique"):
        yield "unique", column, _unique(column.name, schema)
    if column.value.get("enum"):
        yield "enum", column, _one_of(column.name, [part.value["value"] for part in column.parts("enum")])
    for option, value in (column.value.get("logicalTypeOptions") or {}).items():
        if option not in _NO_RULES | _ADVICE:
            yield option, column, _of_option(column, option, value)
    for element in column.parts("relationships"):
        yield "a relationship", element, _UNRELATED
    yield from _inside(column)


def _of_quality(rule: Element, table: TableContext, column: str) -> RuleTest:
    """Return the test of a column's rule; without a column name, of a rule of the whole table."""
    said = rule.value
    kind = said.get("type", "library")
    if kind == "text":
        return NoTest("it is a text for people")
    if kind == "custom":
        return _custom(rule) if not column else NoTest(f"it is a rule for {said.get('engine')}")
    if kind == "sql":
        return _of_query(rule, table, column) if is_none(said) else NoTest("only counts that must be 0 are tested")
    return _of_column(rule, table.schema, column) if column else _of_rows(said, table.schema)


def _of_query(rule: Element, table: TableContext, column: str) -> RuleTest:
    query, names = str(rule.value["query"]), {table.name, table.config.table, table.config.view_name}
    if column:
        names = {table.schema.full_name, table.schema.name}
        for place in ("${property}", "${column}", "{property}", "{column}"):
            query = query.replace(place, quoted(column))
    condition = counted_condition(query, names)
    if isinstance(condition, NoTest):
        return condition
    name = rule.name or (f"sql.{column}" if column else "sql")
    return {"name": name, "holds": f"NOT ({condition})", "severity": severity_of(rule.value)}


def _of_column(rule: Element, schema: TableSchema, column: str) -> RuleTest:
    said, common = rule.value, {"name": rule.value.get("name"), "severity": severity_of(rule.value)}
    if not is_none(said):
        return NoTest("only counts that must be 0 are tested")
    arguments: Mapping[str, Any] = said.get("arguments") or {}
    match said.get("metric"):
        case "nullValues":
            return {"column": column, "not_null": True, **common}
        case "duplicateValues":
            return _unique(column, schema)
        case "invalidValues" if set(arguments) == {"validValues"}:
            found = _one_of(column, arguments["validValues"])
            return found | common if isinstance(found, dict) else found
        case "missingValues" if set(arguments) == {"missingValues"}:
            found = _none_of(column, arguments["missingValues"])
            return found | {**common, "name": common["name"] or f"missing.{column}"} if isinstance(found, dict) else found
        case "invalidValues":
            return NoTest("a pattern means another thing to each engine; say it with `holds`")
    return _uncounted(said)


def _of_rows(said: Mapping[str, Any], schema: TableSchema) -> RuleTest:
    if said.get("metric") == "duplicateValues" and is_none(said):
        columns = set((said.get("arguments") or {}).get("properties") or ())
        keys = {column.name for column in schema.row_key}
        return "one_row_per_key" if keys <= columns else NoTest(f"only the key ({', '.join(sorted(keys))}) is known to be unique")
    if said.get("metric") in ("nullValues", "missingValues", "invalidValues"):
        return NoTest("it stands at a table, not at a column")
    return _uncounted(said)


def _uncounted(said: Mapping[str, Any]) -> NoTest:
    return NoTest(f"{said.get('metric') or said.get('rule')!r} is not counted")


def _unique(column: str, schema: TableSchema) -> RuleTest:
    is_key = schema.has(column) and is_unique(schema, schema.column(column))
    return "one_row_per_key" if is_key else NoTest("only a key is known to be unique")


def _one_of(column: str, values: list[Any]) -> RuleTest:
    kept = [value for value in values if value is not None]
    if not kept or not all(isinstance(value, (str, int, bool)) for value in kept):
        return NoTest("`one_of` takes texts, whole numbers and booleans")
    return {"column": column, "one_of": kept}


def _none_of(column: str, values: list[Any]) -> RuleTest:
    kept = [value for value in values if value is not None]
    if not values or not all(isinstance(value, (str, int, bool)) for value in kept):
        return NoTest("a list of texts, whole numbers and booleans was expected")
    listed = condition_of(DataTest.model_validate({"column": column, "one_of": kept})) if kept else None
    not_null = condition_of(DataTest.model_validate({"column": column, "not_null": True}))
    assert not_null is not None
    parts = [f"NOT ({not_null.text} AND ({listed.text}))"] if listed else []
    return {"holds": " AND ".join(parts + ([not_null.text] if None in values else []))}


def _of_option(column: Element, option: str, value: Any) -> RuleTest:
    name = quoted(column.name)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if option in _BOUNDS and is_number and column.value.get("logicalType") in ("integer", "number"):
        return {"name": f"{option}.{column.name}", "holds": f"{name} {_BOUNDS[option]} {value}"}
    if option in _LENGTHS and is_number:
        return {"name": f"{option}.{column.name}", "holds": f"length({name}) {_LENGTHS[option]} {value}"}
    if option in ("uniqueItems", "minItems", "maxItems"):
        return NoTest("values inside lists are not tested")
    return NoTest(f"{option!r} is not tested; say it with `holds`")


def _inside(column: Element, *path: str) -> Iterator[Rule]:
    parts = [*column.parts("properties"), column.part("items"), column.part("map", "key"), column.part("map", "value")]
    for part in parts:
        if part is None:
            continue
        where = (*path, part.name or str(part.place[-1]))
        options = set(part.value.get("logicalTypeOptions") or {}) - _NO_RULES - _ADVICE
        if options or any(part.value.get(key) for key in ("quality", "required", "unique", "enum", "relationships")):
            yield f"what is said of {'.'.join(where)}", part, NoTest("values inside nested ones are not tested")
        yield from _inside(part, *where)


@dataclass(slots=True)
class Rules:
    """A contract's rules for one table: data tests, checks that always run, and place and reason of rules that are neither."""

    tests: list[DataTest] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    unexpressed: list[str] = field(default_factory=list)


def rules_for(contract: Contract, table: TableContext) -> Rules:
    """Return a contract's rules for a table; empty if it does not describe the table."""
    found = Rules()
    described = contract.object_of(table)
    if described is None:
        return found
    for what, element, asked in _described_rules(contract, table, described):
        if isinstance(asked, str):
            found.kept.append(asked)
            continue
        test = asked if isinstance(asked, NoTest) else _checked(table, asked)
        if isinstance(test, NoTest):
            where = contract.where(element.place)
            found.unexpressed.append(f"{where}: {table.name}: {what} is not tested: {test.why}")
        elif test not in found.tests:
            found.tests.append(test)
    return found


def _described_rules(contract: Contract, table: TableContext, described: Element) -> Iterator[Rule]:
    for rule in described.parts("quality"):
        yield _called(rule), rule, _of_quality(rule, table, "")
    for column in described.parts("properties"):
        for what, element, asked in _column_rules(column, table):
            yield f"{column.name}: {what}", element, asked
    for element in described.parts("relationships"):
        yield "a relationship", element, _UNRELATED
    only = len(contract.objects) == 1
    for level in contract.root.parts("slaProperties"):
        about = str(level.value.get("element") or contract.root.value.get("slaDefaultElement") or "")
        if _is_about(about, described, is_only=only):
            yield f"service level {level.value['property']!r}", level, _of_level(level)


def _called(rule: Element) -> str:
    return f"rule {rule.name or rule.value.get('metric') or rule.value.get('type') or 'library'!r}"


def _custom(rule: Element) -> RuleTest:
    if rule.value["engine"] != VENDOR:
        return NoTest(f"it is a rule for {rule.value['engine']}")
    said = rule.value["implementation"]
    if not isinstance(said, dict):
        return NoTest("its implementation is no mapping of a data test's keys")
    if "check" in said:
        name = str(said["check"])
        return name if name in {"one_row_per_key", *INVARIANTS} else NoTest(f"there is no check {name!r}")
    return {"name": rule.value.get("name"), **said, "severity": severity_of(rule.value)}


def _is_about(about: str, described: Element, *, is_only: bool) -> bool:
    """Return whether a service level is about this table: one without an element is about the only table, or about all."""
    names = {described.name, str(described.value.get("physicalName") or "")} - {""}
    listed = [about] if about in names else [part.strip() for part in about.split(",") if part.strip()]
    if not listed:
        return True
    return any(part == name or part.startswith(f"{name}.") for part in listed for name in names) or (
        is_only and all(any(column.name == part for column in described.parts("properties")) for part in listed)
    )


def _of_level(level: Element) -> RuleTest:
    key = SPANS.get(str(level.value["property"]))
    if key is None:
        return NoTest(f"of service levels only {' and '.join(SPANS)} are measured")
    try:
        span = span_of(level.value)
    except ValueError as error:
        return NoTest(str(error))
    return {key: span, "name": level.ours("name"), "severity": level.ours("severity") or "error"}


def _checked(table: TableContext, said: dict[str, Any]) -> DataTest | NoTest:
    try:
        test = DataTest.model_validate({key: value for key, value in said.items() if value is not None})
        condition = condition_of(test)
        if condition is not None:
            parse_where(table.relation.shown, condition)
    except ValidationError as error:
        return NoTest(f"the project file would not take it ({error.errors()[0]['msg']})")
    except CdcViewsError as error:
        return NoTest(str(error))
    return test


def tests_yaml(found: Iterable[tuple[str, Rules]]) -> str:
    """Return tests as text of a project file, table by table."""
    import yaml

    tables = [
        {"name": name, "tests": [test.model_dump(mode="json", exclude_defaults=True) for test in rules.tests]}
        for name, rules in found
    ]
    return yaml.safe_dump({"tables": tables}, sort_keys=False, allow_unicode=True, width=110)
