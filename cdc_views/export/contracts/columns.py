"""The rules of one column of a contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cdc_views.export.contracts.document import Element
from cdc_views.export.contracts.quality import Untold, counted_condition, is_none, severity_of
from cdc_views.export.contracts.writing import is_unique
from cdc_views.export.describing import never_null
from cdc_views.model.schema import TableSchema
from cdc_views.project.models import DataTest
from cdc_views.quality.conditions import condition_of

Said = dict[str, Any] | str | Untold
_BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
_LENGTHS = {"minLength": ">=", "maxLength": "<="}
_NO_RULES = frozenset({"format", "timezone", "defaultTimezone", "dimensions", "elementType"})
"""Options that say the type; comparing schemas is about them."""
_ADVICE = frozenset({"distanceMetric", "embeddingModel", "embeddingModelVersion", "normalized"})


def column_rules(column: Element, schema: TableSchema) -> Iterator[tuple[str, Element, Said]]:
    """Yield each rule of a column: what it is called, where it stands, and what it comes down to."""
    rules = [(rule, _of_quality(rule, column.name, schema)) for rule in column.parts("quality")]
    for rule, said in rules:
        yield f"rule {rule.name or rule.value.get('metric') or rule.value.get('type') or 'library'!r}", rule, said
    told = [said for _, said in rules if isinstance(said, dict)]
    if column.value.get("required") and not any(said.get("not_null") for said in told):
        yield "required", column, _not_null(column.name, schema)
    if column.value.get("unique"):
        yield "unique", column, _unique(column.name, schema)
    if column.value.get("enum"):
        values = [part.value["value"] for part in column.parts("enum")]
        yield "enum", column, _one_of(column.name, values)
    for option, value in (column.value.get("logicalTypeOptions") or {}).items():
        if option not in _NO_RULES | _ADVICE:
            yield option, column, _of_option(column, option, value)
    for element in column.parts("relationships"):
        yield "a relationship", element, Untold("tables are not compared with each other")
    yield from _inside(column)


def _of_quality(rule: Element, column: str, schema: TableSchema) -> Said:
    said, common = rule.value, {"name": rule.value.get("name"), "severity": severity_of(rule.value)}
    kind = said.get("type", "library")
    if kind != "library":
        return _of_other(rule, kind, column, schema)
    if not is_none(said):
        return Untold("only counts that must be 0 are tested")
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
            return Untold("a pattern means another thing to each engine; say it with `holds`")
    return Untold(f"{said.get('metric') or said.get('rule')!r} is not counted")


def _of_other(rule: Element, kind: str, column: str, schema: TableSchema) -> Said:
    if kind == "sql" and is_none(rule.value):
        quoted = '"' + column.replace('"', '""') + '"'
        query = str(rule.value["query"])
        for place in ("${property}", "${column}", "{property}", "{column}"):
            query = query.replace(place, quoted)
        condition = counted_condition(query, {schema.full_name, schema.name})
        if isinstance(condition, Untold):
            return condition
        return {"name": rule.name or f"sql.{column}", "holds": f"NOT ({condition})", "severity": severity_of(rule.value)}
    why = {"text": "it is a text for people", "sql": "only counts that must be 0 are tested"}
    return Untold(why.get(kind, f"it is a rule for {rule.value.get('engine')}"))


def _not_null(column: str, schema: TableSchema) -> Said:
    if schema.has(column) and never_null(schema, schema.column(column)):
        return "key_not_null"
    return {"column": column, "not_null": True}


def _unique(column: str, schema: TableSchema) -> Said:
    is_key = schema.has(column) and is_unique(schema, schema.column(column))
    return "one_row_per_key" if is_key else Untold("only a key is known to be unique")


def _one_of(column: str, values: list[Any]) -> Said:
    kept = [value for value in values if value is not None]
    if not kept or not all(isinstance(value, (str, int, bool)) for value in kept):
        return Untold("`one_of` takes texts, whole numbers and booleans")
    return {"column": column, "one_of": kept}


def _none_of(column: str, values: list[Any]) -> Said:
    kept = [value for value in values if value is not None]
    if not values or not all(isinstance(value, (str, int, bool)) for value in kept):
        return Untold("a list of texts, whole numbers and booleans was expected")
    listed = condition_of(DataTest.model_validate({"column": column, "one_of": kept})) if kept else None
    not_null = condition_of(DataTest.model_validate({"column": column, "not_null": True}))
    assert not_null is not None
    parts = [f"NOT ({not_null.text} AND ({listed.text}))"] if listed else []
    return {"holds": " AND ".join(parts + ([not_null.text] if None in values else []))}


def _of_option(column: Element, option: str, value: Any) -> Said:
    quoted = '"' + column.name.replace('"', '""') + '"'
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if option in _BOUNDS and is_number and column.value.get("logicalType") in ("integer", "number"):
        return {"name": f"{option}.{column.name}", "holds": f"{quoted} {_BOUNDS[option]} {value}"}
    if option in _LENGTHS and is_number:
        return {"name": f"{option}.{column.name}", "holds": f"length({quoted}) {_LENGTHS[option]} {value}"}
    if option in ("uniqueItems", "minItems", "maxItems"):
        return Untold("values inside lists are not tested")
    return Untold(f"{option!r} is not tested; say it with `holds`")


def _inside(column: Element, *path: str) -> Iterator[tuple[str, Element, Said]]:
    """Rules of parts of a nested value, none of which can be tested."""
    parts = [*column.parts("properties"), column.part("items"), column.part("map", "key"), column.part("map", "value")]
    for part in parts:
        if part is None:
            continue
        where = (*path, part.name or str(part.place[-1]))
        options = set(part.value.get("logicalTypeOptions") or {}) - _NO_RULES - _ADVICE
        if options or any(part.value.get(key) for key in ("quality", "required", "unique", "enum", "relationships")):
            yield f"what is said of {'.'.join(where)}", part, Untold("values inside nested ones are not tested")
        yield from _inside(part, *where)
