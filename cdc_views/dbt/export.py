"""`cdc-views dbt export`: the files of a dbt project that come from a cdc-views project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_views.dbt.macros import MARK, registry, table_macros
from cdc_views.dbt.models import models_of
from cdc_views.dbt.naming import check_names_differ, dbt_name
from cdc_views.dbt.properties import exposures_yaml, models_yaml, sources_yaml
from cdc_views.errors import UsageError

if TYPE_CHECKING:
    from cdc_views.table import Table

FOLDERS = ("models/cdc_views", "macros/cdc_views")
"""The folders of the dbt project that are ours; other files in them stay."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export did: the files that are there now, and those of earlier exports that are gone."""

    written: tuple[Path, ...]
    removed: tuple[Path, ...]


def export(project: str, tables: Sequence[Table], out: Path) -> Exported:
    """Write the dbt part of the project called `project` into the dbt project `out`.

    Everything is rendered before the first file is written. A file without our mark is somebody's own.

    Raises:
        UsageError: A file cannot be written, or is somebody's own.
    """
    texts = files_of(project, tables)
    for name in texts:
        _check_ours(out / name)
    stale = [path for path in _ours(out) if path.relative_to(out).as_posix() not in texts]
    try:
        for name, text in texts.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text(text, encoding="utf-8")
        for path in stale:
            path.unlink()
    except OSError as error:
        raise UsageError(f"--out {out}: {error.filename} cannot be written ({error.strerror}); name a folder") from error
    return Exported(tuple(out / name for name in texts), tuple(stale))


def files_of(name: str, tables: Sequence[Table]) -> dict[str, str]:
    """Return the text of every file by its path inside the dbt project, the same on every run."""
    check_names_differ(table.name for table in tables)
    models, macros = FOLDERS
    texts = {
        f"{macros}/cdc_views__tables.sql": registry(table.relation for table in tables),
        f"{models}/_cdc_views__sources.yml": sources_yaml(tables),
        f"{models}/_cdc_views__models.yml": models_yaml(tables),
        f"{models}/_cdc_views__exposures.yml": exposures_yaml(name, tables),
    }
    for table in tables:
        macro_text = table_macros(table.relation, strategy=table.config.view.strategy.value)
        texts[f"{macros}/{dbt_name(table.name)}.sql"] = macro_text
        for model, text in models_of(table.name, macros=macro_text).items():
            texts[f"{models}/{model}.sql"] = text
    return texts


def _ours(out: Path) -> list[Path]:
    """The files that an earlier export wrote."""
    found = [path for folder in FOLDERS for path in sorted((out / folder).glob("*")) if path.suffix in (".sql", ".yml")]
    return [path for path in found if _is_marked(path)]


def _check_ours(path: Path) -> None:
    if path.exists() and not _is_marked(path):
        raise UsageError(f"{path} was not written by `cdc-views dbt export`, which would replace it; move it elsewhere")


def _is_marked(path: Path) -> bool:
    try:
        first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    except (OSError, UnicodeDecodeError):
        return False
    return MARK in first
