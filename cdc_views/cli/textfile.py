"""Metrics of tables, in a file for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdc_views.cli.log import log
from cdc_views.errors import UsageError
from cdc_views.model.extras import needs


@dataclass(eq=False)  # a registry keeps it as a key
class TableGauges:
    """Gauges with the label `table`.

    Attributes:
        prefix: What their names begin with.
        help: The text of each, by its name without the prefix.
        file: Written anew, whole, at each `publish`; None: no file.
        values: By name and table.
    """

    prefix: str
    help: Mapping[str, str]
    file: Path | None = None
    values: dict[tuple[str, str], float] = field(default_factory=dict)

    def check(self, option: str) -> None:
        """Raise `UsageError` for a file's name that node_exporter does not read, or if the package that writes it is missing."""
        if self.file is not None and self.file.suffix != ".prom":
            raise UsageError(f"--metrics {self.file}: a name that ends in .prom was expected; node_exporter reads no others")
        with needs(option, extra="producers"):
            import prometheus_client  # noqa: F401

    def begin(self, option: str, tables: Set[str]) -> TableGauges:
        """Check, read and write the file, if there is one, so that what is wrong with it shows before a run; return them."""
        if self.file is not None:
            self.check(option)
            self.read(tables)
            self.write()
        return self

    def read(self, tables: Set[str]) -> None:
        """Take what the file has of these tables; a damaged or missing one has nothing."""
        if self.file is None:
            return
        from prometheus_client.parser import text_string_to_metric_families

        with suppress(OSError, ValueError):
            for family in text_string_to_metric_families(self.file.read_text(encoding="utf-8")):
                for sample in family.samples:
                    name, table = sample.name.removeprefix(self.prefix), sample.labels.get("table", "")
                    if name in self.help and table in tables:
                        self.values[name, table] = sample.value

    def write(self) -> None:
        """Write the file; raises `UsageError` if it cannot be written, as before the first run."""
        if self.file is None:
            return
        from prometheus_client import write_to_textfile

        try:
            write_to_textfile(str(self.file), self)
        except OSError as error:
            why = f"{error.strerror}; name a folder that is there and can be written to"
            raise UsageError(f"--metrics {self.file}: {why}") from error

    def publish(self) -> None:
        """Write the file, or warn: a full disk must not stop runs."""
        try:
            self.write()
        except UsageError as error:
            log.warning(str(error))

    def collect(self) -> Iterator[Any]:
        """Yield the metrics, for prometheus_client; any thread may call it."""
        from prometheus_client.core import GaugeMetricFamily

        values = dict(self.values)
        for name, text in self.help.items():
            family = GaugeMetricFamily(self.prefix + name, text, labels=["table"])
            for (metric, table), value in sorted(values.items()):
                if metric == name:
                    family.add_metric([table], value)
            yield family
