"""`produce SOURCE`: a long-running process that lands a source's changes, until a signal stops it. The sources are the entry
points of group `cdc_views.producers`; each declares its options (`cdc_views.landing.producers`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from enum import Enum
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from cdc_views.cli.groups import CommandGroups, helped
from cdc_views.cli.log import log
from cdc_views.cli.progress import shown_snapshots
from cdc_views.cli.run_history import RunClock, failed
from cdc_views.cli.shared import DEFAULT_PROJECT, LogFormatOption, ProjectOption, Request, declared, keyword
from cdc_views.errors import CdcViewsError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from cdc_views.landing.producers import Producer
    from cdc_views.landing.targets import Destination, ProducerOrder

_NOWHERE = "none"
_NOT_YET = ("mysql",)
"""Promised sources that have no producer yet."""


class OnError(str, Enum):
    """The reaction to a bad event, after it went to quarantine."""

    LOG = "log"
    EXIT = "exit"


class ProducerGroup(CommandGroups):
    """The commands of the installed producers, which load on use."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the sources."""
        from cdc_views.cli.producing import producer_names

        return sorted({*producer_names(), *_NOT_YET})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a source; None if it is unknown."""
        if cmd_name not in self.commands and cmd_name in self.list_commands(ctx):
            self.commands[cmd_name] = _command_of(cmd_name)
        return self.commands.get(cmd_name)


produce = typer.Typer(cls=ProducerGroup, help="Land what a source writes, until a signal.", no_args_is_help=True)


@produce.callback()
def _sources() -> None:
    pass


def _command_of(source: str) -> Any:
    from cdc_views.cli.producing import find_producer

    made = typer.Typer(add_completion=False, rich_markup_mode=None)
    producer = find_producer(source)
    if producer is None:

        def refuse(context: typer.Context) -> None:
            raise UnsupportedError(f"`produce {source}` is not there yet", remedy="`land` appends event files, or standard input")

        settings = {"ignore_unknown_options": True, "allow_extra_args": True}
        helped(made, f"produce {source}", help="Not there yet.", context_settings=settings)(refuse)
    else:
        run = declared(lambda **given: _run(producer, given), list(_parameters(producer)))
        helped(made, f"produce {source}", help=producer.help)(run)
    return typer.main.get_command(made)


def _parameters(producer: Producer) -> Iterator[inspect.Parameter]:
    yield keyword("project_", ProjectOption, DEFAULT_PROJECT)
    which = "Only this table; may be repeated. Default: all tables of the source's raw format."
    yield _option("--table", list[str] | None, None, "TABLE", which)
    yield from _own_parameters(producer)
    if producer.publishes:
        yield _option("--to", str, "", "kafka://HOST:PORT", "Publish rows there, by key, instead of landing in raw tables.")
        yield _option("--topic-prefix", str, "", "NAME", "With --to: topics are NAME.TABLE.")
        yield _option("--output-format", str, "json", "json|avro", "With --to: their format.")
    if not producer.serves:
        connect = "How long to wait for the source's first answer; an outage later is waited out. 0: no limit."
        yield _option("--connect-timeout", float, 60.0, "SECONDS", connect, least=0)
        yield _option("--on-error", OnError, OnError.LOG, "log|exit", "What to do after a bad event went to quarantine.")
        where = "Where to serve /healthz and /metrics; port 0: any free one, logged at start; none: nowhere."
        yield _option("--listen", str, "127.0.0.1:0", "HOST:PORT", where)
    yield keyword("log_format_", LogFormatOption, "text")


def _option(flag: str, kind: Any, default: Any, metavar: str, help: str, *, least: float | None = None) -> inspect.Parameter:
    """Return an option of all producers; its name ends with `_`, so that it differs from every option of a producer."""
    name = flag.removeprefix("--").replace("-", "_") + "_"
    return keyword(name, Annotated[kind, typer.Option(flag, metavar=metavar, help=help, min=least)], default)


def _own_parameters(producer: Producer) -> Iterator[inspect.Parameter]:
    from cdc_views.landing.producers import choices_of, options_of

    hints = get_type_hints(producer.options)
    defaults = {one.name: one.default for one in fields(producer.options)}
    for name, one in options_of(producer.options).items():
        kind, default, choices = hints[name], defaults[name], choices_of(hints[name])
        if choices:
            kind, default = str, default.value
        elif kind == tuple[str, ...]:
            kind, default = list[str], None
        elif one.computed is not None:
            default = None
        how = typer.Option(one.flag, metavar="|".join(choices) or one.metavar or None, help=one.help, min=one.at_least)
        yield keyword(name, Annotated[kind if default is not None else kind | None, how], default)


def _run(producer: Producer, given: Mapping[str, Any]) -> None:
    from cdc_views.cli.added_tables import FollowedTables
    from cdc_views.cli.producing import chosen_names, with_destination
    from cdc_views.operations.scheduling import run_until_stopped

    log.is_timed, clock = True, RunClock("produce")
    project, named = given["project_"], given["table_"] or ()
    order = _order(producer, given, named)
    options = producer.chosen(order.project, given)
    announced = "stopping: what was read lands first; a second signal ends at once, and loses nothing either"
    with shown_snapshots() as progress:
        tables = FollowedTables(
            project,
            order_of=lambda names: with_destination(_order(producer, given, names)),
            names=lambda: named or chosen_names(project, format_name=producer.raw_format),
            produce=lambda order: producer.run(replace(order, progress=progress), options),
            log=log,
            takes=not producer.serves and not producer.is_of_one_run(given),
        )
        order = with_destination(order)
        try:
            run_until_stopped(lambda stop: tables.run(order, stop), on_stop=lambda: log.info(announced))
        except CdcViewsError as error:
            if not order.to:
                clock.keep(Request(project).project, {target.name: failed(error) for target in order.targets})
            raise
    if not order.to:
        clock.keep(Request(project).project, {target.name: {} for target in order.targets})
    log.info("stopped")


def _order(producer: Producer, given: Mapping[str, Any], names: Sequence[str]) -> ProducerOrder:
    from cdc_views.cli.producing import facts_of, targets_of
    from cdc_views.landing.targets import ProducerOrder

    project, listen = given["project_"], given.get("listen_", _NOWHERE)
    return ProducerOrder(
        targets=targets_of(project, names, format_name=producer.raw_format, log=log),
        log=log,
        stop=Event(),
        exits_on_error=given.get("on_error_") is OnError.EXIT,
        listen=None if listen == _NOWHERE else listen,
        connect_seconds=given.get("connect_timeout_", 0.0),
        project=facts_of(project),
        to=_destination(given, by_stream=producer.is_one_of_many) if producer.publishes else None,
    )


def _destination(given: Mapping[str, Any], *, by_stream: bool) -> Destination | None:
    from cdc_views.landing.targets import Destination

    if given["to_"]:
        return Destination(given["to_"], given["topic_prefix_"], given["output_format_"], by_stream)
    if given["topic_prefix_"] or given["output_format_"] != "json":
        raise UsageError("--topic-prefix and --output-format go with --to, which says where topics are")
    return None
