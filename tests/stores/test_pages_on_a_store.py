"""`report` and the pages of `ui` of a project whose warehouse is on a store: records of runs are there, too."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from helpers.command_line import CommandLine
from helpers.tiers import often
from helpers.tiny_project import event, make_project_reaching
from services.stores import Store

from cdc_views.api import Project
from cdc_views.pages.server.site import Asked, Site
from cdc_views.storage.places import place_of

pytestmark = pytest.mark.heavy

NAME = "shop.orders"
PAGES = ("rows", "columns", "instants", "landings", "quarantine", "tests", "proof")


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], store: Store, prefix: str
) -> CommandLine:
    """Two rows in a state, an event in quarantine, and a run of the tests."""
    monkeypatch.chdir(tmp_path)
    make_project_reaching(tmp_path, store.options(), warehouse=f"{prefix}/lake")
    run = CommandLine(capsys)
    assert run.land(NAME, event(1, state="shipped by sea"), event(2), "{}", format="cassandra-mutation").code == 1
    assert run("materialize").code == 0
    assert run("validate", "--no-docs").code == 0
    return run


@pytest.mark.parametrize("store", often(("s3", "azure", "gcs"), "s3"), indirect=True)
def test_pages_and_report_read_the_store_and_write_nothing_beside_the_project(
    run: CommandLine, tmp_path: Path, prefix: str
) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    records = [file.name for file in place_of(f"{prefix}/lake/_cdc_views/runs").iterdir()]
    assert all(any(command in name for name in records) for command in ("materialize", "validate"))
    site, now = Site(lambda: Project.load(tmp_path / "cdc_views.yml"), tmp_path / "cdc_views.yml"), int(time.time())
    pages = {page: site.page(site.table("shop_orders"), page, Asked({}, now)) for page in PAGES}
    assert "shipped by sea" in pages["rows"]
    assert "1 landing," in pages["landings"]
    assert "No run of" not in pages["landings"], "the record of materialize is on the store"
    assert "not run yet" not in pages["tests"]
    home = ""
    while "in quarantine" not in home and time.time() < now + 30:
        home = site.home(Asked({}, int(time.time())))
    assert "1 in quarantine" in home
    told = run("report", "--out", "told", "--with-values")
    assert told.code == 0, told.err
    written = {file.name for file in (tmp_path / "told").iterdir()}
    assert {"index.html", "shop_orders.html", "shop_orders-landings.html"} <= written
    assert any("shipped by sea" in file.read_text() for file in (tmp_path / "told").iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, "told"])
