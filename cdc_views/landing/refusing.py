"""Refusing a file that is of another format as a whole, before anything of it lands or goes to quarantine."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from cdc_views.errors import MalformedEventError, WrongFileError
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.offsets import locate
from cdc_views.landing.raw_table import exists, open_raw
from cdc_views.landing.sources import EventFile, Prefix

FEWEST = 20
"""Events that must fail, so that a few bad ones alone still go to quarantine."""
MOST = 1_000
"""Events that are looked at: a file whose good ones begin later is refused as well, `--force` lands them."""


def check_files(decoder: Decoder, files: Iterable[EventFile]) -> None:
    """Raise `WrongFileError` for a new file of whose first events none decodes; ends at the first that does."""
    table = open_raw(decoder.raw) if exists(decoder.raw) else None
    for file in files:
        if table is None or locate(table, file).landed.size == 0:
            _check(decoder, file)


def _check(decoder: Decoder, file: EventFile) -> None:
    count, first = 0, ""
    for line in islice(file.lines(Prefix()), MOST):
        try:
            decoder.facts(line.content, line=line.number, offset=line.start)
            return
        except MalformedEventError as error:
            count, first = count + 1, first or f"{file.name}:{line.number}: {error}"
    if count >= FEWEST:
        raise WrongFileError(
            f"{first}; none of the first {count:,} events can be read as {decoder.format.name}, so nothing was done; "
            "name the format and table that they are of, or land them with --force"
        )
