"""What is known of the parts of a state, and which stored rows a commit replaces."""

from __future__ import annotations

from itertools import combinations

import duckdb
import pytest
from helpers.schemas import INT, table

from cdc_views.engines.base import Sources, StateWrite
from cdc_views.engines.state_plan import part_in, replaced_by
from cdc_views.plan.parts import LATEST, NO_FILES, SINCE_BASE, STORED, FileSet, Part, Parts, Source, Statistics
from cdc_views.storage.relation import RawTable, Relation

VALUES = {
    Part.BASE: "b01",
    Part.PLAIN: "p0110",
    Part.OVERLAY: "q",
    Part.OVERLAY_PLAIN: "s1",
    Part.COVERED: "t_0f",
    Part.RUN: "r0",
    Part.PURGED: "g1",
    Part.LATE: "too_late",
}
"""A `_part` of each stored part, as states on disk have it."""
RAW = RawTable("raw", Relation(table("t", partition={"k": INT}, regulars={"v": INT})))


def write(replaced: frozenset[Part]) -> StateWrite:
    """A commit that replaces some parts."""
    return StateWrite(Sources(RAW, 0), "state", Part.BASE, 0, replaced)


def test_every_stored_part_has_a_value_of_its_own() -> None:
    assert VALUES.keys() == STORED
    found = {part: [other for other in STORED if text.startswith(other.value)] for part, text in VALUES.items()}
    assert found == {part: [part] for part in STORED}


@pytest.mark.parametrize("replaced", [SINCE_BASE, {Part.RUN}, STORED - {Part.LATE}, *map(set, combinations(STORED, 2))])
def test_a_commit_replaces_the_rows_of_its_parts_and_no_others(replaced: set[Part]) -> None:
    rows = ", ".join(f"('{text}')" for text in VALUES.values())
    found = duckdb.sql(f"SELECT _part FROM (VALUES {rows}) AS stored(_part) WHERE {replaced_by(write(frozenset(replaced)))}")
    assert {text for (text,) in found.fetchall()} == {VALUES[part] for part in replaced}


def test_a_commit_that_replaces_all_or_nothing_has_no_condition() -> None:
    assert [replaced_by(write(parts)) for parts in (STORED, frozenset[Part]())] == [None, None]


def test_a_file_is_known_by_its_folder() -> None:
    assert part_in("s3://bucket/state/_part=p01/part-0.parquet") == "p01"


def test_sets_of_files_add_up() -> None:
    known = Statistics(has_scopes=True, oldest=3, newest=5)
    both = FileSet(("a",), 2, 10, known) | FileSet(("b",), 3, 1, Statistics(oldest=1, newest=4))
    assert both == FileSet(("a", "b"), 5, 11, Statistics(has_scopes=True, oldest=1, newest=5))
    assert (FileSet(("a",), None) | FileSet(("b",), 3)).rows is None, "nobody knows how many"
    assert both | NO_FILES == NO_FILES | both == both


def test_facts_since_are_newer_only_where_all_of_them_are() -> None:
    base, tail = (FileSet(("f",), statistics=known) for known in (Statistics(newest=4), Statistics(oldest=5)))
    assert Parts({Part.BASE: base, Part.TAIL: tail}).is_fresh_newer
    assert not Parts(
        {Part.BASE: base, Part.OVERLAY: FileSet(("o",), statistics=Statistics(newest=5)), Part.TAIL: tail}
    ).is_fresh_newer
    assert not Parts({Part.BASE: base, Part.TAIL: tail, Part.RUN: FileSet(("r",))}).is_fresh_newer, "nothing is known of the run"
    assert LATEST > 10**38


def test_a_state_that_moves_among_the_runs_is_split_no_more() -> None:
    files = {part: FileSet((part.value,), 1, statistics=Statistics()) for part in Part}
    sources = Sources(RAW, 0, Parts(files))
    split = sources.split()
    assert split is not None
    assert (sources.split(leaves_out_covered=True), split) == (sources.parts, sources.parts.without(Part.COVERED))
    runs = sources.as_runs(Source.SETTLED)
    assert (runs.split(), runs.covered, runs.paths()) == (None, "", ("b", "p", "q", "s", "r", "tail"))


def test_a_truncate_since_leaves_nothing_of_the_base_as_it_is() -> None:
    files = {Part.BASE: FileSet(("b",)), Part.TAIL: FileSet(("t",), statistics=Statistics(has_truncates=True))}
    assert Sources(RAW, 0, Parts(files)).split() is None
