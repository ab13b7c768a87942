"""What an entry point of group `cdc_views.producers` declares: how a producer is run, and its options, once.

`cdc-views produce NAME`, the script `cdc-produce-NAME` and the reference page are rendered from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar, get_type_hints

from cdc_views.errors import UsageError
from cdc_views.landing.targets import ProducerOrder, ProducerProject

_T = TypeVar("_T")
_KEY = "option"

Computed = Callable[[ProducerProject, Mapping[str, Any]], Any]
"""Returns a default from the project and the options before this one, by their fields' names."""


@dataclass(frozen=True, slots=True)
class Option:
    """How a field of a producer's options is given on the command line.

    Attributes:
        flag: `--name`; a field of type `bool` takes no value, one of type `tuple[str, ...]` may be repeated.
        metavar: What `--help` shows for the value; empty for a `bool`, and for an `Enum`: its values.
        help: One line.
        at_least: The smallest number that is taken; None: any.
        computed: What the default is where the option is not given; None: the field's default.
    """

    flag: str
    metavar: str
    help: str
    at_least: float | None = None
    computed: Computed | None = None


def option(
    flag: str, default: _T, metavar: str = "", *, help: str, at_least: float | None = None, computed: Computed | None = None
) -> _T:
    """Return a field of a producer's options, a frozen dataclass; see `Option`.

    >>> @dataclass(frozen=True)
    ... class PollOptions:
    ...     every_seconds: float = option("--every", 1.0, "SECONDS", help="How often the source is asked.")
    >>> [one.flag for one in options_of(PollOptions).values()]
    ['--every']
    """
    return field(default=default, metadata={_KEY: Option(flag, metavar, help, at_least, computed)})


def switch(flag: str, *, help: str) -> bool:
    """Return a field of a producer's options that is False unless the flag is given."""
    return option(flag, default=False, help=help)


def options_of(chosen: type) -> dict[str, Option]:
    """Return the options of a producer's dataclass by the names of its fields."""
    return {one.name: one.metadata[_KEY] for one in fields(chosen) if _KEY in one.metadata}


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer, as an entry point of group `cdc_views.producers` names it.

    Attributes:
        run: Runs until `order.stop` is set; takes an instance of `options`. Raises `CheckFailedError` where an event went
            to quarantine and `order.exits_on_error`, `UsageError` where the tables, the options or the source's settings
            cannot be, and `EngineError` where the source or the target failed for good.
        options: A frozen dataclass with a field made by `option` for each option; raises `UsageError` for bad values.
        help: For `--help`: a line, and what else there is to know, after an empty line.
        raw_format: Of its events: without `--table` it takes the tables of this format; None: those of any.
        publishes: Whether its events may be published elsewhere instead (`--to`).
        serves: Whether it listens at an address of its own, with `/healthz` and `/metrics`: it has no `--listen`, and no
            `--on-error`, as its answers say what became of each event.
    """

    run: Callable[[ProducerOrder, Any], None]
    options: type
    help: str
    raw_format: str | None = "debezium"
    publishes: bool = False
    serves: bool = False

    def chosen(self, project: ProducerProject, given: Mapping[str, Any]) -> Any:
        """Return the options from the values that were given, by their fields' names; None: the default.

        Raises `UsageError` for a value that cannot be.
        """
        hints, declared, values = get_type_hints(self.options), options_of(self.options), dict[str, Any]()
        for one in fields(self.options):
            if one.name in declared:
                how, value = declared[one.name], given.get(one.name)
                if value is None:
                    values[one.name] = one.default if how.computed is None else how.computed(project, values)
                else:
                    values[one.name] = _converted(how, hints[one.name], value)
        return self.options(**values)


def choices_of(kind: Any) -> list[str]:
    """Return the values of an `Enum` type; none for other types."""
    return [member.value for member in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _converted(one: Option, kind: Any, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    known = choices_of(kind)
    if known and value not in known:
        raise UsageError(f"{one.flag} is {value!r}; one of {', '.join(known)} was expected")
    return kind(value) if known else value
