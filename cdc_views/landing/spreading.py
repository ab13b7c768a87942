"""Work in pieces that any process may do: an engine with tasks does several at once, elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from cdc_views.storage.places import place_of

_GROUP_BYTES = 64 << 20
"""Of the files that one task reads one after the other; a larger file has a task of its own."""
_MOST_GROUPS = 2_000
_THREADS = 2
"""Files that this process reads at a time: each may hold a row group."""
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

    def each(
        self, function: Callable[[_Task], _Done], things: Sequence[_Task], *, sizes: Sequence[int], sees: Sequence[str]
    ) -> list[_Done]:
        """Return what a function gives of each thing, such as a file, in order; small ones share a task.

        `sizes` are the bytes of the things. Work that is not worth tasks is done in this process, a few things at once. So the
        function, which may be a `partial`, is one of a module, and may run twice for a thing, or at once with others.
        """
        if not things or sum(sizes) < self.least_bytes:
            return _a_few_at_once(function, things)
        groups = _groups(things, sizes, most_bytes=max(_GROUP_BYTES, sum(sizes) // _MOST_GROUPS))
        return [done for group in self.spread(partial(_of_each, function), groups, sees=sees) for done in group]


HERE = Tasks(in_this_process, 1 << 62)
"""No tasks: all work is done in this process."""


def _a_few_at_once(function: Callable[[_Task], _Done], things: Sequence[_Task]) -> list[_Done]:
    if len(things) < 2:
        return in_this_process(function, things)
    with ThreadPoolExecutor(_THREADS, "piece") as pool:
        return list(pool.map(function, things))


def _of_each(function: Callable[[_Task], _Done], group: Sequence[_Task]) -> list[_Done]:
    return list(map(function, group))


def _groups(things: Sequence[_Task], sizes: Sequence[int], *, most_bytes: int) -> list[tuple[_Task, ...]]:
    """Return the things in order, as many together as have `most_bytes`."""
    groups, size = list[list[_Task]](), 0
    for thing, bytes_of in zip(things, sizes, strict=True):
        if not groups or size + bytes_of > most_bytes:
            groups.append([])
            size = 0
        groups[-1].append(thing)
        size += bytes_of
    return list(map(tuple, groups))


@contextmanager
def leaving_nothing(location: str, name: str) -> Iterator[None]:
    """Delete the files below a folder whose names begin with `name` if the block, whose tasks write them, fails."""
    try:
        yield
    except BaseException:
        for file in place_of(location).rglob(f"{name}-*"):
            file.unlink(missing_ok=True)
        raise
