"""What the entry point offers: an engine, and statements as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cdc_views.engines.base import ViewDefinition
from cdc_views.engines.warehouses import Cost, Load, Measured, StateDefinition
from cdc_views.project.bigquery import Place, place_of
from cdc_views_bigquery import ddl
from cdc_views_bigquery.costs import costs
from cdc_views_bigquery.engine import BigQueryEngine, target_of
from cdc_views_bigquery.folder import folder
from cdc_views_bigquery.state import merging_of

if TYPE_CHECKING:
    from cdc_views.project import ProjectConfig


class BigQueryWarehouse:
    """See `cdc_views.engines.warehouses.Warehouse`."""

    def open(self, config: ProjectConfig) -> BigQueryEngine:
        """Return an engine; nothing is sent before its first use."""
        return BigQueryEngine(place_of(config.warehouse, config.bigquery), config.bigquery)

    def view_sql(self, config: ProjectConfig, view: ViewDefinition) -> str:
        """Return the statement that creates the view."""
        return ddl.view(target_of(view), config.bigquery).sql

    def costs(self, config: ProjectConfig, view: ViewDefinition, load: Load, measured: Measured | None) -> Sequence[Cost]:
        """Return what each way of reading the table costs; `measured` None: by the schema alone."""
        return costs(view.raw.relation, config.bigquery, load, measured)

    def folder(
        self, config: ProjectConfig, views: Sequence[ViewDefinition], states: Sequence[StateDefinition] = ()
    ) -> Mapping[str, str]:
        """Return files, path → text, of statements that make everything without this tool."""
        is_placed = config.engine.value == ddl.DIALECT
        place = place_of(config.warehouse, config.bigquery) if is_placed else None
        kept = [
            (state.raw.relation, merging_of(_dataset(place, view), config.bigquery, state))
            for view, state in zip(views, states, strict=True)
        ]
        return folder(config.name, [target_of(view) for view in views], config.bigquery, states=kept)


def _dataset(place: Place | None, view: ViewDefinition) -> str:
    """The dataset of a state: the project's, or beside the views of one that has none."""
    return place.dataset(place.state) if place is not None else f"{view.schema}_state"
