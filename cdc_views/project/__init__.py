"""The project file `cdc_views.yml`: what it may hold and how it is read."""

from __future__ import annotations

from cdc_views.project.loading import load_project, project_json_schema
from cdc_views.project.models import FidelityConfig, Layout, MaterializeConfig, ProjectConfig, RawConfig, TableConfig, ViewConfig
from cdc_views.project.paths import default_raw_table, split_name

__all__ = [
    "FidelityConfig",
    "Layout",
    "MaterializeConfig",
    "ProjectConfig",
    "RawConfig",
    "TableConfig",
    "ViewConfig",
    "default_raw_table",
    "load_project",
    "project_json_schema",
    "split_name",
]
