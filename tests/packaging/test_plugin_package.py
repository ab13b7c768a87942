"""A stranger's package adds a dialect, a format, an engine and a producer: CONTRIBUTING word for word, nothing edited here."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"<!-- file: (?P<path>\S+) -->\n```\w+\n(?P<text>.*?)```\n", re.DOTALL)
PROJECT = """\
name: shop
engine: acme
acme: {threads: 2}
tables:
  - {name: shop.orders, schema: s.sql, raw: {format: acme-lines}}
"""
ROWS = [(1, "paid"), (2, "open")]

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package is installed into."""
    source, site = tmp_path_factory.mktemp("acme"), tmp_path_factory.mktemp("site")
    files = {found["path"]: found["text"] for found in FILE.finditer((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))}
    assert "pyproject.toml" in files
    for path, text in files.items():
        (source / path).parent.mkdir(exist_ok=True)
        (source / path).write_text(text, encoding="utf-8")
    (source / "acme" / "__init__.py").write_text('"""Acme."""\n')
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True)
    return site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.sql").write_text("CREATE TABLE shop.orders (id integer PRIMARY KEY, state text);\n")
    (tmp_path / "cdc_views.yml").write_text(PROJECT)
    (tmp_path / "events.txt").write_text("at=2;id=1;state=paid\nat=1;id=1;state=open\nat=3;id=2;state=open\nnothing\n")
    return tmp_path


_EACH = """
import contextlib, io, json, sys
from cdc_views.cli import main
told = []
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    told.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(told))
"""


def run(site: Path, folder: Path, *commands: str, code: int = 0) -> list[str]:
    """What each command prints, of one process that has the package; their exit codes are 0, that of the last one `code`."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-c", _EACH, json.dumps([shlex.split(one) for one in commands])]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    expected = [1 if one == LAND else 0 for one in commands[:-1]] + [code]
    assert [each[0] for each in told] == expected, told
    return [out if code == 0 else err for code, out, err in told]


LAND = "land acme-lines events.txt --table shop.orders"
"""One of the events is none, so that it ends with 1."""
QUERY = "query shop.orders --format jsonl"


def rows_of(answer: str) -> list[tuple[int, str]]:
    return [(row["id"], row["state"]) for row in map(json.loads, answer.splitlines())]


def test_its_format_lands_and_its_engine_keeps_a_state_applies_views_and_is_validated(site: Path, folder: Path) -> None:
    told = run(site, folder, LAND, QUERY, "apply", "materialize", QUERY, "validate --no-docs")
    assert "at=POSITION;NAME=VALUE;… was expected" in told[0]
    assert "1 events are in quarantine" in told[0]
    assert rows_of(told[1]) == rows_of(told[4]) == ROWS
    with duckdb.connect(str(folder / "warehouse" / "acme.duckdb"), read_only=True) as views:
        assert views.sql("SELECT id, state FROM shop.orders ORDER BY id").fetchall() == ROWS


def test_its_engine_s_options_are_checked_with_their_line(site: Path, folder: Path) -> None:
    (folder / "cdc_views.yml").write_text(PROJECT.replace("threads: 2", "threds: 2"))
    # `--engine acme` may be asked for, too
    (folder / "other.yml").write_text(PROJECT.replace("engine: acme", "engine: duckdb"))
    known, other, told = run(
        site, folder, "init --json-schema", "query shop.orders --project other.yml", "query shop.orders", code=2
    )
    assert "cdc_views.yml:3: unknown key 'threds' in acme; did you mean 'threads'?" in told
    assert "paid" not in other
    assert "AcmeOptions" in known


def test_its_dialect_is_printed_and_runs(site: Path, folder: Path) -> None:
    _, text, told = run(site, folder, LAND, "generate --dialect acme", "generate --dialect acmee", code=2)
    assert "there is no dialect 'acmee'; did you mean 'acme'?" in told
    raw = DeltaTable(folder / "warehouse/raw/shop_orders").to_pyarrow_table()
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA shop; CREATE TABLE shop_orders AS SELECT * FROM raw")
        connection.execute(text)
        assert connection.sql("SELECT id, state FROM shop.orders ORDER BY id").fetchall() == ROWS
    assert raw.num_rows == 3


def test_its_producer_lands_what_its_log_has_and_goes_on_after_a_stop(site: Path, folder: Path) -> None:
    log = folder / "acme.log"
    log.write_text("at=1;id=1;state=open\n")
    produced(site, folder, facts=1)
    with log.open("a") as file:
        file.write("at=2;id=1;state=paid\nat=3;id=2;state=open\n")
    produced(site, folder, facts=3)
    told, answer = run(site, folder, "produce acme --help", QUERY)
    assert "--file FILE" in told
    assert rows_of(answer) == ROWS


def produced(site: Path, folder: Path, *, facts: int) -> None:
    """Run the producer until the raw table has so many facts, then stop it, as an operator does."""
    raw = folder / "warehouse/raw/shop_orders"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "cdc_views", "produce", "acme"]
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            until = time.monotonic() + 60
            while not (raw / "_delta_log").is_dir() or DeltaTable(raw).to_pyarrow_table().num_rows < facts:
                assert process.poll() is None, process.stderr.read() if process.stderr else ""
                assert time.monotonic() < until
                time.sleep(0.2)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert DeltaTable(raw).to_pyarrow_table().num_rows == facts


def test_one_name_from_two_packages_is_refused(site: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "other-1.dist-info").mkdir()
    (other / "other-1.dist-info" / "METADATA").write_text("Name: other\nVersion: 1\n")
    (other / "other-1.dist-info" / "entry_points.txt").write_text("[cdc_views.engines]\nacme = other:Plugin\n")
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{other}"}
    command = [sys.executable, "-m", "cdc_views", "query", "shop.orders"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "engine 'acme' is offered twice" in done.stderr
