"""What an entry point of group `cdc_views.producers` declares: how a producer runs, and its options.

`cdc-views produce NAME`, the script `cdc-produce-NAME` and the reference page are generated from it.
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
"""Returns a default from the project and the earlier options, by field name."""


@dataclass(frozen=True, slots=True)
class Option:
    """The command-line form of a field of a producer's options.

    Attributes:
        flag: `--name`; a field of type `bool` takes no value, one of type `tuple[str, ...]` may be repeated.
        metavar: The value's name in `--help`; empty for a `bool`, and for an `Enum`, which shows its values.
        help: One line.
        at_least: The smallest valid number; None: any.
        computed: Returns the default; None: use the field's default.
        is_of_one_run: Whether it is of the first run alone: another run in the same process must not repeat it.
    """

    flag: str
    metavar: str
    help: str
    at_least: float | None = None
    computed: Computed | None = None
    is_of_one_run: bool = False


def option(
    flag: str,
    default: _T,
    metavar: str = "",
    *,
    help: str,
    at_least: float | None = None,
    computed: Computed | None = None,
    is_of_one_run: bool = False,
) -> _T:
    """Return a field of a producer's options, a frozen dataclass; see `Option`.

    >>> @dataclass(frozen=True)
    ... class PollOptions:
    ...     every_seconds: float = option("--every", 1.0, "SECONDS", help="How often the source is asked.")
    >>> [one.flag for one in options_of(PollOptions).values()]
    ['--every']
    """
    return field(default=default, metadata={_KEY: Option(flag, metavar, help, at_least, computed, is_of_one_run)})


def switch(flag: str, *, help: str, is_of_one_run: bool = False) -> bool:
    """Return a field of a producer's options that is False unless the flag is given."""
    return option(flag, default=False, help=help, is_of_one_run=is_of_one_run)


def options_of(chosen: type) -> dict[str, Option]:
    """Return the options of a producer's dataclass by field name."""
    return {one.name: one.metadata[_KEY] for one in fields(chosen) if _KEY in one.metadata}


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer, named by an entry point of group `cdc_views.producers`.

    Attributes:
        run: Runs until `order.stop` is set; takes an instance of `options`. Raises `CheckFailedError` if an event went to
            quarantine and `order.exits_on_error`, `UsageError` if the tables, the options or the source's settings are
            invalid, and `EngineError` if the source or the target failed for good.
        options: A frozen dataclass with a field made by `option` for each option; raises `UsageError` for bad values.
        help: For `--help`: a line, an empty line, and details.
        raw_format: The format of its events; without `--table` it takes the tables of this format; None: all tables.
        publishes: Whether its events may be published elsewhere instead (`--to`).
        is_one_of_many: Whether several produce the same tables at the same time, as an agent beside each node does.
        serves: Whether it listens at its own address, with `/healthz` and `/metrics`. It then has no `--listen`, and no
            `--on-error`, since its answers report the result of each event.
    """

    run: Callable[[ProducerOrder, Any], None]
    options: type
    help: str
    raw_format: str | None = "debezium"
    publishes: bool = False
    is_one_of_many: bool = False
    serves: bool = False

    def is_of_one_run(self, given: Mapping[str, Any]) -> bool:
        """Return whether the given values, by field name, ask for something that no second run may repeat."""
        return any(given.get(name) for name, one in options_of(self.options).items() if one.is_of_one_run)

    def chosen(self, project: ProducerProject, given: Mapping[str, Any]) -> Any:
        """Return the options from the given values, by field name (None: the default). Raises `UsageError` for invalid values."""
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
