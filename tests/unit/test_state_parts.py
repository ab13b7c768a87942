"""What is known of the parts of a state, and which files of a base are rewritten."""

from __future__ import annotations

import pytest
from helpers.schemas import INT, table
from helpers.state_sizes import set_sizes

from cdc_views.engines.base import Sources
from cdc_views.engines.state_plan import digits_in, part_in
from cdc_views.plan.parts import LATEST, NO_FILES, STORED, FileSet, Part, Parts, Source, Statistics
from cdc_views.state.file_statistics import TAG, FileTold, told_in
from cdc_views.state.state_table import part_of_file
from cdc_views.state.wear import worn_groups
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.deletion_vectors import DeletionVector
from cdc_views.storage.relation import RawTable, Relation

RAW = RawTable("raw", Relation(table("t", partition={"k": INT}, regulars={"v": INT})))
VALUES = {Part.BASE: "judged01", Part.PLAIN: "rows0110", Part.RUN: "run0", Part.PURGED: "purged", Part.LATE: "too_late"}
"""A `_part` of each stored part, as states on disk have it."""
FORMER = {"b01": Part.BASE, "p": Part.PLAIN, "q1": Part.RUN, "s": Part.RUN, "r01": Part.RUN, "g": Part.PURGED, "t_0f10": None}
"""The same of the former layout, whose overlay counts as runs."""


def file(part: str, *, rows: int = 100, hidden: int = 0, merged: bool = False) -> DataFile:
    """A file of a state of a byte a row."""
    tag = (
        f'{{"scopes": false, "truncates": false, "oldest": "1", "newest": "9", "columns": "c", "merged": {str(merged).lower()}}}'
    )
    vector = DeletionVector("i", "", None, 0, hidden) if hidden else None
    return DataFile(f"_part={part}/{rows}-{hidden}-{merged}", {"_part": part}, rows, rows, 0, {TAG: tag}, vector)


def test_every_stored_part_has_a_value_of_its_own() -> None:
    assert VALUES.keys() == STORED
    assert {part_of_file(file(value)) for value in VALUES.values()} == STORED
    assert {part: part_of_file(file(value)) for part, value in VALUES.items()} == {part: part for part in STORED}


@pytest.mark.parametrize(("value", "part"), FORMER.items())
def test_parts_of_the_former_layout_are_known(value: str, part: Part | None) -> None:
    assert part_of_file(file(value)) == part


def test_a_file_is_known_by_its_folder() -> None:
    assert part_in("s3://bucket/state/_part=rows01/part-0.parquet") == "rows01"
    assert [digits_in(part) for part in ("rows01", "rows", "too_late")] == ["01", "", ""]


def test_tags_tell_statistics_and_columns() -> None:
    tags = file("rows").tags
    assert told_in(tags) == FileTold(Statistics(oldest=1, newest=9), columns="c", is_merged=False)
    assert told_in({}) is None


def test_sets_of_files_add_up() -> None:
    known = Statistics(has_scopes=True, oldest=3, newest=5)
    both = FileSet(("a",), 2, 10, known, frozenset("a")) | FileSet(("b",), 3, 1, Statistics(oldest=1, newest=4))
    assert both == FileSet(("a", "b"), 5, 11, Statistics(has_scopes=True, oldest=1, newest=5), frozenset("a"))
    assert (FileSet(("a",), None) | FileSet(("b",), 3)).rows is None, "nobody knows how many"
    assert both | NO_FILES == NO_FILES | both == both
    assert both.only("b".__eq__) == FileSet(("b",), 5, 11, both.statistics)


def test_facts_since_are_newer_only_where_all_of_them_are() -> None:
    base, tail = (FileSet(("f",), statistics=known) for known in (Statistics(newest=4), Statistics(oldest=5)))
    plain = FileSet(("p",), statistics=Statistics(newest=5))
    assert Parts({Part.BASE: base, Part.TAIL: tail}).is_fresh_newer
    assert not Parts({Part.BASE: base, Part.PLAIN: plain, Part.TAIL: tail}).is_fresh_newer
    assert not Parts({Part.BASE: base, Part.TAIL: tail, Part.RUN: FileSet(("r",))}).is_fresh_newer, "nothing is known of the run"
    assert LATEST > 10**38


def test_a_base_that_moves_among_the_runs_is_split_no_more() -> None:
    files = {part: FileSet((part.value,), 1, statistics=Statistics(), masked=frozenset([part.value])) for part in Part}
    sources = Sources(RAW, 0, Parts(files))
    assert sources.split() == sources.parts
    runs = sources.as_runs(Source.BASE)
    assert (runs.split(), runs.paths()) == (None, ("judged", "rows", "run", "tail"))
    assert runs.parts.of(Source.ALL).masked == {"judged", "rows", "run", "tail"}


def test_a_truncate_since_leaves_nothing_of_the_base_as_it_is() -> None:
    known, truncated = FileSet(("f",), statistics=Statistics()), FileSet(("t",), statistics=Statistics(has_truncates=True))
    for part, is_split in ((Part.TAIL, False), (Part.RUN, False), (Part.BASE, True)):
        files = {Part.BASE: known, Part.RUN: known, Part.TAIL: known, part: truncated}
        assert (Sources(RAW, 0, Parts(files)).split() is not None) == is_split, part


def test_the_most_worn_group_is_rewritten_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    set_sizes(monkeypatch, worn_share=0.125, bytes_per_merged=8)
    whole = [file(f"rows{digits}") for digits in ("000", "001", "010", "011")]
    assert worn_groups(whole, budget=1000) == ()
    worn = [file("rows100", hidden=20), file("judged100"), file("rows101", hidden=60), file("purged101"), file("run1", hidden=90)]
    others = file("rows110", hidden=12)
    assert {f.path for f in worn_groups([*whole, *worn, others], budget=0)} == {worn[2].path, worn[3].path}, "one at least"
    assert {f.path for f in worn_groups([*whole, *worn, others], budget=30)} == {worn[2].path, worn[3].path}, "100/200 is 10 %"


def test_what_merges_added_wears_a_group_too() -> None:
    added = [file("rows000"), file("rows000", rows=20, merged=True)]
    assert worn_groups([*added, file("rows111")], budget=0) == tuple(added)


def test_groups_are_as_coarse_as_the_coarsest_file() -> None:
    mine = [file("rows00", hidden=50), file("rows01"), file("judged0"), file("rows11"), file("rows10")]
    assert {f.path for f in worn_groups(mine, budget=0)} == {f.path for f in mine[:3]}
