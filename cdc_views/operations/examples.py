"""`demo`: example files that the package brings, written into a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cdc_views.errors import ConfigError, UsageError, choose_one

EXAMPLES: Mapping[str, str] = {
    "postgres": "a shop's events as Debezium posted them from a PostgreSQL",
    "cassandra": "a shop's mutations as three Cassandra nodes logged them, and what Cassandra answered",
}


@dataclass(frozen=True, slots=True)
class ExampleFile:
    """A file that was written, its size in bytes, and its number of lines."""

    file: Path
    bytes: int
    lines: int


def write_example(name: str, folder: Path) -> list[ExampleFile]:
    """Write an example's files into `folder`. Raises `UsageError` for an unknown example, `ConfigError` if one is there."""
    if name not in EXAMPLES:
        raise UsageError(f"there is no example {name!r}; {choose_one(name, EXAMPLES)}")
    from cdc_views.sql.statements import template_folder

    sources = sorted((Path(template_folder()) / "examples" / name).iterdir())
    for there in (folder / source.name for source in sources):
        if there.exists():
            raise ConfigError(f"{there}: is there already and is not overwritten; name another folder with --dir")
    found = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources:
            content = source.read_bytes()
            (folder / source.name).write_bytes(content)
            found.append(ExampleFile(folder / source.name, len(content), content.count(b"\n")))
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror}); name another folder with --dir") from error
    return found
