"""Who may read and act: addresses, tokens, forms and headers of `cdc-views ui`, over a real socket."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from helpers.tiny_project import CQL, event, make_project, write_lines
from helpers.ui_served import Served, serving_ui

from cdc_views.api import Project
from cdc_views.cli import main
from cdc_views.errors import UsageError
from cdc_views.operations.quarantining import waiting_of
from cdc_views.pages.server.guarding import HEADERS
from cdc_views.pages.server.options import ui_options
from cdc_views.pages.server.site import Asked, Site

TOKEN = "a-token-of-thirty-letters-or-so"
ORDERS = "/t/shop_orders"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One table with a row, and three events in quarantine."""
    folder = tmp_path_factory.mktemp("guard")
    make_project(folder)
    table = Project.load(folder / "cdc_views.yml").table("orders")
    write_lines(folder / "a.jsonl", event(1), "{}", '{"other": 1}', "no JSON")
    table.land(folder / "a.jsonl")
    return folder


@pytest.fixture(scope="module")
def reads(folder: Path) -> Iterator[Served]:
    with serving_ui(folder / "cdc_views.yml") as served:
        yield served


@pytest.fixture(scope="module")
def acts(folder: Path) -> Iterator[Served]:
    environment = {**os.environ, "UI_TOKEN": TOKEN}
    with serving_ui(folder / "cdc_views.yml", "--allow-actions", "--token-env", "UI_TOKEN", environment=environment) as served:
        yield served


def test_every_answer_has_the_headers_that_keep_it_harmless(reads: Served) -> None:
    for path in ("/", f"{ORDERS}/rows", "/assets/app.js", "/nowhere", "/t/none/rows", f"{ORDERS}/rows?where=gone"):
        answer = reads.ask(path)
        assert {name: answer.headers.get(name) for name in HEADERS} == dict(HEADERS), path
        assert not re.search(r"<script(?! src=)|<[^>]+ (style|on[a-z]+)=", answer.text), path


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("[::1]:80", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
def test_only_the_address_that_was_meant_is_answered(reads: Served, host: str, status: int) -> None:
    assert reads.ask("/", host=host).status == status


def test_it_only_reads_unless_it_was_asked_to_act(reads: Served, folder: Path) -> None:
    def written() -> dict[Path, tuple[int, int]]:
        files = [file for file in (folder / "warehouse").rglob("*") if file.is_file()]
        return {file: (file.stat().st_size, file.stat().st_mtime_ns) for file in files}

    before = written()
    pages = {f"{ORDERS}/tests?run=1", *re.findall(rf'href="({ORDERS}/[^"#]*)"', reads.ask(f"{ORDERS}/rows").text)}
    assert len(pages) > 5
    assert {page: reads.ask(html.unescape(page)).status for page in pages} == dict.fromkeys(pages, 200)
    assert written() == before
    form = {"csrf": "", "reason": "x", "event": waiting(folder)[0]}
    answer = reads.ask(f"{ORDERS}/quarantine/discard", method="POST", form=form, origin=reads.address.rstrip("/"))
    assert answer.status == 403
    assert reads.ask("/", method="DELETE").status == 405
    assert reads.ask(f"{ORDERS}/rows", method="POST", form={}).status == 405
    assert '<form class="act"' not in reads.ask(f"{ORDERS}/quarantine").text
    assert len(waiting(folder)) == 3


def test_what_another_site_embeds_is_refused(reads: Served) -> None:
    assert reads.ask(f"{ORDERS}/rows", sec_fetch_site="cross-site", sec_fetch_mode="no-cors").status == 403
    assert reads.ask(f"{ORDERS}/rows", sec_fetch_site="cross-site", sec_fetch_mode="navigate").status == 200
    assert reads.ask(f"{ORDERS}/tests?run=1", sec_fetch_site="cross-site", sec_fetch_mode="navigate").status == 403


def test_a_reader_needs_the_token(acts: Served) -> None:
    assert acts.ask("/").status == 401
    assert acts.ask("/", authorization="Bearer wrong").status == 401
    assert acts.ask("/", authorization=f"Bearer {TOKEN}").status == 200
    sent = acts.ask("/", accept="text/html")
    assert (sent.status, sent.headers["location"]) == (303, "/login")
    assert acts.ask("/assets/app.css").status == 200
    origin = acts.address.rstrip("/")
    assert acts.ask("/login", method="POST", form={"token": "wrong"}, origin=origin).status == 401
    assert acts.ask("/login", method="POST", form={"token": TOKEN}, origin="http://evil.example").status == 401
    entered = acts.ask("/login", method="POST", form={"token": TOKEN}, origin=origin)
    cookie = entered.headers["set-cookie"]
    assert entered.status == 303
    assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    assert TOKEN not in cookie
    assert acts.ask("/", cookie=cookie.split(";")[0]).status == 200
    assert acts.ask("/", cookie=cookie.split("=")[0] + "=0000").status == 401


def test_a_form_discards_and_another_sites_form_does_not(acts: Served, folder: Path) -> None:
    known, origin = f"Bearer {TOKEN}", acts.address.rstrip("/")
    page = acts.ask(f"{ORDERS}/quarantine", authorization=known).text
    (csrf,) = set(re.findall(r'name="csrf" value="([0-9a-f]{64})"', page))
    first, second, _ = waiting(folder)
    form = {"csrf": csrf, "reason": "made <b>by hand</b>", "event": [first, second]}
    path = f"{ORDERS}/quarantine/discard"
    refused = [
        acts.ask(path, method="POST", form=form, authorization=known),  # no origin
        acts.ask(path, method="POST", form=form, authorization=known, origin="http://evil.example"),
        acts.ask(path, method="POST", form={**form, "csrf": "0" * 64}, authorization=known, origin=origin),
        acts.ask(path, method="POST", form=form, origin=origin),  # no token
        acts.ask(path, method="POST", form={**form, "reason": "x" * 100_000}, authorization=known, origin=origin),
    ]
    assert [one.status for one in refused] == [403, 403, 403, 401, 403]
    assert len(waiting(folder)) == 3
    done = acts.ask(path, method="POST", form=form, authorization=known, origin=origin)
    assert (done.status, done.headers["location"]) == (303, f"{ORDERS}/quarantine?done=discarded")
    assert len(waiting(folder)) == 1
    again = acts.ask(f"{ORDERS}/quarantine/replay", method="POST", form={"csrf": csrf}, authorization=known, origin=origin)
    assert again.headers["location"].endswith("done=waiting")
    table = Project.load(folder / "cdc_views.yml").table("orders")
    table.land(write_lines(folder / "b.jsonl", event(2).replace('"column": "state"', '"column": "extra"')))
    assert len(waiting(folder)) == 2
    (folder / "schema.cql").write_text(CQL.replace("note text", "note text, extra text"))
    acts.ask(f"{ORDERS}/quarantine/replay", method="POST", form={"csrf": csrf}, authorization=known, origin=origin)
    assert len(waiting(folder)) == 1
    rows = Project.load(folder / "cdc_views.yml").table("orders").query().rows()
    assert [(row["id"], row["extra"]) for row in rows] == [(1, None), (2, "open")]


def waiting(folder: Path) -> list[str]:
    return [one.event_id for one in waiting_of(Project.load(folder / "cdc_views.yml").table("orders"))]


def test_wrong_requests_get_a_page_and_no_traceback(reads: Served) -> None:
    asked = {
        "/t/none/rows": 404,
        f"{ORDERS}/none": 404,
        f"{ORDERS}/rows?offset=x": 400,
        f"{ORDERS}/rows?where=1;drop": 400,
        f"{ORDERS}/rows?as_of=never": 400,
        f"{ORDERS}/cell?key=1&column=state": 400,
        f"{ORDERS}/cell?column=state": 400,
        f"{ORDERS}/instants?clock=x&before=1&after=2": 400,
        f"{ORDERS}/rows?where=%00%ff%e2%80%ae": 400,
        "/assets/../app.css": 404,
    }
    found = {path: reads.ask(path) for path in asked}
    assert {path: answer.status for path, answer in found.items()} == asked
    assert not any("Traceback" in answer.text for answer in found.values())


BAD = {
    ("0.0.0.0", None, ""): "need a token",
    ("0.0.0.0", "UI_TOKEN", ""): "is not set",
    ("127.0.0.1", "UI_TOKEN", "short"): "has 5 letters",
}


@pytest.mark.parametrize("given", BAD)
def test_others_than_this_machine_need_a_token(given: tuple[str, str | None, str]) -> None:
    host, name, token = given
    more = {"certificate": None, "key": None, "allows_actions": False}
    with pytest.raises(UsageError, match=BAD[given]):
        ui_options(host=host, port=0, token_env=name, environment={"UI_TOKEN": token}, **more)  # type: ignore[arg-type]
    assert ui_options(host="0.0.0.0", port=0, token_env="T", environment={"T": TOKEN}, **more).token == TOKEN  # type: ignore[arg-type]


def test_the_command_tells_what_is_wrong_before_it_listens(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    for arguments, told in {
        ("--host", "0.0.0.0"): "--token-env NAME",
        ("--tls-certificate", "cert.pem"): "go together",
        ("--project", "gone.yml"): "gone.yml",
    }.items():
        assert main(["ui", *arguments]) == 2
        assert told in capsys.readouterr().err


def test_a_masked_column_is_neither_shown_nor_asked_for(tmp_path: Path) -> None:
    """A mask may be younger than what landed: raw has the values still."""
    make_project(tmp_path)
    file = tmp_path / "cdc_views.yml"
    write_lines(tmp_path / "a.jsonl", event(1, state="zq-secret"), "zq-secret {")
    Project.load(file).table("orders").land(tmp_path / "a.jsonl")
    told = yaml.safe_load(file.read_text())
    told["tables"][0]["columns"] = {"state": {"policy": "mask"}}
    file.write_text(json.dumps(told))
    site, key = Site(lambda: Project.load(file), file), '{"id": 1, "line": 0}'
    table = site.table("shop_orders")
    clock = {"before": "2020-01-01", "after": "2099-01-01"}
    asked = {"rows": {}, "row": {"key": key}, "cell": {"key": key, "column": "state"}, "instants": clock, "quarantine": {}}
    asked |= {"columns": {"nulls": "1"}, "tests": {"run": "1"}, "landings": {}, "nodes": {}, "proof": {}}
    texts = {page: site.page(table, page, Asked(query, 1_800_000_000)) for page, query in asked.items()}
    assert [page for page, text in texts.items() if "zq-secret" in text] == []
    assert all("masked" in texts[page] for page in ("rows", "row", "cell"))
    for query in ({"where": "state = 'zq-secret'"}, {"order": "-state"}):
        with pytest.raises(UsageError, match="is masked"):
            site.page(table, "rows", Asked(query, 1_800_000_000))
