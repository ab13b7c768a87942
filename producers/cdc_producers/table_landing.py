"""The landers of one table: created again when the project file or schema changes, but never for a raw table that is gone."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc_views.landing import StreamLander, exists, gone
from cdc_views.landing.targets import EventLander, StreamTarget
from cdc_views.storage.relation import RawTable


@dataclass
class TableLanding:
    """The landers of one table, by stream; in a raw table, one lander lands all streams."""

    target: StreamTarget
    landers: dict[str, EventLander] = field(default_factory=dict)
    raw: RawTable | None = None
    _version: object = None

    def lander(self, stream: str) -> EventLander:
        """Return a lander that uses the current files and forgotten keys; raises `EngineError` if the raw table is gone."""
        if self.raw is not None and not exists(self.raw):
            raise gone(self.raw)
        version = self.target.version()
        if version != self._version:
            self.landers, self._version = {}, version
        of_any = (lander for lander in self.landers.values() if isinstance(lander, StreamLander))
        found = next(of_any, None) or self.landers.get(stream) or self.landers.setdefault(stream, self.target.lander(stream))
        if isinstance(found, StreamLander) and found.forgotten is not None and not found.forgotten.is_current():
            found.forgotten = found.forgotten.reread()
        self.raw = found.raw
        return found
