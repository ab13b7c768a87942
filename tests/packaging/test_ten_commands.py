"""From nothing to a merged, explained and validated table: ten of the documents' commands, word for word, from the wheel."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.bigquery_warehouses import Served
from helpers.document_blocks import INSTALL, Step, read_blocks, read_steps
from helpers.document_shell import Shell, environment, without_java

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MOST_COMMANDS, MOST_SECONDS = 10, 600
ENDS = ("cdc-views query ", "cdc-views explain ", "cdc-views validate ")
WAYS = {
    "README": ("cdc-views demo", "cdc-views init", "cdc-views land debezium customers", "cdc-views land debezium orders", *ENDS),
    "postgres": (
        "cdc-views demo",
        "cdc-views init",
        "cdc-views land debezium customers",
        "cdc-views land debezium orders",
        *ENDS,
    ),
    "cassandra": ("cdc-views demo", "cdc-views init", "cdc-views land cassandra-mutation node1.jsonl", *ENDS),
    "bronze-table": ("cdc-views demo", "from pathlib import Path", "cat > cdc_views.yml", *ENDS),
    "bigquery": ("cdc-views demo", "cat > cdc_views.yml", "cdc-views apply", "cdc-views land", *ENDS),
}
"""How the chosen commands of README and each tutorial begin; the first one that begins so is taken."""
SHOWS = {"README": "245.00", "postgres": "245.00", "cassandra": "WELCOME", "bronze-table": "245.00", "bigquery": "245.00"}
"""A value of a row that the query shows."""


def page(name: str) -> str:
    folder = ROOT if name == "README" else ROOT / "docs" / "tutorials"
    return (folder / f"{name}.md").read_text(encoding="utf-8")


def chosen(name: str) -> list[Step]:
    steps = read_steps(page(name))
    return [next(step for step in steps if step.command.startswith(start)) for start in WAYS[name]]


def installing(name: str) -> list[str]:
    (block,) = [block for block in read_blocks(page(name)) if block.mark == INSTALL]
    return [command for line in block.text.splitlines() for command in line.split(" && ")]


def follow(name: str, shell: Shell, *, endpoint: str = "") -> dict[str, str]:
    """Run the way; returns what each command printed. `endpoint` is a server's address in BigQuery's place."""
    steps, began, printed = chosen(name), time.monotonic(), dict[str, str]()
    assert len(installing(name)) + len(steps) <= MOST_COMMANDS
    for start, step in zip(WAYS[name], steps, strict=True):
        command = step.command.replace("bigquery:\n", f"bigquery:\n  endpoint: {endpoint}\n") if endpoint else step.command
        done = shell.run_python(command) if step.language == "python" else shell.run(command)
        code = int(done.out) if command.endswith("echo $?") else done.code
        assert code == 0, (command, done.out, done.err)
        printed[start] = done.out
    assert time.monotonic() - began < MOST_SECONDS
    return printed


def shell_of(folder: Path, unpacked: Path) -> Shell:
    variables = environment(ROOT)
    java = without_java(folder, variables["PATH"])
    shell = Shell(folder, {**variables, **java, "PYTHONPATH": str(unpacked)}, is_in_process=False)
    assert shell.run('python -c "import cdc_views; print(cdc_views.__file__)"').out.startswith(str(unpacked))
    return shell


def check(name: str, printed: dict[str, str]) -> None:
    query, explained, validated = (printed[start] for start in ENDS)
    assert SHOWS[name] in query
    assert "shown" in explained
    assert "lost" in explained
    assert not re.search(r"failed\W+error", validated), validated


@pytest.mark.parametrize("name", sorted(WAYS.keys() - {"bigquery"}))
def test_ten_commands_are_enough(name: str, unpacked: Path, tmp_path: Path) -> None:
    check(name, follow(name, shell_of(tmp_path, unpacked)))
    assert not list(tmp_path.rglob("java.started"))


@pytest.fixture
def server() -> Iterator[Served]:
    from helpers.bigquery_values import Evaluator
    from services.bigquery_http import served

    with served(Evaluator()) as (url, store):
        yield Served(url, store)


def test_ten_commands_are_enough_for_bigquery(server: Served, unpacked: Path, tmp_path: Path) -> None:
    check("bigquery", follow("bigquery", shell_of(tmp_path, unpacked), endpoint=server.url))


def test_a_way_that_fails_is_noticed(unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WAYS, "README", ("cdc-views demo", *ENDS))
    with pytest.raises(AssertionError, match="no such project file"):
        follow("README", shell_of(tmp_path, unpacked))
