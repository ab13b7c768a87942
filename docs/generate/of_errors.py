"""The page of exit codes and error classes: from `cdc_views.errors`."""

from __future__ import annotations

from page_text import code, docstring, page, table

from cdc_views import errors

CODES = (
    ("0", "done"),
    ("1", "a check ran and said no, or some of the work was not accepted: bad events, late facts, rows that differ"),
    ("2", "usage or configuration: repeating the command will not help"),
    ("3", "an engine or a source failed; where the error is transient the same command may go through later"),
    ("130, 143", "interrupted by SIGINT or SIGTERM a second time; what was committed stays"),
)


def errors_page() -> str:
    """Exit codes, and each class with what it ends a command with and when it is raised."""
    intro = (
        "A message says where, what is wrong, what was expected and what to do. The facts are attributes of the error, too.\n"
        "Every error raised on purpose is a `cdc_views.errors.CdcViewsError`.\n"
    )
    found = [errors.CdcViewsError, *_below(errors.CdcViewsError)]
    rows = [(f"{'… ' * (len(cls.__mro__) - 4)}`{cls.__name__}`", _exit_code(cls), _first_line(cls)) for cls in found]
    codes = f"## Exit codes\n\n{table(('code', 'meaning'), CODES)}"
    return page("Errors and exit codes", intro, codes, f"## Classes\n\n{table(('class', 'exit code', 'when'), rows)}")


def _below(base: type[Exception]) -> list[type[errors.CdcViewsError]]:
    order = list(vars(errors))
    below = [cls for cls in base.__subclasses__() if cls.__module__ == errors.__name__]
    found = []
    for cls in sorted(below, key=lambda one: order.index(one.__name__)):
        found += [cls, *_below(cls)]
    return found


def _exit_code(cls: type[errors.CdcViewsError]) -> str:
    return "none: the event goes to quarantine" if cls is errors.MalformedEventError else code(cls.exit_code)


def _first_line(cls: type[Exception]) -> str:
    return " ".join(docstring(cls).split("\n\n")[0].split())
