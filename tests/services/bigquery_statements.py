"""What a statement that was sent to BigQuery's stand-in is, and what its OPTIONS say."""

from __future__ import annotations

import re
from typing import Any

Body = dict[str, Any]


def is_script(text: str) -> bool:
    """Whether a text is several statements: each ends with a semicolon, and one alone is sent without."""
    return text.rstrip().endswith(";")


def is_query(text: str) -> bool:
    """Whether a statement, after its comments, is a query."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return bool(re.match(r"\s*\(*\s*(SELECT|WITH)\b", "\n".join(lines)))


def is_function(text: str) -> bool:
    """Whether a statement, after its comments, makes a function, whose own name is no call."""
    return bool(re.search(r"(?m)^CREATE (OR REPLACE )?(TABLE )?FUNCTION\b", text))


def unwrapped(node: Any) -> tuple[Any, Any]:
    """The statement inside the wrappers of its kinds, and its `ResolvedCreateStatement`."""
    while len(node.ListFields()) == 1 and node.ListFields()[0][0].name.endswith("_node"):
        node = node.ListFields()[0][1]
    base = node
    while hasattr(base, "parent"):
        base = base.parent
        if hasattr(base, "name_path"):
            break
    return base, node


def options_of(made: Any) -> Body:
    """`description` and `labels` of OPTIONS."""
    while not hasattr(made, "option_list"):
        made = made.parent
    found: Body = {}
    for option in made.option_list:
        literal = option.value.resolved_literal_node.value.value
        if option.name == "labels":
            pairs = [entry.struct_value.field for entry in literal.array_value.element]
            found["labels"] = {key.string_value: value.string_value for key, value in pairs}
        else:
            found[option.name] = literal.string_value
    return found
