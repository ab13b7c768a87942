"""`land` reads event files from a store: by URL, by `*`, compressed, larger than what is read at once."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_project import event, landed_ids, make_project, make_project_reaching
from helpers.working_tasks import use_tasks
from services.stores import Store

from cdc_views import Project
from cdc_views.cli import main
from cdc_views.errors import SourceFileError
from cdc_views.storage import places
from cdc_views.storage.places import place_of
from cdc_views.storage.stores import options_of
from cdc_views.table import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Project.load(make_project(tmp_path)).table("shop.orders")


def put(prefix: str, name: str, *numbers: int) -> None:
    lines = "".join(f"{event(number)}\n" for number in numbers).encode()
    place_of(f"{prefix}/{name}").write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)


def test_files_of_a_store_land_once(table: Table, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_READ_AT_ONCE", 1000)
    put(prefix, "in/a.jsonl", *range(20))
    put(prefix, "in/b.jsonl.gz", *range(20, 30))
    put(prefix, "in/deeper/c.jsonl", 30)
    put(prefix, "in/other.txt", 31)
    spread: list[int] = []

    def counted(function: Any, tasks: Any, *, sees: Any) -> list[Any]:
        spread.append(len(tasks))
        return list(map(function, tasks))

    use_tasks(monkeypatch, counted)
    report = table.land(f"{prefix}/in/*.jsonl*", f"{prefix}/in/deeper/c.jsonl")
    assert spread == [3]
    assert [(Path(file.name).name, file.facts) for file in report.files] == [("a.jsonl", 20), ("b.jsonl.gz", 10), ("c.jsonl", 1)]
    put(prefix, "in/a.jsonl", *range(25))
    file = str(table.project.file)
    assert main(["land", "cassandra-mutation", f"{prefix}/in/a*", "--table", "shop.orders", "--project", file]) == 0
    assert landed_ids(table.raw) == sorted([*range(31), *range(20, 25)]), "a file that has grown goes on"


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_the_environment_says_how_to_reach_another_bucket_than_the_warehouses(
    store: Store, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project_reaching(tmp_path, store.options(), warehouse=f"{prefix}/lake")
    store.make("others")
    for name, value in store.options().items():
        monkeypatch.setenv(name, value)
    put(store.url("others"), "in/a.jsonl", 1, 2)
    table = Project.load(project).table("shop.orders")
    assert "AWS_ACCESS_KEY_ID" not in options_of(store.url("others")), "the warehouse's options are not for it"
    assert table.land(f"{store.url('others')}/in/a.jsonl").facts == 2
    assert sorted(row["id"] for row in table.query().rows()) == [1, 2]


@pytest.mark.parametrize(
    ("name", "said"),
    [("none.jsonl", "no such file"), ("no*.jsonl", "no file has such a name"), ("in", "is a directory; name the event files")],
)
@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_a_url_without_a_file_is_named(table: Table, prefix: str, name: str, said: str) -> None:
    put(prefix, "in/a.jsonl", 1)
    with pytest.raises(SourceFileError, match=said) as raised:
        table.land(f"{prefix}/{name}")
    assert f"{prefix}/{name}" in str(raised.value)
    assert not place_of(table.raw.location).exists()
