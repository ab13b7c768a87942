"""Work in pieces that any process may do: an engine with tasks does several at once, elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cdc_views.storage.places import place_of

_Task = TypeVar("_Task")
_Done = TypeVar("_Done")


class Spread(Protocol):
    """Returns what a function gives of each task, in order; it may run them elsewhere and at once, and each more than once.

    `sees` are files and folders of this process that the function uses: processes that do not see them cannot do the work.
    Options of stores go with the work.
    """

    def __call__(self, function: Callable[[_Task], _Done], tasks: Sequence[_Task], *, sees: Sequence[str]) -> list[_Done]: ...


def in_this_process(function: Callable[[_Task], _Done], tasks: Sequence[_Task], *, sees: Sequence[str] = ()) -> list[_Done]:
    """Run tasks one after the other; a `Spread`."""
    return list(map(function, tasks))


@dataclass(frozen=True, slots=True)
class Tasks:
    """An engine's tasks, whose start is worth it for `least_bytes` of work."""

    spread: Spread
    least_bytes: int


@contextmanager
def leaving_nothing(location: str, name: str) -> Iterator[None]:
    """Delete the files in a folder whose names begin with `name` if the block, whose tasks write them, fails."""
    try:
        yield
    except BaseException:
        for file in place_of(location).glob(f"{name}-*"):
            file.unlink(missing_ok=True)
        raise
