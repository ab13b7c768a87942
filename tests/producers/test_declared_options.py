"""A producer declares its options once: a package with an entry point gets its command, with no edit of the core."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from helpers.tiny_project import make_project

from cdc_views.cli import main
from cdc_views.cli import producing as cli_producing
from cdc_views.cli.app import app
from cdc_views.errors import UsageError
from cdc_views.landing.producers import Producer, option
from cdc_views.landing.targets import ProducerOrder, ProducerProject

RUNS: list[tuple[ProducerOrder, Any]] = []


@dataclass(frozen=True)
class ShipOptions:
    """Options of each kind there is."""

    dock: str = option("--dock", "A", "NAME", help="Where it is.")
    crates: int = option("--crates", 3, "N", at_least=1, help="How many.")
    labels: tuple[str, ...] = option("--label", (), "TEXT", help="May be repeated.")
    is_dry: bool = option("--dry", False, help="Do nothing.")
    crew: str = option("--crew", "nobody", "NAME", computed=lambda project, given: f"{project.name}-{given['dock']}", help="Who.")

    def __post_init__(self) -> None:
        if not self.dock:
            raise UsageError("--dock is empty; a name was expected")


SHIP = Producer(
    lambda order, options: RUNS.append((order, options)), ShipOptions, "Ships, as they come.", raw_format="cassandra-mutation"
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A distribution beside the installed ones, that has a producer; returns a project file."""
    module = ModuleType("ship_producer")
    module.SHIP = SHIP  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ship_producer", module)
    info = tmp_path / "ships-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ships\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{cli_producing.GROUP}]\nship = ship_producer:SHIP\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    RUNS.clear()
    yield make_project(tmp_path)
    typer.main.get_command(app).commands["produce"].commands.pop("ship", None)  # type: ignore[attr-defined]


def test_its_command_is_there_with_its_options(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["produce", "--help"]) == 0
    assert "Ships, as they come." in capsys.readouterr().out
    assert main(["produce", "ship", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(text in said for text in ("--dock NAME", "--crates N", "--label TEXT", "--dry", "--listen", "default: 3"))


def test_it_runs_with_what_was_chosen(installed: Path) -> None:
    more = ["--on-error", "exit", "--listen", "0.0.0.0:9464"]
    assert main(["produce", "ship", "--dock", "B", "--label", "x", "--label", "y", "--dry", *more]) == 0
    assert main(["produce", "ship"]) == 0
    (order, options), (usual, _) = RUNS
    assert (order.listen, usual.listen) == ("0.0.0.0:9464", "127.0.0.1:0")
    assert options == ShipOptions("B", 3, ("x", "y"), is_dry=True, crew=f"{order.project.name}-B")
    assert ([target.name for target in order.targets], order.exits_on_error) == (["shop.orders"], True)


@pytest.mark.parametrize("slip", [["--crates", "0"], ["--crates", "many"], ["--dock", ""], ["--quay", "B"]])
def test_a_slip_exits_2(installed: Path, slip: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["produce", "ship", *slip]) == 2
    assert slip[0] in capsys.readouterr().err
    assert RUNS == []


def test_what_is_not_given_is_computed_from_the_project() -> None:
    assert SHIP.chosen(ProducerProject("cdc_views_shop"), {"dock": "C"}) == ShipOptions("C", crew="cdc_views_shop-C")


@pytest.mark.parametrize("source", ["cassandra", "http", "kafka", "mariadb", "mysql", "postgres"])
def test_a_script_of_its_own_names_the_source(
    source: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cdc_views.cli import produce

    monkeypatch.setattr(sys, "argv", [f"/usr/bin/cdc-produce-{source}", "--help"])
    assert produce() == 0
    assert f"produce {source} [OPTIONS]" in capsys.readouterr().out
