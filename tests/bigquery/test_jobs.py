"""Every job has its limit of bytes, and no error, at any call, tells a row's value or a credential."""

from __future__ import annotations

import ast
import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cdc_views_bigquery
import pytest
from helpers.bigquery_warehouses import Served, load, project
from helpers.tiers import often
from helpers.tiny_project import event

from cdc_views import Project
from cdc_views.cli import main
from cdc_views.errors import CdcViewsError

AS_OF = 1_800_000_000
SECRET = "hunter2"
ROOT = Path(cdc_views_bigquery.__file__).parents[2]
STARTS = ("query", "load_table", "copy_table", "extract_table", "create_job", "insert_", "_begin", "begin")
"""How the client's methods that start a job begin, or that write rows beside any job."""


def _calls(source: str, *, file: str) -> Iterator[tuple[str, str, str]]:
    """Every call in a module that starts a job: file, function, method."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    calls = [(f.name, node.func) for f in functions for node in ast.walk(f) if isinstance(node, ast.Call)]
    for name, called in calls:
        if isinstance(called, ast.Attribute) and _is_client(called.value) and called.attr.startswith(STARTS):
            yield file, name, called.attr


def _is_client(node: ast.expr) -> bool:
    return "client" in ast.unparse(node).casefold()


def _sources() -> list[Path]:
    folders = (ROOT / "bigquery", ROOT / "cdc_views", ROOT / "producers" / "cdc_producers")
    return [file for folder in folders for file in folder.rglob("*.py") if "bigquery" in file.read_text()]


def test_one_function_starts_queries_and_one_loads() -> None:
    found = {call for file in _sources() for call in _calls(file.read_text(), file=file.name)}
    assert found == {("client.py", "_job", "query"), ("client.py", "load", "load_table_from_file")}
    more = (ROOT / "bigquery" / "cdc_views_bigquery" / "client.py").read_text()
    more += "\n\ndef quick(self, sql):\n    return self.client.query_and_wait(sql)\n"
    assert ("client.py", "quick", "query_and_wait") in set(_calls(more, file="client.py"))


def _use(loaded: Project) -> None:
    table = loaded.table("shop.orders")
    table.apply()
    load(table, [event(1)])
    table.plan()
    list(table.query(as_of=AS_OF).rows())


def _unlimited(store: Any) -> list[Any]:
    return [job for job in store.query_jobs if not int(job["query"].get("maximumBytesBilled") or 0)]


def test_the_default_is_a_limit(server: Served, tmp_path: Path) -> None:
    _use(project(tmp_path, server.url))
    assert {job["query"].get("maximumBytesBilled") for job in server.store.query_jobs} == {str(100 << 30)}


def test_a_job_without_one_would_be_noticed(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cdc_views_bigquery.config import BigQueryConfig

    monkeypatch.setattr(BigQueryConfig, "byte_limit", property(lambda _: None))
    _use(project(tmp_path, server.url))
    assert len(_unlimited(server.store)) == len(server.store.query_jobs) > 0


def _query(loaded: Project) -> None:
    list(loaded.table("shop.orders").query(as_of=AS_OF).rows())


def _load(loaded: Project) -> None:
    load(loaded.table("shop.orders"), [event(2, state=SECRET)])


def _plan(loaded: Project) -> None:
    loaded.table("shop.orders").plan()


def _apply(loaded: Project) -> None:
    loaded.table("shop.orders").apply()


def _status(loaded: Project) -> None:
    assert main(["status", "--project", str(loaded.file)]) == 3
    raise CdcViewsError("seen")


CALLS: list[tuple[Callable[[Project], None], str, str]] = [
    (_query, "POST", r"/jobs$"),
    (_query, "GET", r"/queries/"),
    (_load, "POST", r"^/upload/"),
    (_plan, "GET", r"/tables/"),
    (_apply, "GET", r"/datasets/[^/]+$"),
    (_status, "GET", r"/tables/"),
]
SAID = [(400, "invalidQuery"), (400, "invalid"), (500, "unknown")]
VALUE = f"Bad int64 value: {SECRET}; while reading {SECRET}"


@pytest.mark.parametrize(("call", "method", "path"), CALLS, ids=lambda v: getattr(v, "__name__", v))
@pytest.mark.parametrize(("status", "reason"), often(SAID, SAID[0]))
def test_what_a_call_says_of_values_is_kept_back(
    server: Served,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    call: Callable[[Project], None],
    method: str,
    path: str,
    status: int,
    reason: str,
) -> None:
    from services.bigquery import Fault, Refused

    loaded = project(tmp_path, server.url, retry_for="1s")
    loaded.table("shop.orders").apply()
    load(loaded.table("shop.orders"), [event(1, state=SECRET)])
    fault = Fault(method, path, Refused(status, reason, VALUE), times=99)
    server.store.faults.append(fault)
    with caplog.at_level(logging.DEBUG), pytest.raises(CdcViewsError) as caught:
        call(loaded)
    assert fault.times < 99, "the client makes the call"
    told = "".join(traceback.format_exception(caught.value)) + caplog.text + "".join(capsys.readouterr())
    assert SECRET not in told


TOKEN = "ya29.a-token"


@pytest.mark.parametrize("error", ["DefaultCredentialsError", "RefreshError", "TransportError"])
def test_credentials_that_do_not_work_are_named_by_kind_alone(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: str
) -> None:
    from google.auth import exceptions
    from google.cloud import bigquery

    def refuse(*_: Any, **__: Any) -> None:
        raise getattr(exceptions, error)(f"/home/me/key.json: {TOKEN} is not valid", {"token": TOKEN})

    loaded = project(tmp_path, server.url)
    monkeypatch.setattr(bigquery.Client, "query", refuse)
    with caplog.at_level(logging.DEBUG), pytest.raises(CdcViewsError, match="no usable credentials") as caught:
        _query(loaded)
    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert TOKEN not in told
    assert "key.json" not in told


def test_rows_that_are_read_are_in_no_log(server: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loaded = project(tmp_path, server.url)
    with caplog.at_level(logging.DEBUG):
        loaded.table("shop.orders").apply()
        load(loaded.table("shop.orders"), [event(1, state=SECRET)])
        assert [row["state"] for row in loaded.table("shop.orders").query(as_of=AS_OF).rows()] == [SECRET]
    assert caplog.records
    assert SECRET not in caplog.text
