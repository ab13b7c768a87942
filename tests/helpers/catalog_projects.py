"""A project whose raw table has a name in a catalog, and what another session reads there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from helpers.command_line import Answer, CommandLine, table
from helpers.tiny_project import CQL, event

NAME = "shop.orders"
FORMAT = "cassandra-mutation"


def write_project(raw: str | None, *, catalog: str | None = None, engine: str = "spark", **more: Any) -> None:
    """Write a Spark project of one table into the working directory; `raw` is its `raw.table`, `layout` its `raw.layout`."""
    named = {"table": raw} if raw else {}
    named |= {"layout": more.pop("layout")} if "layout" in more else {}
    body = table(NAME, "schema.cql", FORMAT, raw=named, **more.pop("table", {}))
    spark = {**more.pop("spark", {}), **({"catalog": catalog} if catalog else {})}
    document = {"name": "my shop", "engine": engine, "tables": [body], **({"spark": spark} if spark else {}), **more}
    Path("schema.cql").write_text(CQL)
    Path("cdc_views.yml").write_text(json.dumps(document))


def land(run: CommandLine, *numbers: int, **more: Any) -> Answer:
    """Land one event for each of these keys."""
    return run.land(NAME, *(event(number, **more) for number in numbers), format=FORMAT)


def done(answer: Answer) -> Answer:
    """The answer of a command that succeeded."""
    assert answer.code == 0, answer.err
    return answer


def refused(answer: Answer, *parts: str) -> Answer:
    """The answer of a command that the user has to correct; its error has these parts, on one line."""
    assert answer.code == 2, (answer.code, answer.out, answer.err)
    for part in parts:
        assert part in answer.err, answer.err
    return answer
