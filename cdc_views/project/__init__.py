"""The project file `cdc_views.yml`: its models and its reader."""

from __future__ import annotations

from cdc_views.project.loading import load_project, project_json_schema
from cdc_views.project.models import ProjectConfig, TableConfig
from cdc_views.project.paths import split_name

__all__ = ["ProjectConfig", "TableConfig", "load_project", "project_json_schema", "split_name"]
