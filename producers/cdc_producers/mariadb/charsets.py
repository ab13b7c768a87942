"""MariaDB's character sets as Python's codecs."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any

from cdc_producers.mariadb.connections import rows
from cdc_views.errors import UnsupportedError

BINARY = "binary"
_NULL_DEVICE = "cdc_views_latin1"
_CODECS = {
    "ascii": "ascii", "big5": "big5", "cp1250": "cp1250", "cp1251": "cp1251", "cp1256": "cp1256", "cp1257": "cp1257",
    "cp850": "cp850", "cp852": "cp852", "cp866": "cp866", "cp932": "cp932", "eucjpms": "euc_jp", "euckr": "euc_kr",
    "gb2312": "gb2312", "gbk": "gbk", "greek": "iso8859_7", "hebrew": "iso8859_8", "koi8r": "koi8_r", "koi8u": "koi8_u",
    "latin1": "cp1252", "latin2": "iso8859_2", "latin5": "iso8859_9", "latin7": "iso8859_13", "macce": "mac_latin2",
    "macroman": "mac_roman", "sjis": "shift_jis", "tis620": "tis_620", "ucs2": "utf_16_be", "ujis": "euc_jp",
    "utf16": "utf_16_be", "utf16le": "utf_16_le", "utf32": "utf_32_be", "utf8": "utf_8", "utf8mb3": "utf_8", "utf8mb4": "utf_8",
}  # fmt: skip
"""Those Python has; `latin1` is Windows's 1252, as MariaDB's manual says."""


def _as_it_stands(error: UnicodeError) -> tuple[str, int]:
    """The five bytes that 1252 leaves open are the characters of the same number in MariaDB."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return chr(error.object[error.start]), error.start + 1


codecs.register_error(_NULL_DEVICE, _as_it_stands)


def text_of(content: bytes, charset: str) -> str:
    """Return the text of a column's bytes.

    Bytes that are none come as lone surrogates, which no raw table takes: the event waits in quarantine.
    """
    if charset == "latin1":
        return content.decode("cp1252", _NULL_DEVICE)
    try:
        return content.decode(_CODECS[charset])
    except UnicodeDecodeError:
        return content.decode("utf_8" if charset.startswith("utf8") else "ascii", "surrogateescape")


def check_charset(charset: str, *, where: str) -> None:
    """Raise `UnsupportedError` for a character set that Python does not have."""
    if charset != BINARY and charset not in _CODECS:
        raise UnsupportedError(
            f"{where}: character set {charset} is not supported", remedy="ALTER TABLE … MODIFY … CHARACTER SET utf8mb4"
        )


def read_collations(connection: Any) -> Mapping[int, str]:
    """Return the character set of each collation's number."""
    ask = "SELECT id, character_set_name FROM information_schema.{} WHERE id IS NOT NULL AND character_set_name IS NOT NULL"
    columns = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'information_schema' AND "
    columns += "table_name = 'COLLATION_CHARACTER_SET_APPLICABILITY' AND column_name = 'ID'"
    # from 10.10 on, the newer collations are listed there only
    ((has_ids,),) = rows(connection, columns, doing="asking for its collations")
    table = "collation_character_set_applicability" if int(has_ids) else "collations"
    found = rows(connection, ask.format(table), doing="asking for its collations")
    return {int(number): str(charset) for number, charset in found}
