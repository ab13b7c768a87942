"""Numbers, spans and instants for people."""

from __future__ import annotations

from cdc_views.rules.codec.times import instant_text, timestamp_text

_FIELDS = {
    "as_of": "As of",
    "landed_as_of": "Landed until",
    "written_as_of": "Written until",
    "--where": "Where",
    "where": "Where",
}
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def size(amount: int) -> str:
    """Return bytes in a suitable unit; units are powers of 1,000.

    >>> size(999), size(206168), size(5_000_000_000)
    ('999 B', '206.2 kB', '5.0 GB')
    """
    value = float(amount)
    for unit in _UNITS:
        if value < 999.95 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{amount} B" if unit == "B" else f"{value:.1f} {unit}"


def span(seconds: int) -> str:
    """Return a span in its two largest units.

    >>> span(59), span(3_720), span(90_000)
    ('59 s', '1 h 2 min', '1 d 1 h')
    """
    for at, (unit, name) in enumerate(_SPANS):
        if seconds >= unit:
            smaller, called = _SPANS[at + 1] if at + 1 < len(_SPANS) else (1, "s")
            rest = seconds % unit // smaller
            return f"{seconds // unit:,} {name}" + (f" {rest} {called}" if rest else "")
    return f"{seconds} s"


def roughly(seconds: int) -> str:
    """Return a span in its largest unit.

    >>> roughly(59), roughly(3_720), roughly(90_000)
    ('59 s', '1 h', '1 d')
    """
    unit, name = next(((unit, name) for unit, name in _SPANS if seconds >= unit), (1, "s"))
    return f"{seconds // unit:,} {name}"


def second(instant: int) -> str:
    """Return an instant of epoch seconds.

    >>> second(1795254672)
    '2026-11-21 09:51:12 UTC'
    """
    return timestamp_text(instant * 1000).removesuffix("Z").partition(".")[0] + " UTC"


def micros(instant: int) -> str:
    """Return an instant of µs since the epoch.

    >>> micros(1700000000000034)
    '2023-11-14 22:13:20.000034 UTC'
    """
    return instant_text(instant).removesuffix("Z").replace("T", " ") + " UTC"


def share(part: int, whole: int) -> str:
    """Return a part in percent; 0 or 100 only if it is exactly that.

    >>> share(0, 0), share(1, 3), share(1, 1_000_000), share(999_999, 1_000_000), share(3, 3)
    ('–', '33 %', '< 1 %', '> 99 %', '100 %')
    """
    if not whole:
        return "–"
    percent = round(100 * part / whole)
    if percent == 0 and part:
        return "< 1 %"
    return "> 99 %" if percent == 100 and part < whole else f"{percent} %"


def in_page_words(message: str) -> str:
    """Return a message about a command's argument in the words of a page's fields.

    >>> in_page_words("landed_as_of is 'yesterday', which is no instant")
    "Landed until is 'yesterday', which is no instant"
    """
    name = message.partition(" ")[0]
    return _FIELDS.get(name, name) + message.removeprefix(name)


def counted(amount: int, noun: str, plural: str = "") -> str:
    """Return a count and its noun.

    >>> counted(1, "file"), counted(1200, "file"), counted(3, "copy", "copies")
    ('1 file', '1,200 files', '3 copies')
    """
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"
