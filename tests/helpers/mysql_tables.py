"""Tables of MySQL's types, random work on them, and what the server itself then answers, in the form that `query` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from helpers import mariadb_tables
from helpers.mariadb_tables import TABLES, canonical, source_rows, statements

__all__ = ["TABLES", "MySqlWorkload", "canonical", "ddl", "project", "source_rows", "statements"]

_OLD = """
CREATE TABLE shop.t_types (
 id int PRIMARY KEY, big bigint, ubig bigint unsigned, small smallint, tiny tinyint, utiny tinyint unsigned, flag tinyint(1),
 med mediumint, umed mediumint unsigned, y year, uint int unsigned zerofill, n decimal(20,6), n0 decimal(10), nb decimal(65,30),
 r float, d double, b1 bit(1), b10 bit(10), b64 bit(64),
 t text, vc varchar(50) CHARACTER SET utf8mb4, uca varchar(20) COLLATE utf8mb4_unicode_ci,
 lat varchar(20) CHARACTER SET latin1, ch char(5), ucs varchar(9) CHARACTER SET ucs2, cyr varchar(9) CHARACTER SET cp1251,
 bin binary(5), vb varbinary(300), bl blob, dt date, tm time(6), t0 time, dtm datetime(6), d3 datetime(3), d0 datetime,
 ts timestamp(6) NULL, ts0 timestamp NULL, en enum('a','b','ü'), st set('x','y','z'),
 pt point, gm geometry, large longtext);
CREATE TABLE shop.t_keys (
 a varchar(10) COLLATE utf8mb4_general_ci NOT NULL, b int NOT NULL, v text, w varchar(20) DEFAULT 'w', PRIMARY KEY (b, a));
"""
_ADDED = """large longtext, js json, uca9 varchar(20) COLLATE utf8mb4_0900_ai_ci, vec vector(3), unseen int DEFAULT 5 INVISIBLE,
 `stored` int AS (tiny * 2) STORED, `virt` int AS (tiny * 3) VIRTUAL, UNIQUE KEY low ((lower(vc)), id));
"""


def ddl(release: str) -> str:
    """The tables' DDL for a release."""
    return _OLD if release == "5.6" else _OLD.replace("large longtext);\n", _ADDED)


class MySqlWorkload(mariadb_tables.Workload):
    """Random transactions on the tables."""

    def _makers(self) -> dict[str, Any]:
        found = super()._makers()
        for name in ("uu", "ip", "ip4", "cmp", "js"):
            del found[name]
        if self.server.release == "5.6":
            return found
        pick = self.random.choice
        documents = (
            "{}", "[]", "null", "true", '"x"', "1", "-7.50", "18446744073709551615", "9007199254740993", "1e100", "0.1",
            '{"a": 1.10, "bb": {"c": [1, "☃", null, false]}, "d e": "q\\"\\\\\\n\\u001f"}',
            json.dumps({f"k{n}": {"n": n, "text": "x" * n} for n in range(80)}), json.dumps(["y" * 70_000, 1]),
        )  # fmt: skip
        return found | {
            "js": lambda: pick(documents),
            "uca9": self._text,
            "vec": lambda: pick(("[1,2,3]", "[-0.5,1e10,0]")),
            "unseen": lambda: self.random.randrange(9),
        }

    @staticmethod
    def _mark(name: str) -> str:
        return f"STRING_TO_VECTOR(%({name})s)" if name == "vec" else mariadb_tables.Workload._mark(name)


def project(folder: Path, release: str) -> None:
    """Write a project of both tables."""
    mariadb_tables.project(folder, ddl(release))
