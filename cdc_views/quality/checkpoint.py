"""Reports through a checkpoint of Great Expectations, whose Data Docs are a site to open."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc_views.extras import needs
from cdc_views.quality.checks import Report

_SITE = "local_site"


@dataclass(frozen=True, slots=True)
class Published:
    """What Great Expectations made of some reports.

    Attributes:
        is_success: Whether each expectation was met, whatever its severity.
        index: The first page of the Data Docs.
    """

    is_success: bool
    index: Path


def publish(reports: Iterable[Report], folder: Path) -> Published:
    """Run a checkpoint of one suite per table and write its Data Docs into `folder`, kept from run to run.

    Only counts, rules, and places are written, no values of columns but keys'. Raises `UnsupportedError` where Great
    Expectations is not installed.
    """
    with _quietly():
        with needs("`validate` without --no-docs", extra="quality"):
            import great_expectations as gx
            import pandas as pd

            from cdc_views.quality.expectations import counts_of, suite_of
        folder.mkdir(parents=True, exist_ok=True)
        context = gx.get_context(mode="file", project_root_dir=str(folder))
        context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]  # a dict is what its store reads
        definitions, frames = [], {}
        source = context.data_sources.add_or_update_pandas("cdc-views")
        for report in reports:
            name = report.table
            batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("counts")
            definition = gx.ValidationDefinition(name=name, data=batch, suite=context.suites.add_or_update(suite_of(report)))
            definitions.append(context.validation_definitions.add_or_update(definition))
            frames[name] = pd.DataFrame(counts_of(report.checks))
        results = [definition.run(batch_parameters={"dataframe": frames[definition.name]}) for definition in definitions]
        context.build_data_docs(site_names=[_SITE])
    return Published(all(result.success for result in results), _index(context))


def _index(context: Any) -> Path:
    sites = context.get_docs_sites_urls(site_name=_SITE)
    return Path(str(sites[0]["site_url"]).removeprefix("file://"))


@contextmanager
def _quietly() -> Iterator[None]:
    """Without Great Expectations' progress bars, warnings and logs: what matters is in the report."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
