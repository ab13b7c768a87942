"""OpenLineage events of a run: of which raw table a view is made, column by column, and how its tests ended.

The events are those of OpenLineage 2-0-2: a START and an end for each run of a table. They have no keys and no values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from cdc_views.model.column_policies import Policy
from cdc_views.operations.context import TableContext
from cdc_views.operations.posting import post_json
from cdc_views.plan.lineage import ColumnLineage, RawColumn, lineage_of
from cdc_views.storage.stores import is_url

_SPEC = "https://openlineage.io/spec"
_FACETS = {
    "columnLineage": "facets/1-2-0/ColumnLineageDatasetFacet.json#/$defs/ColumnLineageDatasetFacet",
    "dataQualityAssertions": "facets/1-1-0/DataQualityAssertionsDatasetFacet.json#/$defs/DataQualityAssertionsDatasetFacet",
    "errorMessage": "facets/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet",
    "jobType": "facets/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet",
    "schema": "facets/1-2-0/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet",
}
COMMANDS = ("materialize", "rebuild", "validate")
"""Commands that have events."""


@dataclass(frozen=True, slots=True)
class Assertion:
    """How a test of a table ended; `rule` says what must hold."""

    name: str
    success: bool
    is_error: bool
    rule: str


@dataclass(frozen=True, slots=True)
class TableRun:
    """A run of a command for a table, which took `seconds` until `ended`; `problem` is the kind of its error, empty if it has
    none.
    """

    command: str
    ended: datetime
    seconds: float
    problem: str = ""
    tests: tuple[Assertion, ...] = ()


def events_of(table: TableContext, run: TableRun, *, namespace: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the event of a run's start and that of its end; `namespace` is that of the job and of the view."""
    raw, view = _raw(table), {"namespace": namespace, "name": table.name}
    job = {"processingType": "BATCH", "integration": "CDC_VIEWS", "jobType": run.command.upper()}
    told: dict[str, Any] = {
        "producer": _producer(),
        "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "job": {"namespace": namespace, "name": f"{run.command} {table.name}", "facets": _facets(jobType=job)},
    }
    identity: dict[str, Any] = {"runId": str(uuid4())}
    if run.command == "validate":
        data: dict[str, Any] = {"inputs": [view], "outputs": []}
        found = {"inputs": [{**view, "inputFacets": _facets(dataQualityAssertions={"assertions": _assertions(run.tests)})}]}
    else:
        data = {"inputs": [raw], "outputs": [view]}
        found = {"outputs": [{**view, "facets": _view_facets(table, raw)}]}
    if run.problem:
        facets = _facets(errorMessage={"message": run.problem, "programmingLanguage": "PYTHON"})
        end = {**data, "eventType": "FAIL", "run": {**identity, "facets": facets}}
    else:
        end = {**data, **found, "eventType": "COMPLETE", "run": identity}
    begun = run.ended - timedelta(seconds=run.seconds)
    start = {**told, **data, "eventType": "START", "eventTime": begun.isoformat(), "run": identity}
    return start, {**told, **end, "eventTime": run.ended.isoformat()}


def send(url: str, events: Iterable[Mapping[str, Any]], *, token: str = "") -> str:
    """Post events, one after the other; return why one was not taken, empty if all were. The others then stay."""
    return next((why for event in events if (why := post_json(url, event, token=token))), "")


def _producer() -> str:
    return f"urn:cdc-views:{version('cdc-views')}"


def _facets(**facets: Mapping[str, Any]) -> dict[str, Any]:
    shared = {"_producer": _producer()}
    return {name: {**shared, "_schemaURL": f"{_SPEC}/{_FACETS[name]}", **facet} for name, facet in facets.items()}


def _raw(table: TableContext) -> dict[str, Any]:
    """The raw table's name, as OpenLineage has it for files, stores and BigQuery."""
    place = table.location
    if table.project.is_remote:
        return {"namespace": table.project.config.engine, "name": place}
    if is_url(place):
        parts = urlsplit(place)
        return {"namespace": f"{parts.scheme}://{parts.netloc}", "name": parts.path.strip("/")}
    return {"namespace": "file", "name": place}


def _view_facets(table: TableContext, raw: Mapping[str, Any]) -> dict[str, Any]:
    lineage = lineage_of(table.relation)
    masks = {n for n, one in table.config.policies.columns.items() if one.policy is not Policy.LEAVE_OUT}
    columns = {one.column: {"inputFields": list(_inputs(one, raw, masked=one.column in masks))} for one in lineage.columns}
    rows = [_input(one, raw, "INDIRECT", "FILTER") for one in lineage.rows]
    fields = [
        {"name": one.column, "type": one.type, **({"description": one.description} if one.description else {})}
        for one in lineage.columns
    ]
    return _facets(schema={"fields": fields}, columnLineage={"fields": columns, "dataset": rows})


def _inputs(column: ColumnLineage, raw: Mapping[str, Any], *, masked: bool) -> Iterator[dict[str, Any]]:
    for one in column.given:
        yield _input(one, raw, "DIRECT", "IDENTITY", masked=masked)
    for one in column.decided:
        yield _input(one, raw, "INDIRECT", "CONDITIONAL")


def _input(column: RawColumn, raw: Mapping[str, Any], kind: str, subtype: str, *, masked: bool = False) -> dict[str, Any]:
    return {**raw, "field": column.name, "transformations": [{"type": kind, "subtype": subtype, "masking": masked}]}


def _assertions(tests: Iterable[Assertion]) -> list[dict[str, Any]]:
    return [
        {"assertion": t.name, "success": t.success, "severity": "error" if t.is_error else "warn", "description": t.rule}
        for t in tests
    ]
