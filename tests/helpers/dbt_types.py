"""A table with a column of every type that a contract may name, and the types that an export gives them."""

from __future__ import annotations

from pathlib import Path

import jinja2
import yaml

from cdc_views.api import Project
from cdc_views.export.dbt import files_of
from cdc_views.storage.relation import Relation

_SCALARS = (
    *(
        "ascii",
        "bigint",
        "blob",
        "boolean",
        "date",
        "datetime",
        "decimal",
        "decimal(12,4)",
        "double",
        "duration",
        "float",
        "inet",
    ),
    *("instant", "int", "json", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid", "varchar", "varint"),
)
_NESTED = (
    "list<timestamp>",
    "set<uuid>",
    "map<text, int>",
    "map<timestamp, decimal>",
    "map<frozen<list<int>>, text>",
    "frozen<list<date>>",
    "frozen<set<time>>",
    "frozen<map<text, timestamp>>",
    "frozen<map<int, frozen<list<blob>>>>",
    "tuple<int, text, timestamp>",
    "vector<float, 3>",
    "place",
    "frozen<place>",
    "list<frozen<place>>",
    "frozen<odd>",
    "odd",
)


def table_of_every_type(folder: Path) -> Project:
    """A project in `folder`."""
    columns = {"id": {"type": "int", "role": "partition"}}
    columns |= {f"c{n}": {"type": kind} for n, kind in enumerate([*_SCALARS, *_NESTED])}
    types = {"place": {"city": "text", "since": "timestamp"}, "odd": {"Upper": "int", "since": "date"}}
    (folder / "all.yml").write_text(yaml.safe_dump({"table": "shop.every", "types": types, "columns": columns}, sort_keys=False))
    table = {"name": "shop.every", "schema": "all.yml", "raw": {"format": "cassandra-mutation"}}
    (folder / "cdc_views.yml").write_text(yaml.safe_dump({"name": "shop", "engine": "duckdb", "tables": [table]}))
    return Project.load(folder / "cdc_views.yml")


def relation_of(project: Project) -> Relation:
    """The only table's relation."""
    return project.tables[0].relation


def contracted(project: Project, adapter: str) -> dict[str, str]:
    """The data types of the exported model's columns, as dbt renders them for an adapter."""
    text = files_of("shop", project.tables)["models/cdc_views/_cdc_views__models.yml"]
    target = {"type": adapter}
    columns = yaml.safe_load(text)["models"][0]["columns"]
    return {one["name"]: jinja2.Template(one["data_type"]).render(target=target) for one in columns}
