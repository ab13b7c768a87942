"""A folder of SQL that works without cdc-views: numbered files and a README."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from cdc_views.errors import UnsupportedError
from cdc_views.sql.statements import envelope
from cdc_views.storage.relation import LAYOUT_VERSION, Relation
from cdc_views_bigquery import ddl
from cdc_views_bigquery.config import BigQueryConfig
from cdc_views_bigquery.ddl import Kind, Statement, Target
from cdc_views_bigquery.merging import Merging, refresh_script, run_script, setup_script

_FOLDERS = {
    Kind.RAW: "2_raw",
    Kind.SHARED: "3_parts_of_views",
    Kind.PART: "3_parts_of_views",
    Kind.VIEW: "4_views",
    Kind.FUNCTION: "5_functions",
}
DATASETS = "1_datasets.sql"
README = "README.md"
SCHEDULED = "scheduled"
Kept = tuple[Relation, Merging]
"""A table, and what the scripts of its state work on."""


def folder(name: str, targets: Sequence[Target], config: BigQueryConfig, *, states: Sequence[Kept] = ()) -> dict[str, str]:
    """Return files, path → text, that make what `targets` need, and that keep `states`; `name` is the project's."""
    made = [statement for target in targets for statement in _made(target, config)]
    scheduled: dict[str, str] = {}
    places = dict.fromkeys(s.name.rpartition(".")[0] for s in made)
    for target, (relation, merging) in zip(targets, states, strict=False):
        if target.events is None:
            scheduled |= _scripts((relation, merging), config, replace(target, facts=merging.facts))
        else:
            places[merging.dataset] = None
            scheduled[f"{SCHEDULED}/{_fit(merging.name)}/refresh.sql"] = refresh_script(relation, merging, view=target.view)
    datasets = [ddl.dataset(place, config).sql for place in places]
    files = {DATASETS: ";\n\n".join(datasets) + ";\n"}
    listed = [(DATASETS, "the datasets")]
    for statement in sorted({*made}, key=lambda s: (_FOLDERS[s.kind], s.name)):
        path = f"{_FOLDERS[statement.kind]}/{_fit('.'.join(statement.name.split('.')[-2:]))}.sql"
        files[path] = statement.sql + ";\n"
        listed.append((path, f"{statement.kind.value} `{statement.name}`"))
    return {**files, **scheduled, README: _readme(name, targets, config, files=listed, scheduled=list(scheduled))}


def _made(target: Target, config: BigQueryConfig) -> list[Statement]:
    if target.events is not None:  # the raw table is another's, and has no column for a span of landings
        return ddl.views(target, config)
    return [ddl.raw_table(target, config), *ddl.views(target, config), ddl.function(target)]


def _readme(
    name: str, targets: Sequence[Target], config: BigQueryConfig, *, files: list[tuple[str, str]], scheduled: list[str]
) -> str:
    first, raw = targets[0], next((target for target in targets if target.events is None), None)
    return envelope(
        "bigquery_folder.md.j2",
        project=name,
        files=files,
        kept=[path for path in scheduled if not path.endswith("refresh.sql")],
        refreshed=[path for path in scheduled if path.endswith("refresh.sql")],
        limit=config.byte_limit or 10**11,
        is_placed=first.view.count(".") > 1,
        example=first.view,
        function=raw.function if raw is not None else "",
        layout=LAYOUT_VERSION,
    )


def _scripts(state: Kept, config: BigQueryConfig, read: Target) -> dict[str, str]:
    """Return a state's scripts, except for those that are too long for BigQuery; `read` is the view that reads the state."""
    relation, merging = state
    made: dict[str, Callable[[], str]] = {
        "setup": lambda: f"{ddl.dataset(merging.dataset, config).sql};\n\n{setup_script(relation, merging)}",
        "run": partial(run_script, relation, merging),
        "settle": partial(run_script, relation, merging, settles=True),
        "view": lambda: "".join(f"{made.sql};\n\n" for made in ddl.views(read, config)).rstrip() + "\n",
    }
    found: dict[str, str] = {}
    for name, text in made.items():
        with suppress(UnsupportedError):
            found[f"{SCHEDULED}/{_fit(merging.name)}/{name}.sql"] = text()
    return found


def _fit(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else f"-{ord(c):02x}" for c in name)
