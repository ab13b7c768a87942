"""A stranger's way to their own PostgreSQL: the documents' commands, word for word, from the wheel, in an empty folder."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from helpers.document_blocks import LIVE, SHOWN, read_blocks
from services.postgres import Postgres, running

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "postgres.md"
COMMANDS, MOST_SECONDS = 9, 600
LONG = " ".join(f"{number}: called on {number * 7 % 28 + 1} May." for number in range(900))
"""Longer than a page of PostgreSQL after compression, so that an update of another column leaves it out."""
TABLES = """
CREATE SCHEMA shop;
CREATE TYPE shop.stage AS ENUM ('open', 'paid', 'shipped');
CREATE DOMAIN shop.code AS text CHECK (value ~ '^[a-z]+$');
CREATE TABLE shop.customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email varchar(80) NOT NULL UNIQUE);
CREATE TABLE shop.orders (
  id int PRIMARY KEY, customer_id bigint REFERENCES shop.customers, stage shop.stage NOT NULL DEFAULT 'open', kind shop.code,
  amount numeric(10,2), notes text, tags text[], more jsonb, placed_at timestamptz DEFAULT now()
);
CREATE INDEX ON shop.orders (placed_at);
CREATE VIEW shop.open_orders AS SELECT * FROM shop.orders WHERE stage = 'open';
CREATE FUNCTION shop.touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.placed_at := now(); RETURN NEW; END $$;
CREATE TRIGGER touched BEFORE INSERT ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.touch();
INSERT INTO shop.customers (email) SELECT 'c' || n || '@example.org' FROM generate_series(1, 50) n;
"""
FILL = """
INSERT INTO shop.orders (id, customer_id, amount, notes, tags, more)
SELECT n, mod(n, 50) + 1, n * 1.25, CASE mod(n, 9) WHEN 0 THEN %s END, ARRAY['a', NULL, 'b'], '{"n": [1, 2]}'
FROM generate_series(1, 3000) n
"""
ROWS = """
SELECT jsonb_build_object('id', id, 'customer_id', customer_id, 'stage', stage, 'kind', kind, 'amount', amount::text,
  'notes', notes, 'tags', tags, 'more', more,
  'placed_at', to_char(placed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')) FROM shop.orders
"""


@contextmanager
def changing(server: Postgres) -> Iterator[None]:
    """Somebody works in the shop meanwhile."""
    stop = Event()

    def work() -> None:
        for number in range(10_000):
            if stop.wait(0.05):
                return
            server.sql("UPDATE shop.orders SET stage = 'paid', amount = amount + 1 WHERE id = %s", (number * 7 % 3000 + 1,))
            if number % 3 == 0:
                server.sql("INSERT INTO shop.orders (id, kind, notes) VALUES (%s, 'gift', %s)", (10_000 + number, LONG))
            if number % 5 == 0:
                server.sql("DELETE FROM shop.orders WHERE id = %s AND id <> 101", (number * 11 % 3000 + 1,))

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def commands() -> list[str]:
    """What the page tells a stranger to run, a line each."""
    blocks = [block for block in read_blocks(PAGE.read_text("utf-8")) if block.mark == LIVE]
    return [line for block in blocks for line in block.text.splitlines() if line.strip()]


def script(lines: list[str]) -> str:
    """The lines, the address left to the environment, each after a note of when it began; then what the test asks."""
    addressed = [line for line in lines if line.startswith("export PGHOST=")]
    assert len(addressed) == 1
    noted = [f'echo "$SECONDS {number}" >> began\n{line}' for number, line in enumerate(lines) if line not in addressed]
    asked = [
        'echo "$SECONDS" > ended',
        "until [ -e quiet ]; do sleep 0.1; done",
        "cdc-views verify orders --source postgresql:// --sample 0 --rate 0",
        "cdc-views query orders --format jsonl > rows.jsonl",
        "python -c 'import cdc_views; print(cdc_views.__file__)' > where",
        "kill %1 && wait %1",
    ]
    return "\n".join(["set -e", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT", *noted, *asked])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return next(folder.glob("*.whl"))


def environment(server: Postgres, wheel: Path) -> dict[str, str]:
    """A login shell's variables, the server's address, and where pip finds the wheel beside its index."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CDC_VIEWS", "VIRTUAL_ENV", "PG"))}
    return {**own, **server.environment, "PIP_FIND_LINKS": str(wheel.parent), "LC_ALL": "C.UTF-8"}


def run(text: str, *, folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    with (folder.parent / "said").open("w") as said:
        return subprocess.Popen(
            ["bash", "-c", text], cwd=folder, env=environment, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            text=True, start_new_session=True,
        )  # fmt: skip


def wait_for(file: Path, process: subprocess.Popen[str], *, within: float) -> None:
    until = time.monotonic() + within
    while not file.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.2)


def test_a_stranger_has_their_own_table_merged_proved_and_explained(wheel: Path, tmp_path: Path) -> None:
    lines, folder = commands(), tmp_path / "empty"
    assert len(lines) == COMMANDS, "README and the page say how many"
    assert not [line for line in lines if "&&" in line or ";" in line]
    folder.mkdir()
    with running() as server:
        server.sql(TABLES)
        server.sql(FILL, (LONG,))
        process = run(script(lines), folder=folder, environment=environment(server, wheel))
        try:
            with changing(server):
                wait_for(folder / "ended", process, within=MOST_SECONDS)
            (folder / "quiet").touch()
            code = process.wait(120)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        said = (tmp_path / "said").read_text("utf-8")
        assert code == 0, said
        wanted = {row["id"]: row for (row,) in server.sql(ROWS)}
    _tell(lines, folder)
    assert f"Processing {wheel}" in said
    assert (folder / "where").read_text().startswith(str(folder / ".venv"))
    (told,) = (block.text for block in read_blocks(PAGE.read_text("utf-8")) if block.mark == SHOWN)
    assert told.strip().removesuffix("...") == "shop.orders: equal, 0 cells lost, "
    assert told.strip().removesuffix("...") in said, said
    assert "shop.orders, id = 101: the row exists at" in said
    assert shown(folder) == wanted
    assert any(row["notes"] == LONG and row["stage"] == "paid" for row in wanted.values())


def shown(folder: Path) -> dict[int, dict[str, object]]:
    """The view's rows, as the server writes them."""
    rows = [json.loads(line, parse_float=str) for line in (folder / "rows.jsonl").read_text("utf-8").splitlines()]
    return {row["id"]: {**row, "placed_at": row["placed_at"].removesuffix("Z")} for row in rows}


def _tell(lines: list[str], folder: Path) -> None:
    ended = int((folder / "ended").read_text())
    began = [tuple(map(int, line.split())) for line in (folder / "began").read_text().splitlines()]
    ends = [*(second for second, _ in began[1:]), ended]
    for (second, number), end in zip(began, ends, strict=True):
        print(f"{end - second:4d} s  {shlex.quote(lines[number])}")
    print(f"{ended:4d} s  in all, {len(lines)} commands")
    assert ended < MOST_SECONDS
