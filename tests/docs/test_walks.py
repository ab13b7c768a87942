"""The walks of docs/internals/architecture.md: every hop is a function of that file, and is called after the one before it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.tiny_project import event, make_project, write_lines

ROOT = Path(__file__).parents[2]
WALK = re.compile(r"<!-- walk: (?P<command>.*?) -->\n\n(?P<table>(?:\|.*\n)+)")
HOP = re.compile(r"^\| `(?P<file>[^`]+)` `(?P<name>[^`]+)` \|", re.MULTILINE)
PAGE = (ROOT / "docs/internals/architecture.md").read_text(encoding="utf-8")
WALKS = {found["command"]: HOP.findall(found["table"]) for found in WALK.finditer(PAGE)}
LAND = "land cassandra-mutation e.jsonl --table shop.orders"
TRACER = """
import sys
from pathlib import Path
import cdc_views
from cdc_views.cli import main
package, called = str(Path(cdc_views.__file__).parent) + "/", []
def note(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(package):
        called.append(f"{frame.f_code.co_filename[len(package):]} {frame.f_code.co_name}")
sys.setprofile(note)
code = main(sys.argv[2:])
sys.setprofile(None)
Path(sys.argv[1]).write_text("\\n".join(called))
sys.exit(code)
"""


def calls(folder: Path, command: str) -> list[tuple[str, str]]:
    """(file, function) of each call that a command makes, in order."""
    arguments = [sys.executable, "-c", TRACER, str(folder / "calls.txt"), *command.split()]
    subprocess.run(arguments, cwd=folder, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    return [tuple(line.split(" ", 1)) for line in (folder / "calls.txt").read_text().splitlines()]  # type: ignore[misc]


def missed(hops: list[tuple[str, str]], made: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The hops from the first on that is not called after the one before it."""
    at = 0
    for number, hop in enumerate(hops):
        if hop not in made[at:]:
            return hops[number:]
        at = made.index(hop, at)
    return []


@pytest.mark.heavy
@pytest.mark.parametrize("command", WALKS)
def test_each_hop_of_a_walk_is_called_in_its_turn(command: str, tmp_path: Path) -> None:
    make_project(tmp_path)
    write_lines(tmp_path / "e.jsonl", event(1))
    write_lines(tmp_path / "later.jsonl", event(2))
    before = {"land": [], "materialize": [LAND, "materialize", LAND.replace("e.", "later.")], "query": [LAND]}
    for earlier in before[command.split()[0]]:
        calls(tmp_path, earlier)
    assert len(WALKS[command]) >= 8
    assert missed(WALKS[command], calls(tmp_path, command)) == []


def test_there_are_walks_of_an_event_and_of_a_query() -> None:
    assert [command.split()[0] for command in WALKS] == ["land", "materialize", "query"]


def test_a_hop_out_of_turn_is_found() -> None:
    made = [("a.py", "f"), ("b.py", "g"), ("c.py", "h")]
    assert missed([("a.py", "f"), ("c.py", "h")], made) == []
    assert missed([("b.py", "g"), ("a.py", "f")], made) == [("a.py", "f")]


def test_every_package_and_module_at_the_top_stands_once_on_the_map() -> None:
    text = (ROOT / "docs/internals/architecture.md").read_text()
    table = text[text.index("## Packages") : text.index("## One event")]
    shown = [
        name.rstrip("/").rpartition("/")[2]
        for cell in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(.*?)`", cell)
    ]
    tops = [path for path in (ROOT / "cdc_views").glob("[a-z]*") if path.suffix == ".py" or [*path.glob("*.py")]]
    top = {path.name for path in tops}
    assert sorted(shown) == sorted({*top, "templates", "cdc_views_spark", "cdc_views_bigquery", "cdc_producers"})
