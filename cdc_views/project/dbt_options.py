"""`dbt:` of a table: what `cdc-views dbt export` writes of it, in dbt's own words."""

from __future__ import annotations

from enum import Enum

from pydantic import Field

from cdc_views.model.config_part import ConfigPart, Name


class DbtMaterialization(str, Enum):
    """What dbt keeps of a table."""

    VIEW = "view"
    TABLE = "table"
    INCREMENTAL = "incremental"


class DbtConfig(ConfigPart):
    """What the dbt model of one table is, and what its docs say."""

    materialized: DbtMaterialization = Field(
        default=DbtMaterialization.INCREMENTAL,
        description="What dbt keeps. `incremental`: the facts that still matter, brought up to date, and a view of the rows over "
        "them; `table`: these facts, and the rows as a table; `view`: nothing, the rows are a view of raw.",
    )
    tags: tuple[Name, ...] = Field(default=(), description="Tags of the table's models.")
    group: Name | None = Field(default=None, description="The group of the table's models; your dbt project declares it.")
    description: Name | None = Field(default=None, description="What the model is; a default says what one row is.")
    columns: dict[Name, Name] = Field(
        default_factory=dict,
        description="Descriptions by column; by default the schema's (`doc` in Avro and Connect, `description` in YAML), else "
        "role and type.",
    )
