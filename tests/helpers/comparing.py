"""What every source's tests compare: the rows that only one of source and view has, and what landed twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from deltalake import DeltaTable

from cdc_views.api import Project
from helpers.command_line import CommandLine


def only_one_has(table: str, source: Iterable[str], view: Iterable[str]) -> list[str]:
    """The rows, each as a text, that only one of source and view has; empty where they are equal."""
    there, shown = Counter(source), Counter(view)
    found = [f"{table}: only the source has {row}" for row in (there - shown).elements()]
    return found + [f"{table}: only the view has {row}" for row in (shown - there).elements()]


def raw_location(table: str) -> str:
    """Where the raw table of the project in the working directory is."""
    return Project.load().table(table).location


def lose(run: CommandLine, table: str, condition: str) -> None:
    """Take events out of a raw table, and agree to it: else every command would refuse what is left."""
    DeltaTable(raw_location(table)).delete(condition)
    refused = run("query", table)
    assert (refused.code, "(DELETE) took events out of it" in refused.err) == (3, True), refused.err
    assert run("rebuild", table, "--accept").code == 0


def twice(keys: Mapping[str, Sequence[str]]) -> int:
    """How many facts of these raw tables say the same of the same key at the same position."""
    found = 0
    for table, names in keys.items():
        raw = DeltaTable(raw_location(table)).to_pyarrow_table()
        facts = [tuple(str(row[name]) for name in (*names, "_kind", "_live", "_deleted")) for row in raw.to_pylist()]
        found += len(facts) - len(set(facts))
    return found
