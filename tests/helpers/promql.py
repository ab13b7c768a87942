"""What PromQL expressions name, and what of it is not exposed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import promql_parser
from prometheus_client.parser import text_string_to_metric_families

OF_THE_SCRAPE = {"job", "instance"}
"""Labels that Prometheus adds to each series."""
Exposed = Mapping[str, frozenset[str]]
"""The labels of each series' name."""


def exposed(*scraped: str) -> dict[str, frozenset[str]]:
    """Return what the answers of `/metrics` expose, and Prometheus' own `up`."""
    found: dict[str, frozenset[str]] = {"up": frozenset(OF_THE_SCRAPE)}
    for text in scraped:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found[sample.name] = found.get(sample.name, frozenset()) | {*sample.labels} | OF_THE_SCRAPE
    return found


def problems(expression: str, known: Exposed) -> list[str]:
    """Return what an expression names that is not exposed; raises `ValueError` where it is no PromQL."""
    tree = promql_parser.parse(expression)
    return [*_problems_of_names(tree, known), *_problems_of_grouping(tree, known)]


def result_labels(expression: str, known: Exposed) -> set[str]:
    """Return labels that an alert of this expression may have."""
    tree = promql_parser.parse(expression)
    grouped = [set(labels) for labels, _ in _grouped(tree)]
    series = [set(known.get(selector.name, ())) for selector in _selectors(tree)]
    return set.intersection(*(grouped or series))


def _problems_of_names(tree: Any, known: Exposed) -> Iterator[str]:
    for selector in _selectors(tree):
        if selector.name not in known:
            yield f"no metric {selector.name}"
        else:
            labels = {matcher.name for matcher in selector.matchers.matchers}
            yield from (f"{selector.name} has no label {label}" for label in sorted(labels - known[selector.name]))


def _problems_of_grouping(tree: Any, known: Exposed) -> Iterator[str]:
    for labels, inside in _grouped(tree):
        for selector in _selectors(inside):
            missing = sorted(set(labels) - known.get(selector.name, frozenset(labels)))
            yield from (f"{selector.name} has no label {label} to group by" for label in missing)


def _grouped(tree: Any) -> Iterator[tuple[list[str], Any]]:
    """Each aggregation's labels, and what is aggregated."""
    for node in _nodes(tree):
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            yield re.findall(r"\w+", str(node.modifier).partition("(")[2]), node.expr


def _selectors(tree: Any) -> list[Any]:
    found = []
    for node in _nodes(tree):
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        elif isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)
    return found


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for name in ("lhs", "rhs", "expr", "param"):
        inside = getattr(node, name, None)
        if inside is not None:
            yield from _nodes(inside)
    for inside in getattr(node, "args", None) or ():
        yield from _nodes(inside)
