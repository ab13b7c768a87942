"""`validate` on real events: nothing fails where nothing is wrong, and each corruption is found by the test meant for it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.corruptions import CASES, CORRUPTIONS, EVENT, Corruption, Kept, made
from helpers.tiers import often

from cdc_views.engines.base import Sources
from cdc_views.quality import Severity, Status, sampling

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def sound(cassandra_cases: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kept]:
    """The projects as they should be; nobody changes them."""
    return {case: made(tmp_path_factory.mktemp(case), cassandra_cases, case) for case in CASES}


@pytest.fixture
def copied(sound: dict[str, Kept], tmp_path: Path) -> Callable[[str], Kept]:
    """A copy of one of the projects, to be corrupted; its files have new places, which the copy's are."""

    def copy(case: str) -> Kept:
        root = tmp_path / case
        shutil.copytree(sound[case].root, root)
        return Kept(root, sound[case].name, sound[case].as_of)

    return copy


ONCE = [pytest.param(case, 1, marks=[] if case == "types3" else pytest.mark.slow) for case in CASES]
TWENTY = [pytest.param(case, 20, marks=pytest.mark.slow) for case in CASES]


@pytest.mark.parametrize(("case", "runs"), [*ONCE, *TWENTY])
def test_nothing_fails_where_nothing_is_wrong(sound: dict[str, Kept], case: str, runs: int) -> None:
    for seed in range(runs):
        report = sound[case].validate(seed=seed)
        assert not report.failed(), [(check.name, check.line()) for check in report.failed()]
        assert all(check.status is Status.PASSED for check in report.checks)


def test_a_serving_table_is_judged_at_the_time_of_its_rows(sound: dict[str, Kept], cassandra_cases: Path) -> None:
    kept = sound["types3"]
    early = json.loads((cassandra_cases / "types3" / "expected_early.json").read_text("utf-8"))["as_of"]
    before, now = (list(kept.table.query(as_of=at).rows()) for at in (early, kept.as_of))
    assert before != now
    found = {check.name: check.status for check in kept.validate(as_of=early).checks}
    assert found["serving_shows_the_state"] is found["nothing_expired.serving"] is Status.PASSED


OFTEN = {
    "a file of raw is cut", "a replica is silent", "an event of no kind", "somebody deletes from the state", "a row is dropped",
    "a row is twice", "a time to live is ignored",
    "what was deleted is kept", "a served cell differs",
    "the source has another value", "a rule of the user's is broken",
}  # fmt: skip
"""What `make test` corrupts; `make test-long` all."""


WARNINGS = ("replica_coverage", "not_from_the_future", "nothing_in_quarantine")


def forget_raw(kept: Kept, corruption: Corruption) -> None:
    """Where raw itself is corrupted, nothing is left that knows raw's log as it was."""
    if corruption.options.get("raw"):
        for folder in ("state", "_cdc_views"):
            shutil.rmtree(kept.root / "warehouse" / folder)


@pytest.mark.parametrize(
    "corruption",
    [pytest.param(one, marks=[] if one.what in OFTEN else pytest.mark.slow) for one in CORRUPTIONS],
    ids=[one.what.replace(" ", "_") for one in CORRUPTIONS],
)
def test_a_corruption_is_noticed_and_named(copied: Callable[[str], Kept], corruption: Corruption) -> None:
    kept = copied(corruption.case)
    corruption.change(kept)
    forget_raw(kept, corruption)
    report = kept.validate()
    failed = {check.name.removesuffix(".truth.json"): check for check in report.failed(Severity.WARNING)}
    assert corruption.found_by in failed, f"failed: {sorted(failed)}"
    found = failed[corruption.found_by]
    assert found.broken
    assert found.severity is (Severity.WARNING if corruption.found_by in WARNINGS else Severity.ERROR)
    assert not any(value in found.line() + "".join(found.where) for value in ("what it was before", "x" * 9))
    if corruption.says:
        assert any(corruption.says in place for place in found.where), found.where


ON_SPARK = [
    "a row is twice", "a cell is older than it should be", "a time to live is ignored", "a tombstone is lost",
    "what was deleted is kept", "a served cell differs", "an event of no kind", "a rule of the user's is broken",
]  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("what", often(ON_SPARK, "a time to live is ignored"), ids=lambda what: what.replace(" ", "_"))
def test_spark_notices_them(spark_engine: SparkEngine, copied: Callable[[str], Kept], what: str) -> None:
    assert spark_engine.name == "spark"
    kept = copied("types3")
    sound = kept.validate(engine="spark")
    assert not sound.failed(), [(check.name, check.line()) for check in sound.failed()]
    corruption = next(one for one in CORRUPTIONS if one.what == what)
    corruption.change(kept)
    forget_raw(kept, corruption)
    failed = {check.name.removesuffix(".truth.json") for check in kept.validate(engine="spark").failed()}
    assert corruption.found_by in failed


def test_each_landing_draws_another_sample(copied: Callable[[str], Kept], monkeypatch: pytest.MonkeyPatch) -> None:
    kept, draw, drawn = copied("types3"), sampling.draw, list[tuple[int, frozenset[sampling.Identity]]]()

    def noted(sources: Sources, *, size: int, seed: int) -> sampling.Sample:
        sample = draw(sources, size=size, seed=seed)
        drawn.append((seed, sample.identities))
        return sample

    monkeypatch.setattr(sampling, "draw", noted)
    for position in (0, 0, 1):
        if position:
            (kept.root / "again.jsonl").write_text(json.dumps(EVENT) + "\n")
            kept.table.land(kept.root / "again.jsonl")
        kept.validate(seed=None, sample=3)
    first, same, other = drawn
    assert first == same
    assert [before != after for before, after in zip(same, other, strict=True)] == [True, True]


def test_as_many_kinds_as_promised() -> None:
    assert len({corruption.what for corruption in CORRUPTIONS}) >= 40
    assert {corruption.what for corruption in CORRUPTIONS} >= OFTEN
