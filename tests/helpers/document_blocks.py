"""The blocks of a document that run: what is in them, and what the document says they print.

A document runs from top to bottom in one folder. Its blocks:

- `console`: lines that begin with `$ ` are commands; the lines below one are what it prints.
- `sh`: commands, one a line; what they print is not shown. With a here-document the whole block is one command.
- `python`: a program.
- `text` right below an `sh` or `python` block: what that prints.

A block under `<!-- docs-test: install -->` is what a test may replace. One under `<!-- docs-test: live -->` needs a server, and
runs in a test of its own. One under `<!-- docs-test: shown -->` is there to be read; any other that does not run is a mistake
(`idle_blocks`).
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

INSTALL = "install"
LIVE = "live"
SHOWN = "shown"
RUNNABLE = frozenset({"console", "sh", "python"})

_FENCE = re.compile(
    r"(?:^<!-- docs-test: (?P<mark>\w+) -->\n+)?^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```[ \t]*$", re.M | re.S
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `line` is that of its fence, from 1; `mark` is the test's own word above it, or empty."""

    language: str
    text: str
    line: int
    mark: str


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a document, or one program; `claimed` is what it prints, or None where the document is silent."""

    language: str
    command: str
    claimed: str | None
    line: int


def read_blocks(text: str) -> list[Block]:
    """Every fenced block, in order."""
    return [
        Block(found["language"], found["text"], text.count("\n", 0, found.start("language")) + 1, found["mark"] or "")
        for found in _FENCE.finditer(text)
    ]


def read_steps(text: str) -> list[Step]:
    """What a document runs, in order, without the blocks of its installation."""
    found: list[Step] = []
    before: Block | None = None
    for block in read_blocks(text):
        if block.language == "text" and not block.mark and before is not None and before.language in ("sh", "python"):
            last = found[-1]
            found[-1] = Step(last.language, last.command, block.text, last.line)
        elif not block.mark:
            found += _steps_of(block)
        before = block
    return found


def idle_blocks(text: str) -> list[Block]:
    """The blocks that neither run nor say what another one prints, and are not marked as such."""
    blocks = read_blocks(text)
    printed = [one for before, one in pairwise(blocks) if one.language == "text" and before.language in ("sh", "python")]
    return [block for block in blocks if not block.mark and block.language not in RUNNABLE and block not in printed]


def _steps_of(block: Block) -> Iterator[Step]:
    if block.language == "python":
        yield Step("python", block.text, None, block.line)
    elif block.language == "sh":
        lines = [block.text] if "<<" in block.text else block.text.replace("\\\n", " ").splitlines()
        yield from (Step("sh", line, None, block.line) for line in lines if line.strip() and not line.startswith("#"))
    elif block.language == "console":
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, claimed = part.replace("\\\n", " ").partition("\n")
            yield Step("console", command, claimed, block.line)


def matches(claimed: str, got: str) -> bool:
    """Whether what was printed is what the document claims; `...` stands for anything, on one line or many."""
    return doctest.OutputChecker().check_output(claimed, got, doctest.ELLIPSIS)
