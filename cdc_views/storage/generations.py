"""The generations of a table's state: folders 1, 2, … and a file that names the one that is read.

A switch replaces that file as a whole: readers see one generation or the other. The earlier one stays until
`maintain` removes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cdc_views.errors import EngineError, UsageError
from cdc_views.storage.places import Place, remove_tree, write_whole

_CURRENT = "current"
_FIRST = 1


@dataclass(frozen=True, slots=True)
class Generations:
    """The generations of one table, in the folder `root`."""

    root: Place

    @property
    def current(self) -> int:
        """The generation that is read; the first if there was no switch."""
        file = self.root / _CURRENT
        try:
            text = file.read_text("ascii", errors="replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return _FIRST
        if not text.isdigit():
            known = self.numbers
            remedy = f"write {known[-1]} into it" if known else "delete it"
            raise EngineError(f"{file}: holds {text!r}; the number of a generation was expected, one of {known}; {remedy}")
        return int(text)

    @property
    def numbers(self) -> list[int]:
        """The existing generations."""
        return sorted(int(path.name) for path in self.root.iterdir() if path.name.isdigit()) if self.root.is_dir() else []

    def location(self, number: int) -> str:
        """Return the location of a generation, which need not exist."""
        return str(self.root / str(number))

    @property
    def following(self) -> int:
        """The number for the next generation."""
        return max([self.current, *self.numbers]) + 1

    def before(self, is_built: Callable[[str], bool]) -> int | None:
        """Return the newest complete generation before the current one; None if there is none.

        `is_built` returns whether the generation at a location is complete; a killed run leaves an incomplete one.
        """
        earlier = [number for number in self.numbers if number < self.current and is_built(self.location(number))]
        return earlier[-1] if earlier else None

    def previous(self, is_built: Callable[[str], bool]) -> int:
        """Return the generation of `before`; raises `UsageError` if there is none."""
        number = self.before(is_built)
        if number is None:
            raise UsageError(f"{self.root}: there is no generation before {self.current} to go back to that was completed")
        return number

    def switch(self, number: int) -> None:
        """Make a generation the one that is read."""
        if number not in self.numbers:
            raise UsageError(f"{self.root}: there is no generation {number}; there are {self.numbers}")
        write_whole(self.root / _CURRENT, f"{number}\n")

    def remove(self, number: int) -> None:
        """Delete a generation; never the current one."""
        if number == self.current:
            raise UsageError(f"{self.root}: generation {number} is the one that is read")
        remove_tree(self.root / str(number))
