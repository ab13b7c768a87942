"""A YAML document with the places its parts were written at, so that an error can name file and line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import yaml

from cdc_views.errors import SchemaError, did_you_mean

Choice = TypeVar("Choice")


def compose(text: str, *, where: str) -> YamlNode:
    """Return the root of the one document in `text` (YAML, or JSON, which may be indented with tabs).

    Raises:
        SchemaError: The text is not YAML, or is empty.
    """
    is_json = text.lstrip().startswith("{")
    try:
        root = yaml.compose(text.replace("\t", " ") if is_json else text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        message = f"not YAML: {error.problem or error.context}"
        raise SchemaError(message, where=where, line=line, column=column) from error
    except yaml.YAMLError as error:
        raise SchemaError(f"not YAML: {error}", where=where) from error
    if root is None:
        raise SchemaError("the file is empty; expected a mapping with `table` and `columns`", where=where)
    return YamlNode(root, where)


@dataclass(frozen=True, slots=True)
class YamlNode:
    """One node of a document, and the file it is in."""

    node: yaml.Node
    where: str

    @property
    def start(self) -> tuple[int, int]:
        """Line and column, from 1, of the node's text (after an opening quote)."""
        mark = self.node.start_mark
        quoted = isinstance(self.node, yaml.ScalarNode) and self.node.style in ("'", '"')
        return mark.line + 1, mark.column + 1 + quoted

    @property
    def is_scalar(self) -> bool:
        """Whether the node is text, a number or the like."""
        return isinstance(self.node, yaml.ScalarNode)

    def error(self, message: str) -> SchemaError:
        """Return the error to raise about this node."""
        line, column = self.start
        return SchemaError(message, where=self.where, line=line, column=column)

    def mapping(self) -> dict[str, YamlNode]:
        """Return the entries of a mapping; raises `SchemaError` for another node or a key given twice."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"expected a mapping (`name: …`), found {_kind(self.node)}")
        found: dict[str, YamlNode] = {}
        for key, value in self.node.value:
            name = YamlNode(key, self.where).as_text("a name")
            if name in found:
                raise YamlNode(key, self.where).error(f"{name!r} is given twice; keep one of them")
            found[name] = YamlNode(value, self.where)
        return found

    def __contains__(self, name: str) -> bool:
        return name in self.mapping()

    def allow(self, known: Iterable[str]) -> None:
        """Raise `SchemaError` for a name that is none of `known`."""
        for key, _ in self.node.value if isinstance(self.node, yaml.MappingNode) else ():
            if key.value not in known:
                hint = did_you_mean(key.value, sorted(known))
                raise YamlNode(key, self.where).error(f"unknown key {key.value!r}{hint}")

    def child(self, name: str) -> YamlNode:
        """Return the entry called `name`; raises `SchemaError` when there is none."""
        entries = self.mapping()
        if name not in entries:
            raise self.error(f"missing `{name}`{did_you_mean(name, entries)}")
        return entries[name]

    def items(self) -> list[YamlNode]:
        """Return the items of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error(f"expected a list, found {_kind(self.node)}")
        return [YamlNode(item, self.where) for item in self.node.value]

    def one_or_more(self) -> list[YamlNode]:
        """Return the items of a list, or the node itself where one name is given without brackets."""
        return [self] if self.is_scalar else self.items()

    def as_text(self, what: str) -> str:
        """Return a scalar as it is written; `what` says in the error what was expected."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.error(f"expected {what}, found {_kind(self.node)}")
        # JSON writes characters past U+FFFF as two escapes, which YAML leaves apart
        return str(self.node.value).encode("utf-16", "surrogatepass").decode("utf-16")

    def as_integer(self, what: str) -> int:
        """Return a scalar that is a whole number."""
        written = self.as_text(what)
        try:
            return int(written)
        except ValueError:
            raise self.error(f"expected {what}, a whole number, found {written!r}") from None

    def text(self, name: str, *, default: str | None = None) -> str:
        """Return the scalar called `name`, or `default` when there is none and a default is given."""
        entries = self.mapping()
        if name not in entries and default is not None:
            return default
        return self.child(name).as_text(f"`{name}` to be text")

    def choice(self, name: str, *, among: Mapping[str, Choice], default: Choice) -> Choice:
        """Return what the scalar called `name` stands for `among` the choices."""
        entries = self.mapping()
        if name not in entries:
            return default
        written = entries[name].as_text(f"one of {', '.join(among)}").lower()
        if written not in among:
            raise entries[name].error(f"`{name}` is {written!r}; expected one of {', '.join(among)}")
        return among[written]


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value) if node.value else "nothing"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
