"""The scripts of one table: one makes its tables, and a scheduled query runs the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cdc_views.formats.base import WriteOrder
from cdc_views.model.naming import physical_name
from cdc_views.plan.purge import PURGED_KIND
from cdc_views.sql.statements import envelope
from cdc_views.storage.relation import LAYOUT_VERSION, Relation
from cdc_views_bigquery.limits import check_statement, check_view, fits
from cdc_views_bigquery.merging import plans
from cdc_views_bigquery.merging.columns import (
    FACT,
    OWNER,
    PART,
    ROW,
    WATERMARK,
    clustered_by,
    identity_of,
    literal,
    raw_columns,
    serving_columns,
    setting_of,
    shown_columns,
    state_columns,
)
from cdc_views_bigquery.merging.tables import Merging
from cdc_views_bigquery.types import one_line, quoted

EVERYTHING = "0001-01-01 00:00:00+00"
"""A bound before every landing time: the least TIMESTAMP."""
IDENTITY_LABEL = "cdc-views-identity"
"""Label of a state: a digest of its key and of the order of its facts (`columns.identity_of`)."""
_BOUND = "<since>"
_REMEDY = "leave columns out of the schema file, keep no serving table, or materialize on duckdb or spark"


def setup_script(relation: Relation, merging: Merging) -> str:
    """Return the script that makes missing tables and the facts view; raises `UnsupportedError` beyond BigQuery's limits."""
    table = relation.schema.full_name
    keys = [physical_name(column.name) for column in relation.schema.row_key]
    users, served = dict(shown_columns(relation)), serving_columns(relation)
    shown_keys = [users[column.name].name for column in relation.schema.row_key]
    sql = envelope(
        "bigquery_merge_setup.sql.j2",
        table=one_line(table),
        layout=LAYOUT_VERSION,
        m=merging,
        raw=raw_columns(relation),
        state=state_columns(relation),
        served=served,
        state_clusters=clustered_by(state_columns(relation), keys),
        served_clusters=clustered_by(served, shown_keys),
        watermark=WATERMARK,
        label=IDENTITY_LABEL,
        identity=literal(identity_of(relation)),
        state_description=literal(f"state of {table}, one row per fact (cdc-views, raw layout {LAYOUT_VERSION})"),
        served_description=literal(f"rows of {table} as of the clock in its watermark (cdc-views)"),
        late_description=literal(f"facts of {table} that landed too late (cdc-views, raw layout {LAYOUT_VERSION})"),
        view=facts_view(relation, merging, only_if_missing=True),
    )
    check_statement(sql, what=f"the setup script of {table}", remedy=_REMEDY)
    return sql


def refresh_script(relation: Relation, merging: Merging, *, view: str) -> str:
    """Return the statement that makes the serving table anew from a view: for a view of events that somebody else lands."""
    types, keys = dict(shown_columns(relation)), [column.name for column in relation.schema.row_key]
    return envelope(
        "bigquery_refresh.sql.j2",
        table=one_line(relation.schema.full_name),
        view=quoted(view),
        served=merging.served,
        clusters=clustered_by((replace(types[name], name=name) for name in keys), keys),
        description=literal(f"rows of {relation.schema.full_name} when it was last made anew (cdc-views)"),
    )


def run_script(relation: Relation, merging: Merging, *, settles: bool = False, full: bool = False) -> str:
    """Return the script of one run: reduce the tail, merge it, move the watermark; raises as `setup_script` does.

    `settles` also writes the state again, with deletions applied, and without what ended before the lateness horizon if there is
    one. That reads and writes all of the state: run it seldom. `full` reads all of raw instead of state and tail; what was late
    stays out, and what partitions have purged is remembered. It does not judge the tail's lateness: before it, run one that is
    not full. A script that is too long to be sent is made dense.
    """
    sql = _run(relation, merging, settles=settles, full=full)
    if not fits(sql) and not merging.is_dense:
        sql = _run(relation, replace(merging, is_dense=True), settles=settles, full=full)
    check_statement(sql, what=f"the merge script of {relation.schema.full_name}", remedy=_REMEDY)
    return sql


def _run(relation: Relation, merging: Merging, *, settles: bool, full: bool) -> str:
    names = [column.name for column in raw_columns(relation)]
    state, served = [c.name for c in state_columns(relation)], [c.name for c in serving_columns(relation)]
    before, after = facts_view(relation, merging, since=_BOUND).split(_BOUND)
    return envelope(
        "bigquery_merge_run.sql.j2",
        table=one_line(relation.schema.full_name),
        layout=LAYOUT_VERSION,
        m=merging,
        settles=settles,
        full=full,
        purged_kind=literal(PURGED_KIND),
        has_truncates=relation.order is WriteOrder.LOG_POSITION,
        setting=literal(setting_of(relation)),
        columns=_listed(names),
        tail=_tail(relation, merging, names),
        **_lateness(relation, merging, names, full=full),
        state=_known(relation, merging, plans.state_query(relation, merging)),
        settled=_known(relation, merging, plans.settled_query(relation, merging)) if settles else "",
        rows=plans.rows_query(relation, merging, facts="_owned") if merging.serving else "",
        state_names=_listed(state),
        state_values=_listed(state, of="_s."),
        state_updates=_updates(state, known=(PART, OWNER, FACT)),
        served_names=_listed(served),
        served_values=_listed(served, of="_s."),
        served_updates=_updates(served, known=(PART, OWNER, ROW)),
        temporary=_temporary(merging, settles=settles, full=full),
        view_before=literal(before),
        view_after=literal(after),
    )


def _lateness(relation: Relation, merging: Merging, names: list[str], *, full: bool) -> dict[str, str]:
    if merging.lateness is None:
        return {"in_time": "", "late": ""}
    if full:
        return {"in_time": plans.known_in_time_query(relation, merging, tail=plans.TAIL, late=merging.late), "late": ""}
    purged = f"(SELECT {_listed(names)} FROM {merging.state} WHERE _part IN UNNEST(_parts) AND _kind = '{PURGED_KIND}')"
    return {
        "in_time": plans.in_time_query(relation, merging, tail=plans.TAIL, purged=purged),
        "late": plans.late_query(relation, merging, tail=plans.TAIL, purged=purged),
    }


def facts_view(relation: Relation, merging: Merging, *, since: str = EVERYTHING, only_if_missing: bool = False) -> str:
    """Return the statement that makes the view of the state and of what landed at or after `since`, in the raw layout.

    A table's view over it shows the same as one over raw, and reads less. A bound older than the state's changes nothing shown.
    """
    names = [column.name for column in raw_columns(relation)]
    landed = f"SELECT {_listed(names)} FROM {merging.raw} AS _raw WHERE _raw._landed_at >= TIMESTAMP '{since}'"
    if merging.lateness is not None:
        purged = f"(SELECT {_listed(names)} FROM {merging.state} WHERE _kind = '{PURGED_KIND}')"
        landed = f"SELECT {_listed(names)} FROM (\n{plans.in_time_query(relation, merging, tail=f'({landed})', purged=purged)}\n)"
    query = f"SELECT {_listed(names)} FROM {merging.state} WHERE _kind <> '{PURGED_KIND}'\nUNION ALL\n{landed}"
    check_view(
        query,
        what=f"the view of state and tail of {relation.schema.full_name}",
        remedy="set no lateness, or leave columns out of the schema file",
    )
    return f"CREATE {'VIEW IF NOT EXISTS' if only_if_missing else 'OR REPLACE VIEW'} {merging.facts} AS\n{query}"


def _tail(relation: Relation, merging: Merging, names: list[str]) -> str:
    seen = f"MD5(ARRAY_TO_STRING([{', '.join(map(_member, names))}], ',')) AS _seen"
    landed = f"(SELECT {_listed(names)}, {seen} FROM {merging.raw} AS _raw WHERE _raw._landed_at >= _since)"
    return plans.identified(relation, merging, source=landed, also=("_seen",))


def _member(name: str) -> str:
    """Return a column as a member of a JSON object, null if it is null: additional columns then leave digests as they are."""
    column = quoted(name)
    return f"IF({column} IS NULL, NULL, CONCAT({literal(name + ':')}, TO_JSON_STRING({column})))"


def _known(relation: Relation, merging: Merging, query: str) -> str:
    return plans.identified(relation, merging, source=f"(\n{query}\n)", is_reduced=True)


def _temporary(merging: Merging, *, settles: bool, full: bool) -> list[str]:
    late = ["_counted", *([] if full else ["_too_late"])] if merging.lateness is not None else []
    return [
        *(["_purged"] if full else []),
        "_tail",
        *late,
        "_facts",
        *(["_settled"] if settles else []),
        *(["_due", "_owned", "_rows"] if merging.serving else []),
    ]


def _listed(names: Iterable[str], *, of: str = "") -> str:
    return ", ".join(of + quoted(name) for name in names)


def _updates(names: Iterable[str], *, known: tuple[str, ...]) -> str:
    return ", ".join(f"{quoted(name)} = _s.{quoted(name)}" for name in names if name not in known)
