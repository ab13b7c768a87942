"""Delta's deletion vectors: the positions of the deleted rows of a data file, from 0, as a Roaring bitmap.

deltalake applies the vectors that it finds, but cannot write any. The format is Delta's (protocol, "Deletion Vectors"): a file
`deletion_vector_<uuid>.bin` of a version byte and, for each vector, its size, its bytes and their CRC-32.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from uuid import UUID, uuid4

from pyroaring import BitMap64

from cdc_views.errors import EngineError
from cdc_views.storage.places import Place, place_of, read_unchanging, write_unchanging

FILES = "deletion_vector_*.bin"
"""The names of files of vectors, also of those that other writers of Delta write."""
_MAGIC = struct.pack("<i", 1681511377)
_VERSION = b"\x01"
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {letter: digit for digit, letter in enumerate(_ALPHABET)}
_IN_TABLE, _INLINE, _ABSOLUTE = "u", "i", "p"
_UUID_LETTERS = 20
BITS_FOLDER = "_bits"
"""The folder of a table with its vectors as bits, for engines that read no vectors; Delta leaves folders alone that begin so."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The place of one vector, and the number of rows that it deletes (`cardinality`); see Delta's protocol for the fields."""

    storage_type: str
    path_or_inline: str
    offset: int | None
    size: int
    cardinality: int

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> DeletionVector:
        """Return the vector that an action of Delta's log names."""
        offset = action.get("offset")
        place = str(action["storageType"]), str(action["pathOrInlineDv"]), None if offset is None else int(offset)
        return cls(*place, int(action["sizeInBytes"]), int(action["cardinality"]))

    def action(self) -> dict[str, Any]:
        """Return the vector as Delta's log names it."""
        offset = {} if self.offset is None else {"offset": self.offset}
        place = {"storageType": self.storage_type, "pathOrInlineDv": self.path_or_inline, **offset}
        return {**place, "sizeInBytes": self.size, "cardinality": self.cardinality}

    def place(self, folder: Place) -> Place | None:
        """Return the vector's file, given the folder of its table; None if the log itself has the vector."""
        if self.storage_type == _ABSOLUTE:
            return place_of(self.path_or_inline)
        return None if self.storage_type == _INLINE else folder / self.file

    @property
    def file(self) -> str:
        """The vector's file within its table; empty if the log does not name it so."""
        if self.storage_type != _IN_TABLE:
            return ""
        prefix, name = self.path_or_inline[:-_UUID_LETTERS], self.path_or_inline[-_UUID_LETTERS:]
        return f"{prefix}{'/' if prefix else ''}deletion_vector_{UUID(bytes=_decoded(name))}.bin"


def is_vector_file(name: str) -> bool:
    """Whether a file's name is that of a file of deletion vectors: positions of rows, and no value of one."""
    return fnmatchcase(name, FILES)


def write(folder: Place, deleted: Mapping[str, BitMap64]) -> dict[str, DeletionVector]:
    """Write one vector for each data file into a new file of the table in `folder`, and return them by data file."""
    if not deleted:
        return {}
    name, content, written = uuid4(), bytearray(_VERSION), dict[str, DeletionVector]()
    for path, positions in deleted.items():
        positions.run_optimize()
        data = _MAGIC + positions.serialize()
        place = _IN_TABLE, encoded(name.bytes), len(content)
        written[path] = DeletionVector(*place, len(data), len(positions))
        content += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    write_unchanging(folder / f"deletion_vector_{name}.bin", bytes(content))
    return written


def read(folder: Place, vector: DeletionVector) -> BitMap64:
    """Return the positions that a vector of the table in `folder` deletes; raises `EngineError` if it is gone or damaged."""
    path = vector.place(folder)
    if path is None:
        return _positions(_decoded(vector.path_or_inline)[: vector.size], vector, "an inline deletion vector")
    try:
        found = read_unchanging(path, vector.offset or 0, vector.size + 8)
        (size,) = struct.unpack(">i", found[:4])
        data, check = found[4:-4], found[-4:]
    except (OSError, struct.error) as error:
        raise EngineError(f"{path} is gone or damaged; build the state anew with `materialize --full`") from error
    if size != vector.size or check != struct.pack(">I", zlib.crc32(data)):
        raise EngineError(f"{path} is damaged: its checksum differs; build the state anew with `materialize --full`")
    return _positions(data, vector, str(path))


def _positions(data: bytes, vector: DeletionVector, name: str) -> BitMap64:
    try:
        found = BitMap64.deserialize(data[len(_MAGIC) :])
    except ValueError as error:
        raise EngineError(f"{name} is damaged; build the state anew with `materialize --full`") from error
    if not data.startswith(_MAGIC) or len(found) != vector.cardinality:
        raise EngineError(f"{name} is damaged: it deletes {len(found)} rows, not {vector.cardinality}")
    return found


def encoded(data: bytes) -> str:
    """Encode in Z85, four bytes as five letters."""
    return "".join(letter for word in _words(data) for letter in _letters(word))


def _words(data: bytes) -> Iterator[int]:
    padded = data + bytes(-len(data) % 4)
    return (word for (word,) in struct.iter_unpack(">I", padded))


def _letters(word: int) -> Iterable[str]:
    return (_ALPHABET[word // 85**power % 85] for power in range(4, -1, -1))


def _decoded(text: str) -> bytes:
    """Decode Z85, five letters for four bytes."""
    groups = (text[index : index + 5] for index in range(0, len(text), 5))
    words = (sum(_DIGITS[letter] * 85 ** (4 - place) for place, letter in enumerate(group)) for group in groups)
    return b"".join(struct.pack(">I", word) for word in words)
