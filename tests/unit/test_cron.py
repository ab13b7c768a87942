"""Cron expressions: which instants they name, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_views.model.cron import Cron


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("expression", "instant", "latest", "after"),
    [
        ("*/15 * * * *", "2026-11-21T10:00", "2026-11-21T10:00", "2026-11-21T10:15"),
        ("*/15 * * * *", "2026-11-21T10:14:59", "2026-11-21T10:00", "2026-11-21T10:15"),
        ("0 3 * * mon-fri", "2026-11-21T10:00", "2026-11-20T03:00", "2026-11-23T03:00"),
        ("0 0 29 2 *", "2026-11-21T10:00", "2024-02-29T00:00", "2028-02-29T00:00"),
        ("0 0 1 1 *", "2026-12-31T23:59:59.999999", "2026-01-01T00:00", "2027-01-01T00:00"),
        ("59 23 L * *", "2026-11-21T10:00", "2026-10-31T23:59", "2026-11-30T23:59"),
    ],
)
def test_the_ticks_around_an_instant(expression: str, instant: str, latest: str, after: str) -> None:
    cron = Cron(expression)
    assert (cron.latest(at(instant)), cron.after(at(instant))) == (at(latest), at(after))


def test_ticks_are_in_utc_whatever_the_zone_of_the_instant() -> None:
    instant = datetime(2026, 11, 21, 1, 30, tzinfo=timezone(timedelta(hours=3)))
    assert Cron("0 0 * * *").latest(instant) == at("2026-11-20T00:00")


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)),
    st.sampled_from(["* * * * *", "*/7 * * * *", "5 4 * * *", "0 0 * * 0", "30 6 1,15 * *"]),
)
def test_latest_is_the_last_tick_not_later_and_after_the_first_one_later(moment: datetime, expression: str) -> None:
    cron, instant = Cron(expression), moment.replace(tzinfo=timezone.utc)
    latest, after = cron.latest(instant), cron.after(instant)
    assert latest <= instant < after
    assert (cron.after(latest), cron.latest(after)) == (after, after)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("hourly", "five fields"),
        ("", "five fields"),
        ("* * * * * *", "five fields"),
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 0 * *", "bad day-of-month"),
        ("* * * 13 *", "bad month"),
        ("* * * * 8", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
        ("5-3 * * * *", "bad minute"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("a b c d e", "bad minute"),
        ("0 0 * * 5L/2", "bad day-of-week"),
    ],
)
def test_what_names_no_instants_is_refused_with_an_example(expression: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected) as refused:
        Cron(expression)
    assert '"*/15 * * * *"' in str(refused.value)


@given(st.text("0123456789*/-,LW# AMONJ", min_size=9, max_size=24))
def test_any_text_is_an_expression_with_ticks_or_a_value_error(text: str) -> None:
    try:
        cron = Cron(text)
    except ValueError:
        return
    assert cron.after(at("2026-11-21T10:00")) > at("2026-11-21T10:00")
