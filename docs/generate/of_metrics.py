"""The page of metrics: from the registries of producers, and from the gauges of commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cdc_producers.http.metrics import HttpMetrics
from cdc_producers.metrics import Metrics
from page_text import code, page, table

from cdc_views.cli import commands_validate, commands_verify, run_metrics

_HEADER = ("metric", "labels", "means")
_INTRO = """For Prometheus. Producers serve them at `--listen`. `materialize` serves them there too, or writes them to the file of
`--metrics` for node_exporter, as `validate` and `verify` do. Times are seconds since the epoch. All need
`pip install 'cdc-views[producers]'`; what to do about them: [Operate it](../how-to/operate.md).
"""


def metrics_page() -> str:
    """Every metric, its labels and its help text."""
    shared = dict(_served(Metrics("postgres")))
    receiver = {name: told for name, told in _served(HttpMetrics()) if name not in shared}
    sections = {
        "Producers, the HTTP receiver among them": shared.values(),
        "The HTTP receiver alone": receiver.values(),
        "`materialize`": _written(run_metrics.PREFIX, run_metrics.HELP),
        "`validate`": _written(commands_validate.PREFIX, commands_validate.HELP),
        "`verify`": _written(commands_verify.PREFIX, commands_verify.HELP),
    }
    return page("Metrics", _INTRO, *(f"## {title}\n\n{table(_HEADER, rows)}" for title, rows in sections.items()))


def _served(metrics: Metrics) -> Iterator[tuple[str, tuple[str, str, str]]]:
    collectors: Any = metrics.registry._collector_to_names  # the registry has no other way to its labels
    for collector in collectors:
        (family,) = collector.describe()
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(map(code, collector._labelnames))
        yield name, (code(name), labels, family.documentation.rstrip("."))


def _written(prefix: str, help: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [(code(prefix + name), code("table"), text) for name, text in help.items()]
