"""YAML with the line of every value kept, duplicate keys refused and `${ENV_VAR}` references filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from cdc_views.errors import ConfigError

Path = tuple[str | int, ...]
"""Keys and indexes from the top of the document to a value."""

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


_MOST_VALUES = 1_000_000
"""More than any project has; aliases of aliases can name many more."""


@dataclass(frozen=True, slots=True)
class MarkedYaml:
    """A document, and the 1-based line of each of its values and keys."""

    document: Any
    lines: Mapping[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """Return the line of the value at `path`, or of the nearest part of the document around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(text: str, *, where: str, environment: Mapping[str, str] | None) -> MarkedYaml:
    """Return the document in `text`.

    Args:
        text: One YAML document.
        where: The file's name for error messages.
        environment: Values of `${…}` references, which may stand anywhere in a string; None leaves them as they are.

    Raises:
        ConfigError: No YAML, a key that occurs twice, or a reference to a variable that is not set.
    """
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        reader = _Reader(loader, where, environment)
        return MarkedYaml(reader.value(node, ()) if node else None, reader.lines)
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, where) from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{where}: is nested too deeply, or an alias stands inside what it names") from error


def _whole(text: str) -> str:
    """The text with pairs of surrogates joined: so JSON escapes what is past U+FFFF."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _not_yaml(error: yaml.MarkedYAMLError, where: str) -> ConfigError:
    line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
    hint = "; YAML indents with spaces, not tabs" if "\\t" in str(error.problem) else ""
    return ConfigError(f"{where}{line}: is not YAML: {error.problem or error.context}{hint}")


@dataclass(slots=True)
class _Reader:
    loader: yaml.SafeLoader
    where: str
    environment: Mapping[str, str] | None
    lines: dict[Path, int] = field(default_factory=dict)

    def value(self, node: yaml.Node, path: Path) -> Any:
        if len(self.lines) > _MOST_VALUES:
            raise ConfigError(f"{self.where}: holds more than {_MOST_VALUES:,} values; do its aliases repeat each other?")
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        found = self.loader.construct_object(node)
        return self._filled(_whole(found), node) if isinstance(found, str) else found

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

    def _filled(self, text: str, node: yaml.Node) -> str:
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
            return environment[name]

        return _REFERENCE.sub(value_of, text)
