"""The command line `cdc-views`: a thin layer over `cdc_views.api`, and the only importer of typer and rich."""

from __future__ import annotations

from cdc_views.cli.app import main, produce

__all__ = ["main", "produce"]
