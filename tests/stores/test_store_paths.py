"""A place on a store answers as a `pathlib.Path` does, for all that code of tables asks."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from services.stores import Store

from cdc_views.errors import UnsupportedError
from cdc_views.storage.delta_tables import created, created_with
from cdc_views.storage.places import (
    Place,
    arrow_sink,
    arrow_source,
    at_once,
    copy_file,
    on_this_machine,
    place_of,
    remove_tree,
    update,
    write_new,
    write_whole,
)
from cdc_views.storage.range_reader import RangeReader
from cdc_views.storage.store_paths import StorePath, check_creates
from cdc_views.storage.stores import use_options


@pytest.fixture(params=["a folder", "s3", "azure", "gcs"])
def place(request: pytest.FixtureRequest, tmp_path: Path, servers: Callable[[str], Store]) -> Place:
    """An empty folder, on this machine and on each kind of store."""
    if request.param == "a folder":
        return tmp_path
    store = servers(request.param)
    url = f"{store.url()}/{tmp_path.name}"
    use_options(url, store.options())
    return place_of(url)


def filled(place: Place) -> Place:
    for name in ("a.json", "b.parquet", "sub/a.json", "sub/deep/c.bin", "part=1/x.parquet", "part=2/y.parquet"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(name.encode())
    return place


def names(places: object, within: Place) -> list[str]:
    return sorted(str(one.relative_to(within)) for one in places)  # type: ignore[attr-defined]


def test_names_and_folders(place: Place) -> None:
    file = place / "sub" / "a.tar.json"
    assert (file.name, file.stem, file.suffix, file.parent) == ("a.tar.json", "a.tar", ".json", place / "sub")
    assert file.with_name("b") == place / "sub/b"
    assert file.with_suffix(".sql") == place / "sub/a.tar.sql"
    assert file.relative_to(place).parts == ("sub", "a.tar.json")
    assert hash(file) == hash(place / "sub/a.tar.json")
    assert sorted([place / "b", place / "a"]) == [place / "a", place / "b"]
    assert pickle.loads(pickle.dumps(file)) == file


def test_what_is_there(place: Place) -> None:
    filled(place)
    assert names(place.iterdir(), place) == ["a.json", "b.parquet", "part=1", "part=2", "sub"]
    assert names(place.glob("*.json"), place) == ["a.json"]
    assert names(place.glob("part=*/*.parquet"), place) == ["part=1/x.parquet", "part=2/y.parquet"]
    assert names(place.glob("sub*/**/*.bin"), place) == ["sub/deep/c.bin"]
    assert names((one for one in place.rglob("*.json") if one.is_file()), place) == ["a.json", "sub/a.json"]
    assert [(place / name).exists() for name in ("a.json", "sub", "sub/deep", "none", "a.jso")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert [(place / name).is_file() for name in ("a.json", "sub", "none")] == [True, False, False]
    assert [(place / name).is_dir() for name in ("a.json", "sub", "none")] == [False, True, False]


def test_reading_and_writing(place: Place) -> None:
    file = filled(place) / "a.json"
    assert (file.read_bytes(), file.read_text("ascii"), file.stat().st_size) == (b"a.json", "a.json", 6)
    write_whole(file, "ä")
    assert (file.read_text(), file.stat().st_size) == ("ä", 2)
    (listed,) = (one for one in place.iterdir() if one.name == "a.json")
    assert listed.stat().st_ino == file.stat().st_ino
    copy_file(file, place / "copy")
    file.rename(place / "moved")
    assert (file.exists(), (place / "copy").read_text(), (place / "moved").read_text()) == (False, "ä", "ä")
    (place / "copy").unlink()
    (place / "copy").unlink(missing_ok=True)
    assert not (place / "copy").exists()
    remove_tree(place / "sub")
    assert not (place / "sub").exists()
    assert (place / "part=1").exists()


def test_what_others_delete_meanwhile_is_deleted(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = StorePath.of(f"{prefix}/folder")
    files = [folder / f"{number}" for number in range(40)]
    at_once(lambda file: file.write_bytes(b"1"), files)
    monkeypatch.setattr(StorePath, "_below", lambda self, chunk=1: iter([folder / "gone", *files]))
    folder.remove_tree()
    monkeypatch.undo()
    assert [*folder.rglob("*")] == []
    (folder / "gone").unlink()


def test_what_is_gone(place: Place) -> None:
    for looks in (Place.read_bytes, Place.stat, Place.read_text):
        with pytest.raises(FileNotFoundError):
            getattr(place / "none", looks.__name__)()


def test_of_writers_of_a_new_file_one_wins(place: Place) -> None:
    outcomes: list[bytes] = []

    def write(content: bytes) -> None:
        try:
            write_new(place / "entry", content)
            outcomes.append(content)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=write, args=(bytes([number]),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(place / "entry").read_bytes()] == outcomes
    with pytest.raises(FileExistsError):
        write_new(place / "entry", b"late")


def test_no_update_of_a_text_is_lost(prefix: str) -> None:
    place = place_of(f"{prefix}/noted")

    def note(number: int) -> None:
        update(place, lambda before: f"{before or ''}{number}\n")

    at_once(note, range(6))
    assert sorted(place.read_text().split()) == [*map(str, range(6))]


def test_a_text_is_updated(place: Place) -> None:
    for word in ("one", "two"):
        update(place / "noted", lambda before, word=word: f"{before or 'begun'} {word}")  # type: ignore[misc]
    assert (place / "noted").read_text() == "begun one two"


def test_arrow_reads_and_writes(place: Place) -> None:
    rows = pa.table({"n": list(range(100_000)), "text": [str(n) for n in range(100_000)]})
    with arrow_sink(place / "rows.parquet") as sink, pq.ParquetWriter(sink, rows.schema) as writer:
        writer.write_table(rows, row_group_size=10_000)
    assert pq.read_metadata(arrow_source(place / "rows.parquet")).num_rows == 100_000
    assert pq.read_table(arrow_source(place / "rows.parquet")).equals(rows)


def test_a_folder_is_worked_on_as_a_local_one(place: Place) -> None:
    filled(place / "kept")
    with on_this_machine(place / "kept") as folder:
        assert (folder / "sub/a.json").read_text() == "sub/a.json"
        (folder / "sub/a.json").write_text("changed")
        (folder / "new").mkdir()
        (folder / "new/file").write_text("new")
    assert [(place / "kept" / name).read_text() for name in ("a.json", "sub/a.json", "new/file")] == ["a.json", "changed", "new"]
    with on_this_machine(place / "alone.db") as file:
        file.write_bytes(b"database")
    assert (place / "alone.db").read_bytes() == b"database"


def test_a_range_reader_has_a_position_for_each_thread(prefix: str) -> None:
    place = StorePath.of(f"{prefix}/file")
    place.write_bytes(bytes(range(256)) * 100)
    reader, found = RangeReader(place), dict[int, bytes]()

    def read(number: int) -> None:
        for _ in range(5):
            reader.seek(number * 256)
            found[number] = reader.read(256)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found.values()) == {bytes(range(256))}
    assert len(found) == 8
    assert (reader.seek(-6, 2), len(reader.read()), reader.read(3)) == (25_594, 6, b"")


def test_a_store_that_replaces_is_refused(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = StorePath.of(prefix)
    check_creates(place)
    assert list(place.iterdir()) == []
    written = StorePath.write_bytes
    monkeypatch.setattr(StorePath, "write_bytes", lambda self, content, is_new=False: written(self, content))
    columns = pa.schema([("n", pa.int64())])
    for make in (check_creates, lambda at: created(str(at), columns), lambda at: created_with(str(at), columns, [])):
        with pytest.raises(UnsupportedError, match="overwrite"):
            make(place)
    assert list(place.iterdir()) == []
