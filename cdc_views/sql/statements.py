"""Statements around a rendered query, from templates."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

import jinja2


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def template_folder() -> str:
    """Return the folder of the templates: inside an installed package, beside it in a checkout."""
    packaged = resources.files("cdc_views") / "_templates"
    beside = Path(str(resources.files("cdc_views"))).parent / "templates"
    return str(packaged) if packaged.is_dir() else str(beside)


def envelope(template: str, **values: object) -> str:
    """Return a statement from its template; `values` with relational logic or identifiers must be rendered SQL."""
    return _environment().get_template(template).render(**values)
