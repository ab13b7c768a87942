"""A YAML reader that keeps the line of every value, refuses duplicate keys and fills in `${ENV_VAR}` references."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from cdc_views.errors import ConfigError

Path = tuple[str | int, ...]  # keys and indexes from the top of the document to a value

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_PARTS = re.compile(r"[./:@]")
_SHORTEST_PART = 3
_MOST_VALUES = 1_000_000  # more than any project has; aliases of aliases can name many more


@dataclass(frozen=True, slots=True)
class Reference:
    """A variable that the file refers to, and its value."""

    name: str
    value: str

    def hide(self, text: str) -> str:
        """Return `text` with `${name}` in place of the value, even if a message escapes it, cuts it or changes its case."""
        value = self.value
        spellings = {value, repr(value)[1:-1], repr("'" + value)[2:-1], value.strip(), value.strip("/")}
        spellings |= {part for part in _PARTS.split(value) if len(part) >= _SHORTEST_PART}
        for spelling in sorted(spellings - {""}, key=len, reverse=True):
            alone = len(spelling) < _SHORTEST_PART  # replace it only between quotes: inside words it would garble the message
            pattern = rf"(?<=['\"]){re.escape(spelling)}(?=['\"])" if alone else re.escape(spelling)
            text = re.sub(pattern, lambda _: f"${{{self.name}}}", text, flags=re.IGNORECASE)
        return text


@dataclass(frozen=True, slots=True)
class MarkedYaml:
    """A document, the line (from 1) of each of its values and keys, and the references that were filled in."""

    document: Any
    lines: Mapping[Path, int] = field(default_factory=dict)
    filled: Mapping[Path, tuple[Reference, ...]] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """Return the line of the value at `path`, or of the nearest part of the document around it."""
        return self.lines.get(self._nearest(path), 1)

    def _nearest(self, path: Path) -> Path:
        while path and path not in self.lines:
            path = path[:-1]
        return path

    def without_secrets(self, text: str, path: Path) -> str:
        """Return `text` about the value at `path`, with references in place of the environment's values, which may be secrets."""
        around = self._nearest(path)
        inside = {reference for place, found in self.filled.items() if place[: len(around)] == around for reference in found}
        for reference in sorted(inside, key=lambda each: (-len(each.value), each.name)):
            text = reference.hide(text)
        return text


def read_yaml(text: str, *, where: str, environment: Mapping[str, str] | None) -> MarkedYaml:
    """Return the document in `text`, the content of the file `where`. `environment` fills `${…}` references anywhere in strings;
    None leaves them as they are. Raises `ConfigError` for bad YAML, a key that occurs twice, or a variable that is not set.
    """
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        reader = _Reader(loader, where, environment)
        return MarkedYaml(reader.value(node, ()) if node else None, reader.lines, reader.filled)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        hint = "; YAML indents with spaces, not tabs" if "\\t" in str(error.problem) else ""
        raise ConfigError(f"{where}{line}: is not YAML: {error.problem or error.context}{hint}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{where}: is nested too deeply, or an alias stands inside what it names") from error


def _whole(text: str) -> str:
    """Join pairs of surrogates: JSON escapes characters past U+FFFF as such pairs."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@dataclass(slots=True)
class _Reader:
    loader: yaml.SafeLoader
    where: str
    environment: Mapping[str, str] | None
    lines: dict[Path, int] = field(default_factory=dict)
    filled: dict[Path, tuple[Reference, ...]] = field(default_factory=dict)

    def value(self, node: yaml.Node, path: Path) -> Any:
        if len(self.lines) > _MOST_VALUES:
            raise ConfigError(f"{self.where}: holds more than {_MOST_VALUES:,} values; do its aliases repeat each other?")
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        found = self.loader.construct_object(node)
        return self._filled(_whole(found), node, path) if isinstance(found, str) else found

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        self.loader.flatten_mapping(node)
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _whole(str(key_node.value))
            line = key_node.start_mark.line + 1
            if key in found:
                raise ConfigError(f"{self.where}:{line}: key {key!r} occurs twice; keep one of them")
            place = (*path, key)
            self.lines[place] = line
            found[key] = self.value(value_node, place)
        return found

    def _filled(self, text: str, node: yaml.Node, path: Path) -> str:
        environment = self.environment
        if environment is None:
            return text

        def value_of(reference: re.Match[str]) -> str:
            name = reference[1]
            place = f"{self.where}:{node.start_mark.line + 1}"
            if not _VARIABLE.match(name):
                raise ConfigError(f"{place}: ${{{name}}} is no reference; the name of an environment variable was expected")
            if name not in environment:
                raise ConfigError(f"{place}: ${{{name}}} refers to an environment variable that is not set; set {name}")
            self.filled[path] = (*self.filled.get(path, ()), Reference(name, environment[name]))
            return environment[name]

        return _REFERENCE.sub(value_of, text)
