"""Where work on many files is done: in the tasks of an engine, if it has any, else in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from cdc_views.engines.plugin import engine_plugin
from cdc_views.landing.spreading import HERE, Tasks
from cdc_views.operations.context import ProjectContext


@contextmanager
def spreading(project: ProjectContext, engine: str | None = None) -> Iterator[Tasks]:
    """Yield the tasks of an engine, by default the project's; the first work that is worth them opens it."""
    plugin = project.engine_plugin if engine is None else engine_plugin(engine)
    if plugin.spread_from is None:
        yield HERE
        return
    with ExitStack() as stack:
        opened = cache(lambda: stack.enter_context(project.engine(engine)))

        def spread(function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
            return opened().spread(function, tasks, sees=sees)

        yield Tasks(spread, plugin.spread_from)
