"""A state and a serving table that are kept up together."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from cdc_views.engines.base import Engine
from cdc_views.state import materialize
from cdc_views.state.serving import Served, serve
from helpers.growing_states import Growing
from helpers.reading import SEED
from helpers.schemas import Subject


class Kept(Growing):
    """A growing raw table with a state and a serving table."""

    def __init__(self, folder: Path, subject: Subject, *, cases: int, seed: int = SEED) -> None:
        super().__init__(folder, subject, cases=cases, seed=seed)
        self.serving = str(folder / "serving")

    def run(self, engine: Engine, now: int, *, full: bool = False) -> Served:
        """Bring state and serving table up to date."""
        materialize(engine, self.raw, self.state, full=full)
        return serve(engine, self.raw, self.state, self.serving, now=now, full=full)

    @property
    def files(self) -> set[str]:
        """The serving table's files."""
        return set(DeltaTable(self.serving).file_uris())
