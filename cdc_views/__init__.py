"""cdc-views: from raw change events to the latest cell of every column of every key."""

from __future__ import annotations

__all__ = ["Project"]


def __getattr__(name: str) -> object:
    # loaded when first used: `import cdc_views` stays light
    if name == "Project":
        from cdc_views.api import Project

        return Project
    raise AttributeError(f"module 'cdc_views' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
