"""The page of the project file's keys: from the models that check it."""

from __future__ import annotations

import types
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from page_text import code, docstring, page, table
from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from cdc_views.formats.base import FormatOptions
from cdc_views.formats.registry import format_class, format_names
from cdc_views.model.config_part import Name
from cdc_views.model.plugins import PluginGroup, plugin_names
from cdc_views.project.loading import project_model

PLACES: dict[str, str] = {}


def project_file_page() -> str:
    """Every key with its type, default and meaning, one section per part of the file."""
    intro = (
        "The keys of `cdc_views.yml`. An example and what goes with it: [the\n"
        "project file](../how-to/project-file.md). An unknown key or a value\n"
        "of another type is an error with its line. `cdc-views init --json-schema` prints the same as JSON Schema, for editors.\n"
    )
    parts = list(_parts(project_model(plugin_names(PluginGroup.ENGINE)), "the file"))
    return page("Project file: keys", intro, *(_section(name, model) for name, model in parts))


def _parts(model: type[BaseModel], name: str) -> Iterator[tuple[str, type[BaseModel]]]:
    yield name, model
    for key, field in model.model_fields.items():
        for inner in _models(field.annotation):
            place = (field.alias or key) if name == "the file" else f"{name}.{field.alias or key}"
            if inner is FormatOptions:
                yield from _format_options(place)
            else:
                yield from _parts(inner, place)


def _format_options(place: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """One part for each format that takes options."""
    for name in format_names():
        if (model := format_class(name).options) is not None:
            yield f"{place}` of format `{name}", model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _section(name: str, model: type[BaseModel]) -> str:
    heading = "The file" if name == "the file" else f"`{name}`"
    rows = [
        (
            code(field.alias or key),
            _choices(field) or _type(field.annotation),
            _default(field),
            field.description or _of_part(field.annotation),
        )
        for key, field in model.model_fields.items()
    ]
    return f"## {heading}\n\n{docstring(model)}\n{table(('key', 'type', 'default', 'meaning'), rows)}"


def _of_part(annotation: Any) -> str:
    """The meaning of a key that is a part of its own: the first line of the part's docstring."""
    found = next(_models(annotation), None)
    return docstring(found).splitlines()[0] if found is not None else ""


def _choices(field: Any) -> str:
    """The names of plug-ins, of a key that takes one; empty for any other."""
    if not callable(field.json_schema_extra):
        return ""
    schema: dict[str, Any] = {}
    field.json_schema_extra(schema)
    return ", ".join(map(code, schema["enum"]))


_NAMES = {str: "text", SecretStr: "text", int: "whole number", float: "number", bool: "true or false", type(None): "null"}


def _type(annotation: Any) -> str:
    origin, parts = get_origin(annotation), [part for part in get_args(annotation) if part is not type(None)]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(code(member.value) for member in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "keys"
    if origin is Literal:
        return ", ".join(code(str(part).lower()) for part in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_type, parts)))
    if origin is dict:
        return f"{'column' if parts[0] == Name else 'name'}: {_type(parts[1])}"
    if origin is tuple:
        return f"list of {_type(parts[0])}"
    if hasattr(annotation, "__metadata__"):
        return _type(parts[0])
    return _NAMES[annotation]


def _default(field: Any) -> str:
    if field.is_required():
        return "**required**"
    value = field.default_factory() if field.default_factory is not None else field.default
    if value is None or value is PydanticUndefined or value in ((), {}) or isinstance(value, BaseModel):
        return ""
    return code(value.value if isinstance(value, Enum) else value)
