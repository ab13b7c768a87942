"""The reader of project files: every mistake is an error with its file, line and a suggestion."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, create_model
from pydantic.fields import FieldInfo

from cdc_views.errors import ConfigError, did_you_mean, nearest
from cdc_views.formats.registry import format_class
from cdc_views.model.config_part import ConfigPart
from cdc_views.model.plugins import PluginGroup, plugin_names
from cdc_views.project.engines import project_engine
from cdc_views.project.models import ProjectConfig, RawConfig
from cdc_views.project.yaml_marks import MarkedYaml, read_yaml
from cdc_views.project.yaml_marks import Path as Place


def load_project(path: Path, *, environment: Mapping[str, str] | None = None) -> ProjectConfig:
    """Return the project file at `path`; `environment` (default: this process's) fills `${…}` references. Raises `ConfigError`
    with the line if the file is missing, is not YAML, or has a wrong key or value.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path}: no such project file; make one with `cdc-views init --from SCHEMA`, or name one with --project"
        ) from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); a project file was expected") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (byte {error.start}); a project file in UTF-8 was expected") from error
    marked = read_yaml(text, where=str(path), environment=os.environ if environment is None else environment)
    if not isinstance(marked.document, dict):
        raise ConfigError(f"{path}:1: is no project file; keys name, engine, warehouse and tables were expected")
    try:
        found = _model_of(marked.document).model_validate(marked.document)
    except ValidationError as error:
        raise ConfigError(*_problems(error.errors(), marked, path)) from error
    _check_secrets(found, marked, path)
    return found


def _check_secrets(config: ProjectConfig, marked: MarkedYaml, path: Path) -> None:
    secrets: list[Place] = [] if config.alerts is None else [("alerts", "webhook")]
    if config.openlineage is not None and config.openlineage.api_key is not None:
        secrets.append(("openlineage", "api_key"))
    for index, table in enumerate(config.tables):
        secrets += [("tables", index, "columns", name, "key") for name, column in table.columns.items() if column.key is not None]
    for place in secrets:
        if place not in marked.filled:
            raise ConfigError(
                f"{path}:{marked.line(place)}: {_dotted(place)} is a secret in the file; write it as ${{NAME}}, a variable "
                "of the environment"
            )


def _model_of(document: Mapping[Any, Any]) -> type[ProjectConfig]:
    """Return the model with the key of the file's engine, and with the keys of other engines, to refuse these by name."""
    known = plugin_names(PluginGroup.ENGINE)
    return project_model(tuple(name for name in known if name == document.get("engine") or name in document))


@cache
def project_model(engines: tuple[str, ...]) -> type[ProjectConfig]:
    """Return `ProjectConfig` with one more field for each of these engines that has options, named after the engine."""
    models = {name: model for name in engines if (model := project_engine(name).options) is not None}
    fields: dict[str, Any] = {
        name: (
            Annotated[model, AfterValidator(_of_its_engine)],
            Field(default=model(), description=f"How engine {name} is used."),
        )
        for name, model in models.items()
    }
    return create_model("ProjectConfig", __base__=ProjectConfig, __doc__=ProjectConfig.__doc__, **fields)


def _of_its_engine(value: ConfigPart, info: ValidationInfo) -> ConfigPart:
    chosen = info.data.get("engine")
    if chosen in (None, info.field_name):
        return value
    # `--engine` may choose another engine that reads the same tables
    if any(project_engine(str(name)).keeps_tables for name in (chosen, info.field_name)):
        raise ValueError(f"`{info.field_name}` goes with engine {info.field_name}, not with {chosen}")
    return value


def project_json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a project file, for editors."""
    schema = project_model(plugin_names(PluginGroup.ENGINE)).model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "cdc_views.yml"}


def _problems(problems: Sequence[Any], marked: MarkedYaml, path: Path) -> list[str]:
    """Return one text per problem, in the file's order; leave out a whole if its parts have problems, and a missing key that is
    there misspelt.
    """
    places: list[Place] = [tuple(part for part in problem["loc"] if part != "[key]") for problem in problems]
    both = list(zip(problems, places, strict=True))
    meant = {_meant(place, marked.document) for problem, place in both if problem["type"] == "extra_forbidden"}
    found = []
    for problem, place in both:
        has_parts = any(len(other) > len(place) and other[: len(place)] == place for other in places)
        if not has_parts and not (problem["type"] == "missing" and place in meant):
            line = marked.line(place)
            wrong = _wrong(problem, place, marked.document, hidden=partial(marked.without_secrets, path=place))
            found.append((line, f"{path}:{line}: {wrong}"))
    return [text for _, text in sorted(found, key=lambda line: line[0])]


def _meant(place: Place, document: Any) -> Place:
    """Return the place of the known key that is most like the unknown one at `place`."""
    return (*place[:-1], nearest(str(place[-1]), _known_keys(place[:-1], document)) or "")


def _known_keys(place: Place, document: Any) -> list[str]:
    fields: Mapping[str, FieldInfo] = _field_type(place, document).model_fields
    return [field.alias or name for name, field in fields.items()]


def _wrong(problem: Any, place: Place, document: Any, *, hidden: Callable[[str], str]) -> str:
    """Return what is wrong; quotes of the file pass through `hidden`, which hides secrets."""
    dotted, found = _dotted(place), hidden(repr(problem["input"]))
    under = f" in {_dotted(place[:-1])}" if place[:-1] else ""
    match problem["type"]:
        case "extra_forbidden":
            return f"unknown key {place[-1]!r}{under}{did_you_mean(str(place[-1]), _known_keys(place[:-1], document))}"
        case "missing":
            return f"key {place[-1]!r} is missing{under}"
        case "enum":
            known = problem["ctx"].get("known") or [member.value for member in _field_type(place, document)]
            return f"{dotted} is {found}, which there is not{did_you_mean(str(problem['input']), known)}"
        case "value_error":
            named = f"{dotted} is {found}; " if isinstance(problem["input"], str) else ""
            return f"{named}{hidden(str(problem['ctx']['error']))}"
    shown = "empty" if problem["input"] is None else found
    message: str = problem["msg"]
    return f"{dotted} is {shown}; {_EXPECTED.get(problem['type']) or hidden(message[:1].lower() + message[1:])}"


_EXPECTED = {
    "bool_type": "true or false was expected",
    "dict_type": "keys and values were expected",
    "int_parsing": "a whole number was expected",
    "int_type": "a whole number was expected",
    "model_type": "keys and values were expected",
    "string_type": "a text was expected; put it in quotes",
    "too_short": "at least one entry was expected",
    "tuple_type": "a list was expected, each entry after a dash",
}
"""Messages in place of pydantic's, which use Python's words."""


def _dotted(place: Place) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".") or "the file"


def _field_type(place: Place, document: Any) -> Any:
    """Return the declared type of the value at `place`, inside optionals and tuples; `document` names engine and format."""
    found: Any = _model_of(document)
    for part in place:
        if isinstance(part, int):
            found = get_args(found)[0]
        elif get_origin(found) is dict:
            found = get_args(found)[1]
        elif found is RawConfig and part == "options":
            found = format_class(document["format"]).options
        else:
            fields = {field.alias or name: field for name, field in found.model_fields.items()}
            options = get_args(found := fields[part].annotation)
            found = next(option for option in options if option is not NoneType) if NoneType in options else found
        document = document[part] if isinstance(part, int) or part in document else None
    return found
