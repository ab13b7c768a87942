"""The models of `cdc_views.yml`, which also give editors their JSON Schema; unknown keys are errors."""

from __future__ import annotations

import re
from collections import Counter
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    SerializeAsAny,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from cdc_views.formats.base import FormatOptions
from cdc_views.formats.registry import format_class
from cdc_views.model.column_policies import MASK, SHORTEST_KEY, ColumnPolicies, ColumnPolicy, ExtraColumns, Policy
from cdc_views.model.config_part import ConfigPart, Name
from cdc_views.model.cron import Cron
from cdc_views.model.live_addresses import without_password
from cdc_views.model.overrides import parse_override
from cdc_views.model.severity import Severity
from cdc_views.model.strategy import Strategy
from cdc_views.project.dbt_options import DbtConfig
from cdc_views.project.engines import EngineName, FormatName, any_format_options, project_engine
from cdc_views.project.paths import is_live_source, raw_paths, slug_of, split_name

_LATENESS = re.compile(r"\d+[smhd]\Z")
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")


class Layout(str, Enum):
    """Who lands the raw table, and so how its columns look."""

    CANONICAL = "canonical"
    AS_FOUND = "as-found"


class ReadBy(str, Enum):
    """How views read a table that somebody else lands."""

    AUTO = "auto"
    SQL = "sql"
    COPY = "copy"


def _lateness(value: str) -> str:
    if not _LATENESS.match(value):
        raise ValueError("a whole number and a unit was expected: s, m, h or d, as in 10d")
    return value


def _override(value: str) -> str:
    parse_override(value)
    return value


class RawConfig(ConfigPart):
    """The raw table of one table."""

    format: FormatName = Field(description="How an event of the raw table reads.")
    layout: Layout = Field(
        default=Layout.CANONICAL, description="`canonical`: what `land` writes; `as-found`: somebody else lands it."
    )
    table: Name | None = Field(
        default=None,
        description="Path of the raw Delta table, or on Spark its name in a catalog, as main.cdc.orders; by default under the "
        "warehouse: `raw/`, and the table's name.",
    )
    topics: tuple[Name, ...] = Field(
        default=(), description="Kafka topics that `produce kafka` lands; default: the one that is named, or ends, as the table."
    )
    options: SerializeAsAny[FormatOptions] | None = Field(
        default=None, description="How the events were written, in the words of their format; most formats take none."
    )
    reading: ReadBy = Field(
        default=ReadBy.AUTO,
        description="How views of an `as-found` table read it: `sql`: its events themselves; `copy`: facts that cdc-views makes "
        "of them; `auto`: `sql` where that is exact.",
    )
    kafka_key: Name = Field(
        default="kafkaKey", description="Column of a record's key, as Connect's BigQuery sink has it (kafkaKeyFieldName)."
    )
    kafka_data: Name = Field(
        default="kafkaData", description="Column of where a record stood in Kafka, likewise (kafkaDataFieldName)."
    )

    @model_validator(mode="after")
    def _found_somewhere(self) -> RawConfig:
        if self.layout is Layout.AS_FOUND and self.table is None:
            raise ValueError(
                "layout as-found needs `table`, the Delta table (its path or name) or BigQuery table that others land"
            )
        return self

    @field_validator("options", mode="plain", json_schema_input_type=any_format_options())
    @classmethod
    def _of_the_format(cls, value: Any, info: ValidationInfo) -> FormatOptions | None:
        format_name = info.data.get("format")
        if value is None or format_name is None:
            return None
        model = format_class(format_name).options
        if model is None:
            raise ValueError(f"format {format_name} takes no options")
        return model.model_validate(value)


class ViewConfig(ConfigPart):
    """The view of one table."""

    name: Name | None = Field(default=None, description="The view's name; by default the table's.")
    strategy: Strategy = Field(default=Strategy.AUTO, description="How the latest cell is found; all give equal rows.")


def _folder(value: str) -> str:
    if not _FOLDER.match(value):
        raise ValueError("the name of a folder was expected: letters, digits, `_`, `-` and `.`, a letter or digit first")
    return value


class ServingConfig(ConfigPart):
    """A serving table: the view's rows as plain columns."""

    name: Annotated[Name, AfterValidator(_folder)] | None = Field(
        default=None, description="Its folder under `serving` in the warehouse; by default derived from the table's name."
    )


def _as_text(value: Any) -> Any:
    """Return a flag or a number as a store's library spells it."""
    return str(value).lower() if isinstance(value, bool | int) else value


def _serving(value: Any) -> Any:
    return {} if value is True else None if value is False else value


class MaterializeConfig(ConfigPart):
    """When state is brought up to date, how late an event may come, and whether there is a serving table."""

    schedule: Annotated[str, AfterValidator(lambda text: Cron(text).expression)] | None = Field(
        default=None, description="A cron expression of five fields, in UTC."
    )
    lateness: Annotated[str, AfterValidator(_lateness)] | None = Field(
        default=None, description="<int>(s|m|h|d): how long deletions are remembered; by default for ever."
    )
    overlap: Annotated[str, AfterValidator(_lateness)] = Field(
        default="1h",
        description="<int>(s|m|h|d): a Spark view reads raw facts that landed so long before the state's last commit of raw; "
        "longer than any fact takes from its landing time to its commit, plus the difference between landers' clocks.",
    )
    serving: Annotated[ServingConfig | None, BeforeValidator(_serving, json_schema_input_type=bool | ServingConfig)] = Field(
        default=None, description="Keep a serving table: true, or its name; by default there is none."
    )


Span = Annotated[Name, AfterValidator(_lateness)]


class DataTest(ConfigPart):
    """A data test of the user's; exactly one of `holds`, `not_null`, `one_of`, `fresh_within`, `lag_within` and `truth`."""

    name: Name | None = Field(default=None, description="What the test is called; needed with `holds`.")
    holds: Name | None = Field(default=None, description="A condition on columns, in DuckDB's SQL, that no row may break.")
    column: Name | None = Field(default=None, description="The column of `not_null` and `one_of`.")
    not_null: Literal[True] | None = Field(default=None, description="No row has null in `column`.")
    one_of: tuple[StrictStr | StrictInt | StrictBool, ...] | None = Field(
        default=None, min_length=1, description="No row has another value in `column` than these, or null."
    )
    fresh_within: Span | None = Field(default=None, description="Something landed within this span, as 1h.")
    lag_within: Span | None = Field(default=None, description="The state has all that landed longer ago than this span.")
    truth: Name | None = Field(default=None, description="A file of rows as the source answered, as SELECT JSON gives them.")
    as_of: Annotated[int, Field(strict=True)] | None = Field(
        default=None, description="Epoch seconds at which the source answered; of `truth`, where its file does not say."
    )
    severity: Severity = Field(default=Severity.ERROR, description="How much it matters where it fails.")

    @model_validator(mode="after")
    def _is_one(self) -> DataTest:
        kinds = ("holds", "not_null", "one_of", "fresh_within", "lag_within", "truth")
        given = [kind for kind in kinds if getattr(self, kind) is not None]
        if len(given) != 1:
            raise ValueError(f"a data test has exactly one of {', '.join(kinds)}; this one has {' and '.join(given) or 'none'}")
        if given == ["holds"] and self.name is None:
            raise ValueError("a data test with `holds` needs a `name`")
        if (self.column is None) == (given[0] in ("not_null", "one_of")):
            raise ValueError("`column` goes with not_null and one_of, and with nothing else")
        return self


def _column(value: Any) -> Any:
    return {"type": _override(value)} if isinstance(value, str) else value


class ColumnConfig(ConfigPart):
    """One column: the type in which the view shows it, or what is stored in place of its values."""

    type: Annotated[Name, AfterValidator(_override)] | None = Field(
        default=None, description="The type in which the view shows the column, as decimal(18,2)."
    )
    policy: Policy | None = Field(
        default=None,
        description="`leave_out`: nothing is stored; `hash`: the HMAC-SHA-256 of each value; `mask`: one text for every value.",
    )
    key: SecretStr | None = Field(
        default=None, description="The secret of `hash`, ${NAME} of an environment variable of 16 letters or more."
    )
    text: StrictStr | None = Field(default=None, description="The text of `mask`; by default `***`.")

    @model_validator(mode="after")
    def _goes_together(self) -> ColumnConfig:
        if self.policy is None and self.type is None:
            raise ValueError("a `type` or a `policy` was expected")
        if self.policy is not None and self.type is not None:
            raise ValueError("`type` does not go with `policy`: hashes and masks are texts")
        if (self.key is None) == (self.policy is Policy.HASH):
            raise ValueError("`key` goes with `policy: hash`, and with nothing else; write it as ${NAME}")
        if self.key is not None and len(self.key.get_secret_value()) < SHORTEST_KEY:
            raise ValueError(f"the key of a hash has fewer than {SHORTEST_KEY} letters, so that it could be guessed")
        if self.text is not None and self.policy is not Policy.MASK:
            raise ValueError("`text` goes with `policy: mask`")
        return self

    @property
    def chosen(self) -> ColumnPolicy | None:
        """The policy; None if there is none."""
        if self.policy is None:
            return None
        key = b"" if self.key is None else self.key.get_secret_value().encode()
        return ColumnPolicy(self.policy, key, MASK if self.text is None else self.text)


class FidelityConfig(ConfigPart):
    """What the fidelity check lets pass."""

    waive: dict[Name, Name] = Field(default_factory=dict, description="Column (`*`: whole rows) and why it may be UNSAFE.")


class TableConfig(ConfigPart):
    """One table: where its schema, its raw events and its view are."""

    name: Name = Field(description="`keyspace.table`, or `database.schema.table`; unquoted and case-sensitive.")
    schema_: Name = Field(
        alias="schema",
        description="A CQL or SQL DDL file, an .avsc, or a YAML schema; or the address of the running source, as in `source`, "
        "which each command then asks.",
    )
    raw: RawConfig
    source: Name | None = Field(
        default=None,
        description="Address of the running source, for `verify`: postgresql://user@host/database, mariadb://user@host, "
        "cassandra://host. Without a host: the environment, as the producer reads it. Write secrets as ${NAME}.",
    )
    replication_factor: Annotated[int, Field(strict=True, ge=1)] | None = Field(
        default=None, description="How many replicas hold each mutation."
    )
    view: ViewConfig = ViewConfig()
    materialize: MaterializeConfig = MaterializeConfig()
    tests: tuple[DataTest, ...] = Field(default=(), description="Data tests besides those derived from the schema.")
    columns: dict[Name, Annotated[ColumnConfig, BeforeValidator(_column, json_schema_input_type=str | ColumnConfig)]] = Field(
        default_factory=dict,
        description="Columns that are shown or stored otherwise than as they come: the type in which the view shows one, as "
        "`amount: decimal(18,2)`, or a policy, as `ssn: {policy: leave_out}`.",
    )
    extra_columns: ExtraColumns = Field(
        default=ExtraColumns.QUARANTINE,
        description="What becomes of an event with a column that the schema lacks, where events are whole rows: `quarantine`; "
        "`leave_out`: it lands without the column; `json`: it lands with the column in `_extra`, a JSON object.",
    )
    fidelity: FidelityConfig = FidelityConfig()
    dbt: DbtConfig = DbtConfig()

    @property
    def schema_place(self) -> str:
        """The schema's file, or the address of the source without its password."""
        return without_password(self.schema_) if is_live_source(self.schema_) else self.schema_

    @property
    def keyspace(self) -> str:
        """The part of the name before the first dot."""
        return split_name(self.name)[0]

    @property
    def table(self) -> str:
        """The part of the name after the first dot."""
        return split_name(self.name)[1]

    @property
    def view_name(self) -> str:
        """The view's name."""
        return self.view.name or self.table

    @property
    def types(self) -> dict[str, str]:
        """The types in which the view shows columns, by column."""
        return {name: one.type for name, one in self.columns.items() if one.type is not None}

    @property
    def policies(self) -> ColumnPolicies:
        """What is stored of columns."""
        chosen = {name: policy for name, one in self.columns.items() if (policy := one.chosen) is not None}
        return ColumnPolicies(chosen, self.extra_columns)

    @property
    def slug(self) -> str:
        """The name as the name of a file or folder; see `paths.slug_of`."""
        return slug_of(self.name)

    @property
    def serving_name(self) -> str | None:
        """The serving table's folder, as written or derived; None if there is no serving table."""
        serving = self.materialize.serving
        return None if serving is None else serving.name or self.slug


def _address(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("an address that begins with https:// or http:// was expected")
    return value


class AlertsConfig(ConfigPart):
    """Who is told what a run found that the one before had not."""

    webhook: Annotated[SecretStr, BeforeValidator(_address)] = Field(
        description="An address that takes a POST of JSON; written as ${NAME}, since who knows it may post."
    )


class OpenLineageConfig(ConfigPart):
    """A consumer of OpenLineage events."""

    url: Annotated[str, BeforeValidator(_address)] = Field(
        description="The whole address that takes events, as http://marquez:5000/api/v1/lineage."
    )
    api_key: SecretStr | None = Field(default=None, description="Sent as a bearer token; written as ${NAME}.")
    namespace: Name | None = Field(default=None, description="Of jobs and views; default: the project's name.")


class ProjectConfig(ConfigPart):
    """A whole project file."""

    name: Name = Field(description="The project's name.")
    engine: EngineName = Field(description="Where views and state live.")
    warehouse: Name = Field(default="./warehouse", description="A path or URI; for bigquery: project and dataset.")
    storage_options: dict[Name, Annotated[Name, BeforeValidator(_as_text)]] = Field(
        default_factory=dict,
        description="How to reach a warehouse on an object store, in the words of deltalake: AWS_REGION, "
        "AZURE_STORAGE_ACCOUNT_KEY, GOOGLE_SERVICE_ACCOUNT, …; by default the environment's. Write secrets as ${NAME}.",
    )
    alerts: AlertsConfig | None = Field(default=None, description="Who is told of failed tests, losses and failed runs.")
    openlineage: OpenLineageConfig | None = Field(default=None, description="Who is sent OpenLineage events of runs.")
    tables: tuple[TableConfig, ...] = Field(min_length=1)

    def options_of(self, engine: str) -> Any:
        """Return the file's options of an engine, else the defaults: an instance of its plug-in's `options`."""
        found = getattr(self, engine, None)
        model = project_engine(engine).options
        return model() if found is None and model is not None else found

    @model_validator(mode="after")
    def _fits_its_engine(self) -> ProjectConfig:
        project_engine(self.engine).check_warehouse(self.warehouse)
        return self

    @model_validator(mode="after")
    def _no_two_alike(self) -> ProjectConfig:
        for what, names in (
            ("table", [t.name for t in self.tables]),
            ("raw table", [path for t in self.tables for path in raw_paths(t.raw.table, t.slug, self.warehouse)]),
            ("view", [f"{t.keyspace}.{t.view_name}" for t in self.tables]),
            ("serving table", [t.serving_name.casefold() for t in self.tables if t.serving_name is not None]),
        ):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise ValueError(f"{what} {twice[0]!r} occurs twice; give each table its own")
        return self
