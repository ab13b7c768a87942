"""BigQuery as a warehouse; the first call imports the client (extra `bigquery`), and only writing SQL needs no client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cdc_views.engines.warehouses import WarehousePlugin
from cdc_views.storage.places import Place
from cdc_views_bigquery.config import SCHEME, BigQueryConfig, Datasets, place_of, split_place

if TYPE_CHECKING:
    from cdc_views.engines.base import ViewDefinition
    from cdc_views.engines.warehouses import Cost, Load, Measured, StateDefinition
    from cdc_views.project import ProjectConfig
    from cdc_views_bigquery.engine import BigQueryEngine


class BigQueryPlugin(WarehousePlugin):
    """BigQuery as the warehouse: datasets, raw tables and views in it, and reads that run there."""

    name = "bigquery"
    title = "BigQuery"
    extra = "bigquery"
    options = BigQueryConfig
    place = "project.dataset"

    def check_warehouse(self, warehouse: str) -> None:
        split_place(warehouse)

    def open(self, config: ProjectConfig, *, folder: Place) -> BigQueryEngine:
        from cdc_views_bigquery.engine import BigQueryEngine

        return BigQueryEngine(_place(config), options_of(config))

    def raw_location(self, config: ProjectConfig, name: str) -> str:
        return SCHEME + _place(config).raw_table(name)

    def location_beside(self, keyspace: str, name: str) -> str:
        return f"{SCHEME}{keyspace}_raw.{name}"

    def view_schema(self, config: ProjectConfig) -> str:
        place = _place(config)
        return place.dataset(place.views)

    def view_sql(self, config: ProjectConfig, view: ViewDefinition) -> str | None:
        """Return None for raw tables that are elsewhere: any dialect's text fits these."""
        if config.engine != self.name:
            return None
        from cdc_views_bigquery import ddl

        return ";\n\n".join(made.sql for made in ddl.views(ddl.target_of(view), options_of(config)))

    def costs(self, config: ProjectConfig, view: ViewDefinition, load: Load, measured: Measured | None) -> Sequence[Cost]:
        from cdc_views_bigquery.costs import costs

        return costs(view.raw.relation, options_of(config), load, measured)

    def folder(
        self, config: ProjectConfig, views: Sequence[ViewDefinition], states: Sequence[StateDefinition]
    ) -> Mapping[str, str]:
        from cdc_views_bigquery.ddl import target_of
        from cdc_views_bigquery.folder import folder
        from cdc_views_bigquery.state import merging_of

        place, options = _place(config) if config.engine == self.name else None, options_of(config)
        # a project without a dataset of states has them beside its views
        datasets = [place.dataset(place.state) if place is not None else f"{view.schema}_state" for view in views]
        kept = [(s.raw.relation, merging_of(dataset, options, s)) for dataset, s in zip(datasets, states, strict=True)]
        return folder(config.name, [target_of(view) for view in views], options, states=kept)


def options_of(config: ProjectConfig) -> BigQueryConfig:
    """Return `bigquery:` of a project file, or defaults."""
    found: BigQueryConfig = config.options_of(BigQueryPlugin.name)
    return found


def _place(config: ProjectConfig) -> Datasets:
    return place_of(config.warehouse, options_of(config))
