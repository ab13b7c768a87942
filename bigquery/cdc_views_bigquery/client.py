"""Jobs and tables through `google-cloud-bigquery`; no other module sends anything. Errors name the job, never a row's value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cdc_views.model.extras import needs
from cdc_views.rules.instants import span_seconds
from cdc_views_bigquery.config import BigQueryConfig
from cdc_views_bigquery.limits import check_authorized
from cdc_views_bigquery.storable import check_storable
from cdc_views_bigquery.telling import told
from cdc_views_bigquery.types import Field, Fields, standard

if TYPE_CHECKING:
    from google.cloud import bigquery

_PREFIX = "cdc_views_"
_OURS = {"tool": "cdc-views"}


@dataclass(frozen=True, slots=True)
class DryRun:
    """BigQuery's answer about a statement that does not run: the bytes that it would read, and the columns of its result."""

    reads: int
    fields: Fields


@dataclass(frozen=True, slots=True)
class Deployed:
    """A table or view in BigQuery; `query` is a view's text, empty for a table; rows and bytes are logical."""

    name: str
    fields: Fields
    query: str
    description: str
    labels: Mapping[str, str]
    rows: int
    bytes: int


class Connection:
    """A client of one project, opened by the first call; `jobs` has the ids of its jobs, in order. Raises `telling`'s errors."""

    def __init__(self, project: str, config: BigQueryConfig) -> None:
        self.project, self.config = project, config
        self.jobs: list[str] = []

    @cached_property
    def client(self) -> bigquery.Client:
        """The client; it finds credentials by its own rules, and needs none for a server of this machine."""
        with needs("engine bigquery", extra="bigquery"):
            from google.api_core.client_options import ClientOptions
            from google.auth.credentials import AnonymousCredentials
            from google.cloud import bigquery
        endpoint = self.config.endpoint
        is_here = endpoint is not None and endpoint.startswith("http://")
        with told("connecting"):
            return bigquery.Client(
                project=self.project,
                location=self.config.location,
                credentials=AnonymousCredentials() if is_here else None,  # type: ignore[no-untyped-call]
                client_options=ClientOptions(api_endpoint=endpoint) if endpoint is not None else None,
            )

    def rows(self, sql: str, *, what: str) -> pa.Table:
        """Run a query and return its rows; BigQuery's results show a null array as an empty one."""
        return self._answer(self._job(sql, what=what), what=what)

    def run(self, sql: str, *, what: str) -> str:
        """Run a statement that returns no rows, such as DDL; return the job's id."""
        job = self._job(sql, what=what, reads_rows=False)
        with told(what, job=job, is_analysis=True):
            job.result(**self._patience, job_retry=None)
        return str(job.job_id)

    def script(self, sql: str, *, what: str) -> pa.Table:
        """Run statements as one job, each within the limit of bytes; return the rows of the last one."""
        return self._answer(self._job(sql, what=what, is_script=True), what=what)

    def _answer(self, job: bigquery.QueryJob, *, what: str) -> pa.Table:
        with told(what, job=job):
            return job.result(**self._patience, job_retry=None).to_arrow(create_bqstorage_client=False)

    def listed(self, name: str) -> list[dict[str, Any]]:
        """Return a small table's rows without a job; none if there is no such table."""
        with told(f"reading {name}"):
            table = self._found(self.client.get_table, name)
            rows = self.client.list_rows(table, **self._patience) if table is not None else ()
            return [dict(row.items()) for row in rows]

    def dry_run(self, sql: str, *, what: str) -> DryRun:
        """Return what a statement would do; costs nothing and reads no rows."""
        job = self._job(sql, what=what, dry_run=True)
        return DryRun(int(job.total_bytes_processed or 0), tuple(map(_field, job.schema or ())))

    def load(self, rows: pa.Table, table: str, *, what: str) -> str:
        """Append all rows or none by a load job, which bills nothing; return its id. Raises as `check_storable` does."""
        check_storable(rows, table=table)
        from io import BytesIO

        import pyarrow.parquet as pq
        from google.cloud import bigquery

        options = bigquery.ParquetOptions()  # type: ignore[no-untyped-call]
        options.enable_list_inference = True
        config = bigquery.LoadJobConfig(
            source_format=bigquery.SourceFormat.PARQUET,
            parquet_options=options,
            decimal_target_types=[bigquery.DecimalTargetType.BIGNUMERIC],
            write_disposition=bigquery.WriteDisposition.WRITE_APPEND,
            create_disposition=bigquery.CreateDisposition.CREATE_NEVER,
            labels=self._labels,
        )
        file = BytesIO()
        pq.write_table(rows, file)
        size, timeout = file.tell(), self._patience["timeout"]
        with told(what):
            job = self.client.load_table_from_file(
                file, table, rewind=True, size=size, job_id_prefix=_PREFIX, job_config=config, timeout=timeout
            )
        self.jobs.append(str(job.job_id))
        with told(what, job=job):
            job.result(**self._patience)
        return str(job.job_id)

    def deployed(self, name: str) -> Deployed | None:
        """Return a table or view, None if there is none."""
        with told(f"reading what {name} is"):
            table = self._found(self.client.get_table, name)
        return (
            None
            if table is None
            else Deployed(
                name,
                tuple(map(_field, table.schema)),
                table.view_query or "",
                table.description or "",
                dict(table.labels or {}),
                int(table.num_rows or 0),
                int(table.num_bytes or 0),
            )
        )

    def extend(self, name: str, fields: Fields) -> None:
        """Give a table these columns, which include all that it has."""
        with told(f"adding columns to {name}"):
            table = self.client.get_table(name, **self._patience)
            had = {field.name: field.description for field in table.schema}
            table.schema = [_api_field(field, description=had.get(field.name)) for field in fields]
            self.client.update_table(table, ["schema"], **self._patience)

    def authorize(self, view: str, *, reads: str) -> None:
        """Let a view read a dataset for everybody who may read the view."""
        from google.cloud import bigquery

        with told(f"authorizing {view} to read {reads}"):
            dataset = self.client.get_dataset(reads, **self._patience)
            source = bigquery.TableReference.from_string(view, default_project=self.project).to_api_repr()
            if any(entry.entity_type == "view" and entry.entity_id == source for entry in dataset.access_entries):
                return
            resources = [entry for entry in dataset.access_entries if entry.entity_type in ("view", "dataset", "routine")]
            check_authorized(len(resources), dataset=reads)
            dataset.access_entries = [*dataset.access_entries, bigquery.AccessEntry(None, "view", source)]
            self.client.update_dataset(dataset, ["access_entries"], **self._patience)

    def has_dataset(self, name: str) -> bool:
        """Return whether a dataset exists."""
        with told(f"looking for dataset {name}"):
            return self._found(self.client.get_dataset, name) is not None

    def _found(self, get: Callable[..., Any], name: str) -> Any:
        from google.api_core.exceptions import NotFound

        try:
            return get(name, **self._patience)
        except NotFound:
            return None

    def close(self) -> None:
        """Close the client's connections, if any were opened."""
        if "client" in self.__dict__:
            self.client.close()  # type: ignore[no-untyped-call]

    @property
    def _labels(self) -> dict[str, str]:
        return {**_OURS, **self.config.labels}

    @property
    def _patience(self) -> dict[str, Any]:
        from google.cloud.bigquery.retry import DEFAULT_RETRY

        timeout = float(span_seconds(self.config.timeout, option="timeout", example="10m", digits=6))
        repeated = float(span_seconds(self.config.retry_for, option="retry_for", example="2m", digits=6))
        return {"timeout": timeout, "retry": DEFAULT_RETRY.with_timeout(repeated)}

    def _job(
        self, sql: str, *, what: str, dry_run: bool = False, reads_rows: bool = True, is_script: bool = False
    ) -> bigquery.QueryJob:
        """Start a job; every job that reads starts here, so that each has its limit of bytes."""
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(use_legacy_sql=False, labels=self._labels, dry_run=dry_run)
        if (limit := self.config.byte_limit) is not None:
            config.maximum_bytes_billed = limit
            if is_script:
                config.script_options = bigquery.ScriptOptions(statement_byte_budget=limit)
        if dry_run:
            config.use_query_cache = False
        with told(what, is_analysis=dry_run or not reads_rows):
            job = self.client.query(sql, job_config=config, job_id_prefix=_PREFIX, job_retry=None, **self._patience)
        if not dry_run:
            self.jobs.append(str(job.job_id))
        return job


def _field(found: Any) -> Field:
    fields = tuple(map(_field, found.fields))
    return Field(found.name, standard(found.field_type), repeats=found.mode == "REPEATED", fields=fields)


def _api_field(field: Field, *, description: str | None = None) -> Any:
    from google.cloud import bigquery

    mode = "REPEATED" if field.repeats else "NULLABLE"
    described: dict[str, Any] = {"description": description} if description else {}
    return bigquery.SchemaField(field.name, field.kind, mode=mode, fields=tuple(map(_api_field, field.fields)), **described)
