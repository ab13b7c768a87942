"""What a server of BigQuery's REST API holds and does (`bigquery_http`), whose SQL is GoogleSQL's reference implementation.

It does what the real client asks of it for jobs, datasets, tables and views, and says no where BigQuery would: a name that
is not there, a limit of bytes, a null in an array. It is no BigQuery: bytes are those of rows as kept here, nothing is
partitioned or clustered, rights are not checked, and DML runs in scripts alone (`bigquery_scripts` says how).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from helpers.dialect_zetasql import Columns, GoogleSql
from helpers.googlesql_functions import Function, function_of, written_out

from services import bigquery_values as values
from services.bigquery_statements import Body, is_function, is_query, is_script, options_of, unwrapped


class Refused(Exception):
    """An answer that is an error: HTTP status, BigQuery's reason and message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message
        self.is_at_once = reason != "bytesBilledLimitExceeded"

    @property
    def body(self) -> Body:
        error = {"reason": self.reason, "message": self.message, "domain": "global"}
        return {"error": {"code": self.status, "message": self.message, "errors": [error]}}


@dataclass
class Thing:
    """A table or view: its API resource."""

    resource: Body

    @property
    def query(self) -> str | None:
        return str(self.resource["view"]["query"]) if "view" in self.resource else None


@dataclass
class Fault:
    """An answer to give instead, some times: to requests whose method and path match."""

    method: str
    path: str
    refused: Refused
    times: int = 1


@dataclass
class Store:
    """What the server holds; one at a time may use it."""

    sql: GoogleSql
    datasets: dict[str, Body] = field(default_factory=dict)
    things: dict[str, Thing] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    jobs: dict[str, Body] = field(default_factory=dict)
    results: dict[str, tuple[Columns, list[Any]]] = field(default_factory=dict)
    requests: list[tuple[str, str, Body]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    now: int | None = None
    """What scripts take for the time, µs since the epoch; None: the clock."""
    kill_at: int | None = None
    """The number of the statement at which the next script is killed; None: none."""

    @property
    def query_jobs(self) -> list[Body]:
        """The configuration of every query job that was sent, dry runs too."""
        sent = [body["configuration"] for method, path, body in self.requests if method == "POST" and path.endswith("/jobs")]
        return [configuration for configuration in sent if "query" in configuration]

    def clear(self) -> None:
        """Forget everything."""
        for name, thing in self.things.items():
            if thing.query is None:
                self.sql.drop(name)
        for kept in (self.datasets, self.things, self.functions, self.jobs, self.results, self.requests, self.faults):
            kept.clear()
        self.now = self.kill_at = None

    # --- jobs

    def run(self, project: str, body: Body) -> Body:
        """Start a job; it is done when this returns."""
        reference = {"projectId": project, "location": "US", **body.get("jobReference", {})}
        configuration = body["configuration"]
        job: Body = {"jobReference": reference, "configuration": configuration, "kind": "bigquery#job"}
        job |= {"id": f"{project}:US.{reference['jobId']}", "status": {"state": "DONE"}, "user_email": "nobody"}
        if reference["jobId"] in self.jobs:
            raise Refused(409, "duplicate", f"Already Exists: Job {reference['jobId']}")
        if configuration.get("dryRun"):
            return job | {"statistics": {"query": self.planned(configuration["query"])}}
        self.jobs[reference["jobId"]] = job
        try:
            job["statistics"] = {"query": self.executed(configuration["query"], reference["jobId"])}
        except Refused as refused:
            job["status"] |= {"errorResult": refused.body["error"]["errors"][0], "errors": refused.body["error"]["errors"]}
            if refused.is_at_once:
                del self.jobs[reference["jobId"]]
                raise
        return job

    def planned(self, query: Body) -> Body:
        """The statistics of a dry run."""
        statement, kind = self.resolved(query["query"])
        found: Body = {"totalBytesProcessed": str(self.size(query["query"])), "statementType": kind}
        if kind == "SELECT":
            node = statement.resolved_query_stmt_node
            found["schema"] = {"fields": [values.field(c.name, c.column.type) for c in node.output_column_list]}
        return found

    def executed(self, query: Body, job: str) -> Body:
        """Do what a statement says; returns statistics."""
        text, size = query["query"], self.size(query["query"])
        limit = query.get("maximumBytesBilled")
        if limit is not None and max(size, 1) > int(limit):
            raise Refused(
                400, "bytesBilledLimitExceeded", f"Query exceeded limit for bytes billed: {limit}. {size} or higher required."
            )
        if is_script(text):
            kind, self.results[job] = "SCRIPT", self._script(text)
        elif is_query(text):
            kind, self.results[job] = "SELECT", self.evaluated(text)
        else:
            statement, kind = self.resolved(text)
            made = self._create(statement.resolved_create_statement_node)
            if "AsSelect" in made[1]:
                self.sql.fill(made[0], self.evaluated(text.split(" AS\n", 1)[1])[1])
            self.results[job] = ([], [])
        return {"totalBytesProcessed": str(size), "totalBytesBilled": str(size), "statementType": kind}

    def _script(self, text: str) -> tuple[Columns, list[Any]]:
        from services.bigquery_scripts import ServedScripts

        kill_at, self.kill_at = self.kill_at, None
        try:
            return ServedScripts(self).executed(text, kill_at=kill_at)
        except Exception as error:
            refused = _refused(error)
            refused.is_at_once = False
            raise refused from error

    def keep_view(self, name: str, query: str, fields: list[Body]) -> None:
        """Make a view of a script's, in place of one of that name."""
        project, dataset, table = name.rsplit(".", 2)
        reference = {"projectId": project, "datasetId": dataset, "tableId": table}
        view = {"query": query, "useLegacySql": False}
        self.things[name] = Thing({"tableReference": reference, "schema": {"fields": fields}, "view": view, "type": "VIEW"})

    def resolved(self, text: str) -> tuple[Any, str]:
        """Analyse a statement; of the views it reads, the columns alone are needed, and no view is run."""
        with self._views(text, are_run=False) as inlined:
            try:
                statement = self.sql.analyze(inlined)
            except Exception as error:
                raise _refused(error) from error
        if statement.HasField("resolved_query_stmt_node"):
            return statement, "SELECT"
        if statement.HasField("resolved_create_statement_node"):
            return statement, "CREATE"
        raise Refused(400, "invalidQuery", "the stand-in runs queries and CREATE alone")

    def evaluated(self, text: str) -> tuple[Columns, list[Any]]:
        """Columns and rows of a query."""
        with self._views(text, are_run=True) as inlined:
            try:
                return self.sql.evaluate(inlined, reads=self.sql.names_in(inlined))
            except Exception as error:
                raise _refused(error) from error

    @contextmanager
    def _views(self, text: str, *, are_run: bool) -> Iterator[str]:
        """The statement over tables alone: functions are written out, views are tables for as long as it is used."""
        text = self._written_out(text)
        made = []
        for name in self._found_in(text):
            thing = self.things.get(name)
            if thing is not None and thing.query is not None:
                columns, rows = self.evaluated(thing.query) if are_run else (self._columns(thing), [])
                self.sql.define(name, columns)
                self.sql.fill(name, rows)
                made.append(name)
        try:
            yield text
        finally:
            for name in made:
                self.sql.drop(name)

    def _columns(self, view: Thing) -> Columns:
        """The columns of a view, as they were when it was made; what it reads has to be there still."""
        assert view.query is not None
        for name in self._found_in(self._written_out(view.query)):
            thing = self.things.get(name)
            if thing is not None and thing.query is not None:
                self._columns(thing)
        return [(found["name"], values.kind_of(found)) for found in view.resource["schema"]["fields"]]

    def _found_in(self, text: str) -> list[str]:
        """The names that a query reads; raises `Refused` where there is nothing of a full name."""
        try:
            names = sorted(self.sql.names_in(text))
        except Exception as error:
            raise _refused(error) from error
        for name in names:
            if name not in self.things and "." in name:
                raise Refused(404, "notFound", f"Not found: Table {name}")
        return names

    def _written_out(self, text: str) -> str:
        return written_out(text, self.functions) if self.functions and not is_function(text) else text

    def size(self, text: str) -> int:
        """Bytes of the tables that a statement reads."""
        if is_script(text):
            return sum(self.sql.count(name)[1] for name, thing in self.things.items() if thing.query is None and name in text)
        try:
            names = self.sql.names_in(self._written_out(text))
        except Exception:
            return 0
        total = 0
        for name in names & self.things.keys():
            query = self.things[name].query
            total += self.sql.count(name)[1] if query is None else self.size(query)
        return total if is_query(text) else 0

    def _create(self, node: Any) -> tuple[str, str]:
        """CREATE SCHEMA, TABLE, VIEW, FUNCTION or TABLE FUNCTION; return the name, and what was made."""
        base, made = unwrapped(node)
        name, mode = ".".join(base.name_path), base.create_mode
        keeps = mode == 3  # CREATE_IF_NOT_EXISTS
        options = options_of(made)
        kind = type(made).__name__
        if "CreateSchema" in kind:
            if name not in self.datasets:
                project, _, dataset = name.rpartition(".")
                self.datasets[name] = {"datasetReference": {"projectId": project, "datasetId": dataset}, "access": [], **options}
            return name, kind
        if name.rpartition(".")[0] not in self.datasets:
            raise Refused(404, "notFound", f"Not found: Dataset {name.rpartition('.')[0]}")
        if "Function" in kind:
            self.functions[name] = function_of(made, is_table="Table" in kind)
            return name, kind
        if name in self.things and keeps:
            return name, kind
        self._put(name, made, kind, options)
        return name, kind

    def _put(self, name: str, made: Any, kind: str, options: Body) -> None:
        project, dataset, table = name.rsplit(".", 2)
        reference = {"projectId": project, "datasetId": dataset, "tableId": table}
        definition = made.parent
        described = {c.name: options_of(c.annotations).get("description", "") for c in definition.column_definition_list}
        if "View" in kind:
            columns = [(c.name, c.column.type) for c in definition.output_column_list]
            more: Body = {"view": {"query": definition.sql, "useLegacySql": False}, "type": "VIEW"}
        else:
            columns = [(c.name, c.type) for c in definition.column_definition_list]
            self.sql.define(name, columns)
            more = {"type": "TABLE", "partitioned": len(made.partition_by_list), "clustered": len(made.cluster_by_list)}
        fields = [values.field(column, kind_, described.get(column, "")) for column, kind_ in columns]
        self.things[name] = Thing({"tableReference": reference, "schema": {"fields": fields}, **more, **options})

    # --- loads

    def load(self, project: str, body: Body, content: bytes) -> Body:
        """Append the rows of a Parquet file."""
        import pyarrow.parquet as pq

        destination = body["configuration"]["load"]["destinationTable"]
        name = f"{destination['projectId']}.{destination['datasetId']}.{destination['tableId']}"
        if name not in self.things:
            raise Refused(404, "notFound", f"Not found: Table {name}")
        records = pq.read_table(BytesIO(content)).to_pylist()
        if any(values.has_null_element(record) for record in records):
            raise Refused(400, "invalid", "Only optional fields can be set to NULL: an array holds a null")
        self.sql.append(name, records)
        reference = {"projectId": project, "location": "US", **body["jobReference"]}
        job = {**body, "jobReference": reference, "status": {"state": "DONE"}, "statistics": {"load": {}}}
        self.jobs[reference["jobId"]] = job
        return job

    # --- resources

    def job(self, job: str) -> Body:
        """A job's resource."""
        if job not in self.jobs:
            raise Refused(404, "notFound", f"Not found: Job {job}")
        return self.jobs[job]

    def dataset(self, name: str) -> Body:
        """A dataset's resource."""
        if name not in self.datasets:
            raise Refused(404, "notFound", f"Not found: Dataset {name}")
        return self.datasets[name]

    def patch_dataset(self, name: str, body: Body) -> Body:
        """Replace what is given."""
        entries = [{k: v for k, v in entry.items() if v is not None} for entry in body.get("access", [])]
        self.dataset(name).update(body | ({"access": entries} if entries else {}))
        return self.dataset(name)

    def delete_dataset(self, name: str) -> Body:
        """Delete a dataset and all that is in it."""
        self.dataset(name)
        del self.datasets[name]
        for thing in [thing for thing in self.things if thing.rpartition(".")[0] == name]:
            if self.things.pop(thing).query is None:
                self.sql.drop(thing)
        return {}

    def table(self, name: str) -> Body:
        """A table's or view's resource."""
        if name not in self.things:
            raise Refused(404, "notFound", f"Not found: Table {name}")
        if "view" in (resource := self.things[name].resource):
            return resource
        rows, size = self.sql.count(name)
        return resource | {"numRows": str(rows), "numBytes": str(size)}

    def patch_table(self, name: str, body: Body) -> Body:
        """Replace what is given; columns may only be added."""
        known = self.table(name)
        if "schema" in body:
            _check_extends(known["schema"]["fields"], body["schema"]["fields"])
            old = self.sql.records(name)
            self.sql.define(name, [(f["name"], values.kind_of(f)) for f in body["schema"]["fields"]])
            self.sql.append(name, old)
        self.things[name].resource |= body
        return self.table(name)

    def listed(self, name: str, query: dict[str, list[str]]) -> Body:
        """All rows of a table."""
        self.table(name)
        columns = self.sql.columns(name)
        micros = query.get("formatOptions.useInt64Timestamp", ["false"])[0].lower() == "true"
        rows = [values.row(columns, row.cell, micros=micros) for row in self.sql._tables[name][1].table_data.row]
        return {"totalRows": str(len(rows)), "rows": rows}

    def page(self, job: str, query: dict[str, list[str]]) -> Body:
        """Rows of a query job."""
        if job not in self.jobs:
            raise Refused(404, "notFound", f"Not found: Job {job}")
        found = self.jobs[job]
        if "errorResult" in found["status"]:
            error = found["status"]["errorResult"]
            raise Refused(400, error["reason"], error["message"])
        columns, rows = self.results[job]
        micros = query.get("formatOptions.useInt64Timestamp", ["false"])[0].lower() == "true"
        start, most = int(query.get("pageToken", ["0"])[0]), int(query.get("maxResults", ["1000"])[0])
        try:
            shown = [values.row(columns, row.cell, micros=micros) for row in rows[start : start + most]]
        except values.ResultError as error:
            raise Refused(400, "invalidQuery", str(error)) from error
        answer: Body = {"jobReference": found["jobReference"], "jobComplete": True, "totalRows": str(len(rows))}
        answer |= {"schema": {"fields": [values.field(n, k) for n, k in columns]}, "rows": shown}
        return answer | ({"pageToken": str(start + most)} if start + most < len(rows) else {})


def _refused(error: Exception) -> Refused:
    """zetasql's words, without the code before them; what analysis finds is said at once, the rest by the job."""
    found = re.match(r"\[(?P<code>\w+)\] (?P<text>.*)", str(error), re.DOTALL)
    code, text = (found["code"], found["text"]) if found else ("", str(error))
    is_missing = text.startswith("Table not found")
    refused = Refused(404 if is_missing else 400, "notFound" if is_missing else "invalidQuery", text[:2000])
    refused.is_at_once = code != "OUT_OF_RANGE"
    return refused


def _check_extends(old: list[Body], new: list[Body]) -> None:
    has = {f["name"]: f for f in new}
    for f in old:
        if f["name"] not in has:
            raise Refused(400, "invalid", f"Provided Schema does not match: cannot drop column {f['name']}")
        if values.field(f["name"], values.kind_of(f))["type"] != values.field(f["name"], values.kind_of(has[f["name"]]))["type"]:
            raise Refused(400, "invalid", f"Provided Schema does not match: {f['name']} has changed type")
        _check_extends(f.get("fields", []), has[f["name"]].get("fields", []))


__all__ = ["Fault", "Refused", "Store"]
