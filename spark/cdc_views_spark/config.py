"""`spark:` of a project file."""

from __future__ import annotations

from pydantic import Field

from cdc_views.model.config_part import ConfigPart, Name


class SparkConfig(ConfigPart):
    """How cdc-views opens a session of its own, and where it registers; a session that is open already is used as it is."""

    master: Name | None = Field(
        default=None,
        description="The cluster, as spark://host:7077; by default the threads of this process. The environment's "
        "`CDC_VIEWS_SPARK_MASTER` wins.",
    )
    catalog: Name | None = Field(
        default=None,
        description="The catalog in which `apply` makes views, as `catalog.keyspace.view`, and registers states and serving "
        "tables; by default views are in the session's catalog, and tables in none.",
    )
    memory: Name = Field(default="2g", description="The driver's memory.")
    settings: dict[Name, Name] = Field(
        default_factory=dict,
        description="Spark's own settings, as `spark.executor.memory: 8g`; they win over those of cdc-views.",
    )
