"""The page of the Python API: public classes and functions with their docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from page_text import docstring, page

from cdc_views.api import Project
from cdc_views.operations.fidelity import FidelityLine
from cdc_views.operations.replication import list_partial
from cdc_views.operations.result import Result
from cdc_views.operations.scheduling import Job, job_of
from cdc_views.table import Table

PUBLIC = (Project, Table, Result, FidelityLine, job_of, Job, list_partial)
"""What is promised to callers, in the order they meet it."""


def api_page() -> str:
    """Each public class and function; of a class, its public methods and properties."""
    intro = (
        "`from cdc_views import Project` is the way in: `Project.load()` reads the project file, `.table(name)` gives a table.\n"
        "Whatever fails raises an [error](errors.md) of `cdc_views.errors`.\n"
    )
    return page("Python API", intro, *map(_section, PUBLIC))


def _section(thing: Any) -> str:
    where = f"`{thing.__module__}`\n"
    if not inspect.isclass(thing):
        return f"## {thing.__name__}\n\n{where}\n{_signature(thing.__name__, thing)}\n{docstring(thing)}"
    members = "\n".join(_member(thing, name, member) for name, member in _members(thing))
    return f"## {thing.__name__}\n\n{where}\n{docstring(thing)}\n{members}"


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("cdc_views."):
            found |= {name: member for name, member in vars(base).items() if name not in found}
    for name, member in found.items():
        if not name.startswith("_") and (callable(getattr(cls, name)) or isinstance(member, property)):
            yield name, member
        elif not name.startswith("_") and hasattr(member, "attrname"):
            yield name, member  # a cached_property


def _member(cls: type, name: str, member: Any) -> str:
    if isinstance(member, property) or hasattr(member, "attrname"):
        getter = member.fget if isinstance(member, property) else member.func
        kind = inspect.signature(getter).return_annotation
        return f"### {cls.__name__}.{name}\n\n```text\n{cls.__name__}.{name}: {kind}\n```\n\n{docstring(member)}"
    function = member.__func__ if isinstance(member, classmethod) else member
    return (
        f"### {cls.__name__}.{name}\n\n{_signature(f'{cls.__name__}.{name}', function)}\n{docstring(function)}{_meant(function)}"
    )


def _meant(function: Any) -> str:
    """The signature and docstring of the function that a method's docstring sends the reader to, where it has one."""
    found = re.search(r"[sS]ee `(cdc_views[\w.]*)\.(\w+)`", function.__doc__ or "")
    if found is None:
        return ""
    meant = getattr(importlib.import_module(found[1]), found[2])
    return f"\n{_signature(f'{found[1]}.{found[2]}', meant)}\n{docstring(meant)}" if inspect.isfunction(meant) else ""


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    parameters = list(_parameters(signature))
    text = f"{name}({', '.join(parameters)}) -> {signature.return_annotation}"
    if len(text) > 100:
        lines = textwrap.indent("".join(f"{one},\n" for one in parameters), "    ")
        text = f"{name}(\n{lines}) -> {signature.return_annotation}"
    return f"```text\n{text}\n```\n"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """Each parameter as it is written, annotations without quotes; a bare star before the first that is keyword-only."""
    is_starred = False
    for name, one in signature.parameters.items():
        if name in ("self", "cls"):
            continue
        is_starred = is_starred or one.kind is inspect.Parameter.VAR_POSITIONAL
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not is_starred:
            is_starred = True
            yield "*"
        star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
        default = "" if one.default is inspect.Parameter.empty else f" = {one.default!r}"
        yield f"{star}{name}: {one.annotation}{default}"
