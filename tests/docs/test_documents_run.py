"""The README's tour, the tutorial and the how-tos do what they claim, block by block."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers.document_blocks import idle_blocks, read_blocks, read_steps
from helpers.document_runs import run_document
from helpers.document_shell import Shell, environment, first_program

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WALKED = [path for kind in ("tutorials", "how-to") for path in sorted((DOCS / kind).glob("*.md"))]
"""The documents every block of which runs."""

SERVED = {"bigquery.md"}
"""Of these, what needs a server runs where the server is, in tests/bigquery."""

IS_IN_PROCESS = os.environ.get("CDC_VIEWS_DOCS_BY") != "bash"
"""With CDC_VIEWS_DOCS_BY=bash (`make docs`) bash runs every command, as a reader does."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path, environment(ROOT), is_in_process=IS_IN_PROCESS)


@pytest.mark.heavy
@pytest.mark.parametrize("path", [ROOT / "README.md", *(path for path in WALKED if path.name not in SERVED)], ids=name_of)
def test_a_document_does_what_it_claims(path: Path, shell: Shell) -> None:
    assert run_document(path.read_text(encoding="utf-8"), shell) == ""


@pytest.mark.parametrize("path", WALKED, ids=name_of)
def test_every_block_runs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert read_steps(text)
    assert [f"{path.name}:{block.line}" for block in idle_blocks(text)] == []


def test_only_the_installation_is_replaced() -> None:
    marks = {path.name: [block.mark for block in read_blocks(path.read_text(encoding="utf-8")) if block.mark] for path in WALKED}
    assert [marks[name][0] for name in ("cassandra.md", "postgres.md", "bronze-table.md", "bigquery.md")] == ["install"] * 4
    assert {mark for found in marks.values() for mark in found} <= {"install", "live", "shown"}


TINY = """
```sh
echo 'CREATE TABLE shop.t (k int PRIMARY KEY, v int);' > t.cql
cdc-views init --from t.cql --name shop
```

```console
$ cdc-views land cassandra-mutation none.jsonl --table shop.t
error: ...none.jsonl...
$ echo $?
2
$ cdc-views fidelity --format csv | head -n 2
table,column,verdict,reason,case,waived
shop.t,*,EXACT,...
```

```python
print(1 + 1)
```

```text
2
```
"""


@pytest.mark.parametrize("is_in_process", [True, False], ids=["here", "bash"])
def test_a_document_that_holds(tmp_path: Path, is_in_process: bool) -> None:
    assert run_document(TINY, Shell(tmp_path, environment(ROOT), is_in_process=is_in_process)) == ""


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("shop.t,*,EXACT,...", "shop.t,*,UNSAFE,...", "the document claims"),
        ("$ echo $?\n2", "$ echo $?\n3", "the document claims"),
        ("$ echo $?\n2\n", "", "ended with 2"),
        ("fidelity --format", "fidelty --format", "ended with 2"),
        ("```text\n2\n", "```text\n3\n", "the document claims"),
        ("print(1 + 1)", "print(1 / 0)", "ended with 1"),
        ("echo 'CREATE", "echos 'CREATE", "ended with 127"),
        ("head -n 2", "head -n 1", "the document claims"),
    ],
)
def test_what_does_not_hold_is_noticed(shell: Shell, right: str, wrong: str, complaint: str) -> None:
    assert right in TINY
    assert complaint in run_document(TINY.replace(right, wrong), shell)


def test_a_block_that_does_not_run_is_noticed() -> None:
    assert [block.line for block in idle_blocks(TINY)] == []
    idle = TINY + "\n```\ncdc-views query\n```\n\n```yaml\na: 1\n```\n\n<!-- docs-test: shown -->\n```yaml\na: 1\n```\n"
    assert [block.language for block in idle_blocks(idle)] == ["", "yaml"]


@pytest.mark.parametrize(
    ("command", "words", "rest"),
    [
        ("cdc-views query t", ["query", "t"], ""),
        ("cdc-views query t > f", ["query", "t"], "cat > f"),
        ("""cdc-views query t --where "a > b" """, ["query", "t", "--where", "a > b"], ""),
        ("""cdc-views query t --where "a = 'x|y'" | wc -l""", ["query", "t", "--where", "a = 'x|y'"], "wc -l"),
        ("""cdc-views late --key '{"a": "$b"}' | head | wc -l""", ["late", "--key", '{"a": "$b"}'], "head | wc -l"),
    ],
)
def test_a_plain_command_line_is_read_as_bash_reads_it(command: str, words: list[str], rest: str) -> None:
    assert first_program(command) == (["cdc-views", *words], rest)


@pytest.mark.parametrize(
    "command",
    [
        "cdc-views query t > $F",
        "cdc-views query t >> f",
        "cdc-views query $T",
        'cdc-views query "$T"',
        "cdc-views a; b",
        "cdc-views a && b",
        "cdc-views a || b",
        "cat f | cdc-views land x -",
        "cdc-views land *.jsonl",
        "X=1 cdc-views query t",
        "cdc-views query t 2>&1",
        "cdc-views q `t`",
    ],
)
def test_what_bash_would_replace_is_left_to_bash(command: str) -> None:
    assert first_program(command) is None
