"""Reads contract files with the line of every value, and checks them with the standard's JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_views.engines.plugin import engines_that
from cdc_views.errors import ConfigError, UnsupportedError, did_you_mean
from cdc_views.model.extras import needs
from cdc_views.project.yaml_marks import MarkedYaml, read_yaml
from cdc_views.project.yaml_marks import Path as Place

if TYPE_CHECKING:
    from jsonschema import ValidationError

    from cdc_views.operations.context import ProjectContext, TableContext

WRITTEN = "v3.2.0"
"""The version of the standard that we write."""
READ = ("v3.0.0", "v3.0.1", "v3.0.2", "v3.1.0", WRITTEN)
"""The versions that we read; the schema of the newest one, which kept everything in the others, checks them all."""
VENDOR = "cdc-views"
"""Marks parts that only we can read: custom properties' `vendor`, custom rules' `engine`."""


@dataclass(frozen=True, slots=True)
class Element:
    """One part of a contract: its value, and its place in the document."""

    value: Mapping[str, Any]
    place: Place

    def parts(self, key: str) -> Iterator[Element]:
        """Yield the entries of the list under `key`, if any."""
        for index, value in enumerate(self.value.get(key) or ()):
            yield Element(value, (*self.place, key, index))

    def part(self, *keys: str) -> Element | None:
        """Return the part under the keys, or None."""
        found: Any = self.value
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return Element(found, (*self.place, *keys)) if isinstance(found, Mapping) else None

    @property
    def name(self) -> str:
        """Its `name`; empty without one."""
        return str(self.value.get("name") or "")

    def ours(self, name: str) -> Any:
        """Return the value of one of our custom properties, or None."""
        for found in self.value.get("customProperties") or ():
            if found.get("vendor") == VENDOR and found.get("property") == name:
                return found.get("value")
        return None


@dataclass(frozen=True, slots=True)
class Contract:
    """A contract that conforms to the standard."""

    path: Path
    marked: MarkedYaml
    root: Element

    @property
    def objects(self) -> tuple[Element, ...]:
        """Its schema objects: tables and the like."""
        return tuple(self.root.parts("schema"))

    def where(self, place: Place) -> str:
        """Return `file:line` of a part."""
        return f"{self.path}:{self.marked.line(place)}"

    def object_of(self, table: TableContext) -> Element | None:
        """Return the object with a table's full name, else the only one with its own or its view's name; None without. Raises
        `UnsupportedError` as `check_types_are_known` does.
        """
        check_types_are_known(table.project)
        config = table.config
        view = f"{config.keyspace}.{config.view_name}" if config.keyspace else config.view_name
        for names in ({table.name, view}, {config.table, config.view_name}):
            found = [part for part in self.objects if {part.name, part.value.get("physicalName")} & names]
            if len(found) == 1:
                return found[0]
        return None


def check_types_are_known(project: ProjectContext) -> None:
    """Raise `UnsupportedError` if a remote warehouse keeps the views, because their types are unknown here."""
    if project.is_remote:
        raise UnsupportedError(
            f"{project.file}: with `engine: {project.config.engine}` the types of views are not known",
            remedy=f"use engine {' or '.join(engines_that(lambda plugin: not plugin.keeps_tables))}",
        )


def read_contract(path: Path) -> Contract:
    """Return the contract in a YAML or JSON file.

    Raises `ConfigError` with the line if the file is missing, is not YAML, or breaks the standard; `MissingExtraError` without
    the packages for the standard.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name a data contract, a YAML file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (byte {error.start}); a data contract in UTF-8 was expected") from error
    marked = read_yaml(text, where=str(path), environment=None)
    # YAML reads dates as dates; the standard has texts
    document = json.loads(json.dumps(marked.document, default=str))
    _check_kind(document, marked, path)
    _check_schema(document, marked, path)
    return Contract(path, marked, Element(document, ()))


def _check_kind(document: Any, marked: MarkedYaml, path: Path) -> None:
    """Check first that the file is a contract, because later errors would only follow from that."""
    if not isinstance(document, dict):
        raise ConfigError(f"{path}:1: is no data contract; keys apiVersion, kind, id, version and schema were expected")
    for key, known in (("kind", ("DataContract",)), ("apiVersion", READ)):
        if key not in document:
            raise ConfigError(f"{path}:1: key {key!r} is missing; a data contract has `{key}: {known[-1]}`")
        if document[key] not in known:
            hint = did_you_mean(str(document[key]), known)
            raise ConfigError(f"{path}:{marked.line((key,))}: {key} is {document[key]!r}, which cannot be read{hint}")


def _check_schema(document: Any, marked: MarkedYaml, path: Path) -> None:
    from jsonschema.exceptions import best_match

    errors = list(_validator().iter_errors(document))
    # keys count as unknown if their part breaks another rule; then that rule is the mistake
    error = best_match([e for e in errors if e.validator != "unevaluatedProperties"] or errors)
    if error is not None:
        place = tuple(error.absolute_path)
        named = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
        raise ConfigError(f"{path}:{marked.line(place)}: {named or 'the contract'}: {_message(error)} (ODCS {WRITTEN})")


def _message(error: ValidationError) -> str:
    """Return the schema's complaint without the value, because a contract may contain examples of data."""
    match error.validator:
        case "required":
            missing = [key for key in error.validator_value if key not in error.instance]
            return f"key {missing[0]!r} is missing"
        case "enum":
            return f"{error.instance!r} was not expected{did_you_mean(str(error.instance), map(str, error.validator_value))}"
        case "type":
            return f"{error.validator_value} was expected"
        case "additionalProperties" | "unevaluatedProperties":
            return "unknown keys" + str(error.message).partition("properties")[2]
        case "oneOf" | "anyOf":
            return "is of none of the forms that the standard has here, or of more than one"
    return f"breaks `{error.validator}: {error.validator_value}`"


@cache
def _validator() -> Any:
    with needs("a data contract", extra="contracts"):
        from jsonschema import Draft201909Validator

        schema = resources.files("open_data_contract_standard") / "schema.json"
    return Draft201909Validator(json.loads(schema.read_text(encoding="utf-8")))
