"""`python tests/bench/paimon.py`: Paimon's partial update (pypaimon, an environment of its own) in turns with a state on DuckDB.

Paimon gets what it can hold: the values that are set. In pypaimon a change wins that arrives last, for it has no sequence for a
group of columns; it has no deletion of a cell and no expiry. So the answers differ, and the cells that do are counted:
after tails that are newer than the table, and after one that arrives late. Options: `--keys N`, `--tails N`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import venv
from pathlib import Path

import duckdb
from deltalake import DeltaTable
from generate import CELLS
from state_data import Reader, Source, open_engine, timed

from cdc_views.state import materialize

OUT = Path(__file__).parent / "out"
HOME = Path(__file__).resolve().parents[2]


class Peer:
    """A Paimon table in a process of its own."""

    def __init__(self, folder: Path) -> None:
        script = Path(__file__).with_name("paimon_table.py")
        command = [str(_python()), str(script), str(folder / "paimon")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def do(self, command: str, path: Path) -> float:
        """Run a command of `paimon_table.py`; its seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command} {path}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)


def _python() -> Path:
    home = OUT / "paimon-venv"
    python = home / "bin" / "python"
    if not python.exists():
        print("installing pypaimon into an environment of its own (once) ...", flush=True)
        venv.create(home, with_pip=True)
        pins = ["--no-deps", "--require-hashes", "-r", str(HOME / "requirements" / "paimon.txt")]
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins], check=True)
    return python


class Race:
    """The same facts into both, tail by tail."""

    def __init__(self, folder: Path, *, keys: int) -> None:
        self.source = Source(folder, keys=keys)
        self._engine = open_engine("duckdb", folder)
        self._reader = Reader(self._engine, self.source.raw, str(folder / "state"))
        self._peer, self._folder, self._known = Peer(folder), folder, set[str]()
        self.seconds: dict[str, list[float]] = {name: [] for name in ("state", "paimon", "read state", "read paimon")}

    def take(self) -> None:
        """Materialize what has landed, and let Paimon merge it."""
        fresh = [uri for uri in DeltaTable(self.source.raw.location).file_uris() if uri not in self._known]
        self._known.update(fresh)
        batch = self._folder / f"batch{len(self.seconds['state'])}.parquet"
        values = ", ".join(f"c{i}.value AS c{i}" for i in range(CELLS))
        files = ", ".join(f"'{file}'" for file in fresh)
        rows = f"SELECT account, item, {values} FROM read_parquet([{files}]) WHERE item IS NOT NULL ORDER BY _origin.position"
        duckdb.sql(f"COPY ({rows}) TO '{batch}' (FORMAT parquet)")
        self.seconds["state"].append(timed(lambda: materialize(self._engine, self.source.raw, self._reader.state))[0])
        self.seconds["paimon"].append(self._peer.do("write", batch))

    def compare(self) -> str:
        """Read both, in turns; what differs."""
        found = self._folder / f"rows{len(self.seconds['read state'])}.parquet"
        self.seconds["read state"].append(timed(self._reader.view)[0])
        self.seconds["read paimon"].append(self._peer.do("read", found))
        shown = f"({self._reader.text(self._reader._hybrid())})"
        columns = {f"c{i}": f"s.c{i}" for i in range(CELLS)} | {"c4": "epoch_ms(s.c4)", "c7": "s.c7::VARCHAR"}
        differs = ", ".join(f"count(*) FILTER ({mine} IS DISTINCT FROM p.{name})" for name, mine in columns.items())
        joined = f"{shown} AS s FULL JOIN '{found}' AS p ON s._view_account = p.account AND s._view_item = p.item"
        sql = f"SELECT count(*), count(*) FILTER (s._view_account IS NULL), {differs} FROM {joined}"
        rows, more, *cells = self._reader.engine.connection.execute(sql).fetchall()[0]  # type: ignore[attr-defined]
        return (
            f"of {rows:,} rows Paimon has {more:,} that are deleted or expired; {sum(cells):,} of {CELLS * rows:,} cells differ"
        )

    def close(self) -> None:
        """End Paimon's process."""
        self._peer.close()


def main() -> int:
    """Run and write a JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=300_000)
    parser.add_argument("--tails", type=int, default=5)
    options = parser.parse_args()
    folder = OUT / "paimon_run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    race = Race(folder, keys=options.keys)
    race.take()
    print(f"{options.keys:,} keys: " + ", ".join(f"{name} {each[0]:.2f} s" for name, each in race.seconds.items() if each))
    for _ in range(options.tails):
        race.source.land(race.source.facts // 100)
        race.take()
        newer = race.compare()
    means = {name: statistics.mean(each[-options.tails :]) for name, each in race.seconds.items()}
    print(f"mean of {options.tails} tails of 1 %: " + ", ".join(f"{name} {each:.2f} s" for name, each in means.items()))
    print(f"after newer tails: {newer}")
    race.source.land_again(race.source.facts // 100)
    race.take()
    late = race.compare()
    print(f"after one that arrives late: {late}")
    race.close()
    written = OUT / f"paimon_{options.keys}.json"
    written.write_text(json.dumps({**race.seconds, "newer": newer, "late": late}, indent=1))
    print(f"written: {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
