"""What a producer's `/metrics` has before anything happens, and what it says of trouble and of limits."""

from __future__ import annotations

import pytest
from cdc_producers.http.metrics import HttpMetrics
from cdc_producers.metrics import Health, Metrics, serving
from cdc_producers.postgres.slots import Slot, SlotWatcher
from helpers.captured import Said
from helpers.watched_processes import scrape
from prometheus_client import generate_latest


def test_counters_of_a_table_begin_at_0() -> None:
    metrics = Metrics("postgres")
    metrics.expect(["shop.orders"], parts=["source", "target"])
    text = generate_latest(metrics.registry).decode()
    for name in ("events", "facts", "quarantined", "skipped"):
        assert f'cdc_views_{name}_total{{source="postgres",table="shop.orders"}} 0.0' in text
    assert 'cdc_views_failures_total{part="target",source="postgres"} 0.0' in text


def test_a_receivers_counters_begin_at_0_too() -> None:
    metrics = HttpMetrics()
    metrics.expect(["shop.orders"])
    text = generate_latest(metrics.registry).decode()
    assert 'cdc_views_quarantined_total{source="http",table="shop.orders"} 0.0' in text
    assert 'cdc_views_http_failing{table="shop.orders"} 0.0' in text
    assert 'cdc_views_http_events_total{outcome="dead_letter",table=""} 0.0' in text


@pytest.mark.parametrize(("troubles", "said"), [({}, 0), ({"source": "away", "cdc_raw": "nearly full"}, 2)])
def test_troubles_are_counted(troubles: dict[str, str], said: int) -> None:
    with serving("127.0.0.1:0", Metrics("cassandra"), Health(troubles), refresh=lambda: None) as address:
        text = scrape(address.removeprefix("http://"))
    assert f'cdc_views_troubles{{source="cassandra"}} {said}.0' in text


@pytest.mark.parametrize(("safe", "limit"), [(None, None), (7 << 30, 10 << 30), (-1, (3 << 30) - 1)])
def test_a_slots_limit_is_what_is_held_and_what_may_come(safe: int | None, limit: int | None) -> None:
    watch = SlotWatcher("slot", Said())
    watch.look(Slot(0, 3 << 30, 4 << 30, is_lost=False, safe_bytes=safe, active_process=None))
    assert (watch.held_bytes, watch.held_limit_bytes) == (3 << 30, limit)
