"""Texts of instants, days, times and durations, also beyond `datetime`. Days are proleptic Gregorian, as in Java and Postgres."""

from __future__ import annotations

import re

MILLIS_A_DAY = 86_400_000
MICROS_A_DAY = 86_400_000_000
NANOS_A_SECOND = 1_000_000_000
_ERA_DAYS = 146_097  # days of 400 years
_EPOCH_SHIFT = 719_468  # days from 0000-03-01 to 1970-01-01

PG_INFINITY = 9_223_372_036_825_200_000
"""Debezium's µs for PostgreSQL's `infinity`; negated: `-infinity`. Source: a `timestamp` in a captured event of Debezium 3.6."""


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01. Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms"."""
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * _ERA_DAYS + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - _EPOCH_SHIFT


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return (year, month, day); the year before 1 is 0 (astronomical). Source: as `days_from_civil`."""
    era, of_era = divmod(days + _EPOCH_SHIFT, _ERA_DAYS)
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    day_of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + (3 if shifted_month < 10 else -9)
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted_month + 2) // 5 + 1


def date_text(days: int) -> str:
    """Return `YYYY-MM-DD`; years past 9999 with `+`, before 0 with `-`."""
    year, month, day = civil_from_days(days)
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def timestamp_text(millis: int) -> str:
    """Return `YYYY-MM-DD HH:MM:SS.mmmZ`, as `SELECT JSON` prints a timestamp."""
    days, rest = divmod(millis, MILLIS_A_DAY)
    return f"{date_text(days)} {_clock(rest // 1000)}.{rest % 1000:03d}Z"


def datetime_text(micros: int) -> str:
    """Return `YYYY-MM-DD HH:MM:SS[.ffffff]` of a relational timestamp; `infinity` and `-infinity` by name."""
    if abs(micros) == PG_INFINITY:
        return "infinity" if micros > 0 else "-infinity"
    days, rest = divmod(micros, MICROS_A_DAY)
    fraction = f".{rest % 1_000_000:06d}" if rest % 1_000_000 else ""
    return f"{date_text(days)} {_clock(rest // 1_000_000)}{fraction}"


def instant_text(micros: int) -> str:
    """Return `YYYY-MM-DDTHH:MM:SS.ffffffZ`: ISO 8601, in UTC."""
    days, rest = divmod(micros, MICROS_A_DAY)
    return f"{date_text(days)}T{_clock(rest // 1_000_000)}.{rest % 1_000_000:06d}Z"


def second_text(seconds: int) -> str:
    """Return `YYYY-MM-DDTHH:MM:SSZ`: ISO 8601, in UTC, of seconds since the epoch."""
    days, rest = divmod(seconds, MICROS_A_DAY // 1_000_000)
    return f"{date_text(days)}T{_clock(rest)}Z"


def time_text(nanos: int) -> str:
    """Return `HH:MM:SS.nnnnnnnnn`; hours may pass 24 and a minus sign may lead (relational TIME)."""
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    return f"{sign}{_clock(nanos // NANOS_A_SECOND)}.{nanos % NANOS_A_SECOND:09d}"


_DURATION_UNITS = (
    (3600 * NANOS_A_SECOND, "h"),
    (60 * NANOS_A_SECOND, "m"),
    (NANOS_A_SECOND, "s"),
    (1_000_000, "ms"),
    (1000, "us"),
    (1, "ns"),
)


def duration_text(value: tuple[int, int, int]) -> str:
    """Return `1y2mo3d1h2m3s4ms5us6ns` without units of 0, so empty for 0. Source: Cassandra 5.0, `cql3.Duration.toString`."""
    months, days, nanos = (abs(part) for part in value)
    parts = [(months // 12, "y"), (months % 12, "mo"), (days, "d")]
    for size, unit in _DURATION_UNITS:
        parts.append((nanos // size, unit))
        nanos %= size
    sign = "-" if any(part < 0 for part in value) else ""
    return sign + "".join(f"{amount}{unit}" for amount, unit in parts if amount) if any(value) else ""


_DATE = re.compile(r"([+-]?)(\d{4,})-(\d\d)-(\d\d)( BC)?")
_TIME = re.compile(r"(-?)(\d{2,}):([0-5]\d)(?::([0-5]\d|60)(?:\.(\d{1,9}))?)?")
_OF_DAY = r"(?:[01]\d|2[0-3]):\d\d(?::\d\d(?:\.\d{1,9})?)?|24:00(?::00(?:\.0{1,9})?)?"
_STAMP = re.compile(rf"(.+?)[ T]({_OF_DAY})(Z|[+-][01]\d(?::?[0-5]\d)?)?( BC)?")
_UNITS = ("y", "mo", "w", "d", "h", "m", "s", "ms", "us", "ns")
_DURATION = re.compile("(-?)" + "".join(rf"(?:(\d+){unit})?" for unit in _UNITS))


def _groups(pattern: re.Pattern[str], text: str, what: str) -> tuple[str, ...]:
    found = pattern.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a {what}")
    return found.groups("")


def parse_date(text: str) -> int:
    """Return days since the epoch of `[+-]YYYY-MM-DD[ BC]`; raises ValueError."""
    sign, year, month, day, before = _groups(_DATE, text, "date")
    number = -int(year) if sign == "-" else int(year)
    days = days_from_civil(1 - number if before else number, int(month), int(day))
    if civil_from_days(days)[1:] != (int(month), int(day)):
        raise ValueError(f"{text!r} is not a date")
    return days


def parse_time(text: str) -> int:
    """Return nanoseconds of `[-]HH:MM[:SS[.fffffffff]]`; raises ValueError."""
    sign, hours, minutes, seconds, fraction = _groups(_TIME, text, "time")
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds or 0)
    total = whole * NANOS_A_SECOND + int(fraction.ljust(9, "0"))
    return -total if sign else total


def _zone_seconds(zone: str | None) -> int:
    if zone is None or zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if zone[0] == "-" else seconds


def parse_micros(text: str) -> int:
    """Return µs since the epoch of an ISO-like date and time (no zone: UTC; digits past µs cut); raises ValueError."""
    if text in ("infinity", "-infinity"):
        return PG_INFINITY if text == "infinity" else -PG_INFINITY
    found = _STAMP.fullmatch(text)
    if found is None:
        return parse_date(text) * MICROS_A_DAY
    day, clock, zone, before = found.groups()
    nanos = parse_time(clock)
    return parse_date(day + (before or "")) * MICROS_A_DAY + nanos // 1000 - _zone_seconds(zone) * 1_000_000


def parse_duration(text: str) -> tuple[int, int, int]:
    """Return (months, days, nanoseconds) of a text in the form of `duration_text`; raises ValueError."""
    minus, *amounts = _groups(_DURATION, text, "duration")
    years, months, weeks, days, hours, minutes, seconds, millis, micros, nanos = (int(amount or 0) for amount in amounts)
    total = (((hours * 60 + minutes) * 60 + seconds) * 1000 + millis) * 1_000_000 + micros * 1000 + nanos
    sign = -1 if minus else 1
    return sign * (years * 12 + months), sign * (weeks * 7 + days), sign * total
