"""Each commit of a state is as Delta's protocol asks of writers. CDC_VIEWS_HISTORIES as elsewhere."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from helpers.delta_protocol import violations
from helpers.growing_states import UNSHARED, Growing, merge_next, small_tables, widen_next
from helpers.merged_states import ORDERS, ROWS, Kept, row
from helpers.reading import CASES, SEED
from helpers.schemas import LOGGED, NARROW, SUBJECTS, Subject
from helpers.state_sizes import set_sizes
from helpers.tiers import often

from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.operations.erasing.rewriting import rewrite
from cdc_views.state import materialize
from cdc_views.state.tail import ERASURE
from cdc_views.storage.delta_log import entry_of
from cdc_views.storage.relation import RawTable

pytestmark = pytest.mark.heavy
DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("subject", often([*SUBJECTS, UNSHARED], NARROW, UNSHARED, LOGGED), ids=lambda s: s.name)
def test_each_commit_is_as_the_protocol_asks(
    duckdb_engine: DuckDbEngine, tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tables(monkeypatch)
    kept, rng = Growing(tmp_path, subject, cases=max(16, CASES // 12), seed=SEED), Random(SEED)
    for number in range(12):
        set_sizes(monkeypatch, worn_share=rng.choice([0, 0.1, 2]), bytes_per_merged=rng.choice([1, 100]))
        merge_next(monkeypatch, rng.choice(["base", "merge", "merge", "merge", "runs", ""]), at_once=rng.random() < 0.5)
        if number == 8 and subject is not LOGGED:
            widen_next(kept)
        kept.land(len(kept.made.facts) // 12)
        materialize(duckdb_engine, kept.raw, kept.state)
    assert violations(Path(kept.state)) == []
    assert any('"deletionVector"' in entry.read_text() for entry in Path(kept.state, "_delta_log").glob("*.json"))


def test_an_erasure_is_as_the_protocol_asks(merged: Kept) -> None:
    def without(rows: pa.Table) -> pa.Table:
        left = [key != 5 for key in rows["c"].to_pylist()]
        return rows if all(left) else rows.filter(pa.array(left))

    assert rewrite(DeltaTable(merged.state), without, mark=ERASURE)
    assert violations(Path(merged.state)) == []


def test_a_state_of_the_last_release_is_turned_as_the_protocol_asks(duckdb_engine: DuckDbEngine, tmp_path: Path) -> None:
    with tarfile.open(DATA / "former_state.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    location = str(tmp_path / "state")
    before = DeltaTable(location).version()
    assert materialize(duckdb_engine, RawTable(str(tmp_path / "raw"), ORDERS.relation), location).merged == "base"
    assert DeltaTable(location).version() > before
    assert violations(tmp_path / "state", since=before + 1) == []


@pytest.fixture
def merged(duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """A state of which two merges hide rows of the base's only file."""
    set_sizes(monkeypatch, at_once_share=0, merge_share=0, rebase_share=100, worn_share=2)
    kept = Kept(tmp_path, duckdb_engine)
    kept.land([row(0, number, at=10) for number in range(ROWS)])
    for numbers in ((0, 2), (2, 4)):
        assert kept.land([row(0, number, at=20 + max(numbers)) for number in numbers]).merged == "merge"
    assert violations(Path(kept.state)) == []
    return kept


def added(actions: list[Any], *, hidden: bool) -> Any:
    """The base's file, with its new vector; or a file without one."""
    adds = [action["add"] for action in actions if "add" in action]
    if hidden:
        return next(add for add in adds if add["path"] == removed(actions)["path"])
    return next(add for add in adds if "deletionVector" not in add)


def removed(actions: list[Any]) -> Any:
    """The base's file, as it was before the merge."""
    return next(a["remove"] for a in actions if "remove" in a and "deletionVector" in a["remove"])


def files(actions: list[Any]) -> list[Any]:
    """All files that are added or removed."""
    return [action[kind] for action in actions for kind in ("add", "remove") if kind in action]


BREACHES: dict[str, tuple[Callable[[list[Any]], Any], str]] = {
    "rows": (lambda a: added(a, hidden=True).update(stats='{"numRecords": 7}'), f"has {ROWS} rows, not 7"),
    "no statistics": (lambda a: added(a, hidden=True).pop("stats"), f"has {ROWS} rows, not None"),
    "cardinality": (lambda a: added(a, hidden=True)["deletionVector"].update(cardinality=9), "hides 3 rows, not 9"),
    "size of a vector": (lambda a: added(a, hidden=True)["deletionVector"].update(sizeInBytes=9), "another size"),
    "offset": (lambda a: added(a, hidden=True)["deletionVector"].update(offset=0), "another version, or another size"),
    "size": (lambda a: added(a, hidden=False).update(size=1), "bytes, not 1"),
    "partition": (lambda a: added(a, hidden=False).update(partitionValues={}), r"partition values of \[\]"),
    "time": (lambda a: added(a, hidden=False).pop("modificationTime"), "modificationTime is None"),
    "flag": (lambda a: added(a, hidden=False).pop("dataChange"), "dataChange is None"),
    "the same file twice": (lambda a: a.append({"add": dict(added(a, hidden=False))}), "in 2 of add"),
    "removed without its vector": (lambda a: removed(a).pop("deletionVector"), "not there with this deletion vector"),
    "not removed": (lambda a: removed(a).update(path="elsewhere"), "not removed with its own"),
    "no tags": (lambda a: removed(a).pop("tags"), "tags is None"),
    "another partition": (lambda a: removed(a).update(partitionValues={"_part": "x"}), "another size or partition"),
    "removed as it is added": (
        lambda a: added(a, hidden=True).update(deletionVector=removed(a)["deletionVector"]),
        "added and removed at once",
    ),
    "commitInfo": (lambda a: a.reverse(), "commitInfo is not first"),
    "an action of another name": (lambda a: a.append({"adds": {}}), "actions that do not exist"),
    "a transaction twice": (lambda a: a.append(next(dict(x) for x in a if "txn" in x)), "2 transactions of"),
    "a feature of readers": (
        lambda a: a.append({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                                         "writerFeatures": []}}),
        "features of readers alone",
    ),
    "versions": (
        lambda a: a.append({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": ["deletionVectors"],
                                         "writerFeatures": ["deletionVectors"]}}),
        "its versions disagree",
    ),
    "no data change": (lambda a: [file.update(dataChange=False) for file in files(a)], "came and"),
}  # fmt: skip


@pytest.mark.parametrize("breach", BREACHES)
def test_the_check_of_commits_can_fail(merged: Kept, breach: str) -> None:
    change, told = BREACHES[breach]
    entry = entry_of(merged.state, DeltaTable(merged.state).version())
    actions = [json.loads(line) for line in entry.read_text("utf-8").splitlines()]
    change(actions)
    entry.write_text("".join(json.dumps(action) + "\n" for action in actions))
    with pytest.raises(AssertionError, match=told):
        assert not violations(Path(merged.state)), "\n".join(violations(Path(merged.state)))


@pytest.mark.parametrize(("place", "told"), [(0, "another version"), (9, "another checksum"), (-1, "another checksum")])
def test_the_check_of_vectors_can_fail(merged: Kept, place: int, told: str) -> None:
    for file in Path(merged.state).glob("deletion_vector_*.bin"):
        content = bytearray(file.read_bytes())
        content[place] ^= 1
        file.write_bytes(content)
    assert any(told in text for text in violations(Path(merged.state)))
