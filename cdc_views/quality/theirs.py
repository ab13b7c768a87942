"""The suite that is the user's: `TABLE.custom`. It is made once, run by each `validate`, and never rewritten.

Suites are read as the JSON that Great Expectations stores, without it: an expectation of a class that is not imported here
would be dropped by a load and a save.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cdc_views.errors import ConfigError
from cdc_views.model.whole_files import write_whole

_BEFORE = "expect_nothing_broken"
"""The type of each expectation that earlier versions wrote."""


def custom_name(table: str) -> str:
    """Return what the user's suite of a table is called."""
    return f"{table}.custom"


def suite_file(folder: Path, name: str) -> Path:
    """Return where Great Expectations keeps a suite: it makes folders of the dots."""
    *folders, last = name.split(".")
    return folder.joinpath("gx", "expectations", *folders, f"{last}.json")


def stored_expectations(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the expectations of a stored suite, as they are written; none where there is no suite.

    Raises `ConfigError` for a file that is no suite.
    """
    file = suite_file(folder, name)
    try:
        found: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))["expectations"]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file}: is no suite of Great Expectations ({error!r}); mend it, or move it away") from error
    return found


def added_to_ours(folder: Path, name: str, *, owner: str) -> list[dict[str, Any]]:
    """Return what somebody else added to a suite of ours, which is about to be written anew."""
    found = stored_expectations(folder, name)
    return [e for e in found if e.get("type") != _BEFORE and owner not in (e.get("meta") or {})]


def move_to_custom(folder: Path, name: str, added: list[dict[str, Any]]) -> None:
    """Append expectations to the user's stored suite, whatever their class."""
    file = suite_file(folder, name)
    suite = json.loads(file.read_text("utf-8"))
    known = {expectation.get("id") for expectation in suite["expectations"]}
    suite["expectations"] += [expectation for expectation in added if expectation.get("id") not in known]
    write_whole(file, json.dumps(suite, indent=2, ensure_ascii=False) + "\n")
