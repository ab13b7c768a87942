"""Fetched jars are those whose SHA-256 the repository has, or they are not put in place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cdc_views_spark import ivy

from cdc_views.errors import EngineError

ECJ = ("org.eclipse.jdt", "ecj", "3.33.0")
CONTENT = b"the jar as it was"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib

    found = {":".join(ECJ): {"ecj-3.33.0.jar": hashlib.sha256(CONTENT).hexdigest()}}
    monkeypatch.setattr(ivy, "_known", lambda: found)


def _giving(monkeypatch: pytest.MonkeyPatch, **contents: bytes) -> None:
    def give(coordinates: ivy.Coordinates, folder: Path, instead: tuple[ivy.Coordinates, ...]) -> None:
        folder.mkdir(parents=True)
        for name, content in contents.items():
            (folder / f"{name}-3.33.0.jar").write_bytes(content)

    monkeypatch.setattr(ivy, "_fetch", give)


@pytest.mark.usefixtures("known")
def test_a_jar_that_is_what_it_was_is_put_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _giving(monkeypatch, ecj=CONTENT)
    folder = ivy.fetched(ECJ, tmp_path / "ecj", finish=lambda _: None)
    assert (folder / "ecj-3.33.0.jar").read_bytes() == CONTENT
    monkeypatch.setattr(ivy, "_fetch", lambda *_: pytest.fail("it is there"))
    assert ivy.fetched(ECJ, tmp_path / "ecj", finish=lambda _: None) == folder


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ecj": CONTENT[:-1] + b"?"}, "ecj-3.33.0.jar has another SHA-256"),
        ({"ecj": b""}, "ecj-3.33.0.jar has another SHA-256"),
        ({"ecj": CONTENT, "more": b""}, "more-3.33.0.jar was given"),
        ({}, "ecj-3.33.0.jar was not given"),
    ],
)
def test_a_corrupted_jar_is_refused_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, bytes], why: str
) -> None:
    _giving(monkeypatch, **given)
    with pytest.raises(EngineError, match=re.escape(why)):
        ivy.fetched(ECJ, tmp_path / "ecj", finish=lambda _: pytest.fail("it was used"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("known")
def test_what_nothing_is_known_of_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _giving(monkeypatch, ecj=CONTENT)
    with pytest.raises(EngineError, match="knows no SHA-256"):
        ivy.fetched(("a", "ecj", "9"), tmp_path / "x", finish=lambda _: None)


def test_all_that_is_fetched_is_pinned() -> None:
    from cdc_producers.cassandra import jars
    from cdc_views_spark import session, stores
    from services import connect, kafka, mariadb, postgres

    wanted = [
        session.DELTA_JAR,
        stores.HADOOP_AWS,
        jars._ECJ,
        kafka.BROKER,
        kafka.LOGGING,
        *connect.PARTS,
        mariadb.BINARIES,
        postgres.BINARIES,
    ]
    wanted += [("org.apache.cassandra", "cassandra-all", version) for version in ("4.0.15", "4.1.8", "5.0.9")]
    assert {":".join(each) for each in wanted} == set(ivy._known())
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for of_one in ivy._known().values() for digest in of_one.values())
