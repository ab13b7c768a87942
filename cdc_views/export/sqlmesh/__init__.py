"""A SQLMesh project's part of a cdc-views project: a model per table, printed from the same plan as its view."""

from __future__ import annotations

from cdc_views.export.sqlmesh.export import export

__all__ = ["export"]
