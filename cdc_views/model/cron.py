"""Cron expressions of five fields, as in Debian's cron, parsed by CronSim. In UTC no hour is missing or occurs twice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from cronsim import CronSim, CronSimError

_FIELDS = 5
_ANY_INSTANT = datetime(2000, 1, 1, tzinfo=timezone.utc)
_EXAMPLE = 'a cron expression of five fields was expected, as in "*/15 * * * *" (minute, hour, day, month, weekday)'


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression that has **ticks**, which are the instants that it names, to the minute.

    Raises:
        ValueError: It is not a cron expression, or names only instants that never come, such as 30 February.

    >>> Cron("*/15 * * * *").after(datetime(2026, 11, 21, 10, 0, tzinfo=timezone.utc)).isoformat()
    '2026-11-21T10:15:00+00:00'
    """

    expression: str

    def __post_init__(self) -> None:
        if len(self.expression.split()) != _FIELDS:
            raise ValueError(_EXAMPLE)
        try:
            self.after(_ANY_INSTANT)
        except (CronSimError, AssertionError) as error:
            why = str(error)[:1].lower() + str(error)[1:] or "it cannot be read"
            raise ValueError(f"{why}; {_EXAMPLE}") from error
        except StopIteration as error:
            raise ValueError(f"it names an instant that never comes; {_EXAMPLE}") from error

    def after(self, instant: datetime) -> datetime:
        """Return the first tick later than `instant`."""
        return next(CronSim(self.expression, _in_utc(instant)))

    def latest(self, instant: datetime) -> datetime:
        """Return the last tick at or before `instant`.

        >>> Cron("0 3 * * *").latest(datetime(2026, 11, 21, 10, 0, tzinfo=timezone.utc)).isoformat()
        '2026-11-21T03:00:00+00:00'
        """
        return next(CronSim(self.expression, _in_utc(instant) + timedelta(seconds=1), reverse=True))


def _in_utc(instant: datetime) -> datetime:
    """Return the whole second in UTC: CronSim treats fractions differently in its two directions."""
    return instant.astimezone(timezone.utc).replace(microsecond=0)
