"""The command line as a user runs it, in this process: a project in a folder, and what a command answered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cdc_views.cli import main


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of `--format jsonl`, numbers exact."""
        return [json.loads(line, parse_float=Decimal) for line in self.out.splitlines()]


@dataclass(frozen=True)
class CommandLine:
    """Runs commands; the working directory is the project's folder."""

    captured: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Answer:
        """Run one command line."""
        code = main(arguments)
        out, err = self.captured.readouterr()
        return Answer(code, out, err)

    def land(self, table: str, *lines: str, format: str = "debezium", file: str = "events.jsonl") -> Answer:
        """Write the lines to a file and land it."""
        Path(file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return self("land", format, file, "--table", table)

    def query(self, table: str, *more: str) -> list[dict[str, Any]]:
        """Return the rows of a table; the command must succeed."""
        answer = self("query", table, "--format", "jsonl", *more)
        assert (answer.code, answer.err) == (0, ""), answer.err
        return answer.rows


def write_project(*tables: dict[str, Any], name: str = "cdc_views.yml") -> None:
    """Write a project of these tables into the working directory."""
    Path(name).write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": list(tables)}), encoding="utf-8")


def table(name: str, schema: str, format: str = "debezium", **more: Any) -> dict[str, Any]:
    """One table of a project file."""
    return {"name": name, "schema": schema, "raw": {"format": format, **more.pop("raw", {})}, **more}
