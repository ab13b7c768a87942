"""Spark's own parser decides what a statement reads: each of these is judged by it alone, without sqlglot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cdc_views.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

VIEWS = frozenset({"v", "w"})
TAKEN = (
    "SELECT c.s AS name, count(*) AS n, sum(o.id) FILTER (WHERE o.id > 1) FROM v o JOIN w c ON o.id = c.id GROUP BY 1",
    "WITH a AS (SELECT id FROM V WHERE id = 1), b AS (FROM a) SELECT * EXCEPT (id) FROM b NATURAL JOIN w",
    "WITH RECURSIVE t(m) AS (SELECT 1 UNION ALL SELECT m + 1 FROM t WHERE m < 3) SELECT * FROM t",
    "SELECT *, x FROM v LATERAL VIEW explode(array(1)) t AS x",
    "SELECT * FROM range(3) r JOIN VALUES (1), (2) t(x) USING (x), explode(array(1))",
    "SELECT id, row_number() OVER w1 FROM v WINDOW w1 AS (PARTITION BY id ORDER BY id)",
    "SELECT * FROM v WHERE id IN (SELECT id FROM w) AND EXISTS (SELECT 1 FROM w WHERE w.id <=> v.id)",
    "SELECT /*+ BROADCAST(v) */ id, grouping_id() FROM v GROUP BY GROUPING SETS ((id), ()) HAVING count(*) > 1 LIMIT 3 OFFSET 1",
    "SELECT * FROM (SELECT id, s FROM v) PIVOT (count(id) FOR s IN ('open', 'paid'))",
    "SELECT * FROM v UNPIVOT (a FOR b IN (id, line)) UNION ALL SELECT 1, 2 EXCEPT SELECT 3, 4 INTERSECT SELECT 5, 6",
    "SELECT transform(array(1), x -> x + 1), CASE WHEN s LIKE 'a%' THEN id::string END, INTERVAL 1 DAY, a.b[0].c FROM v a",
    "SELECT extract(year FROM now()), trim(BOTH 'a' FROM s), percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM v",
    "SELECT DISTINCT s COLLATE UNICODE_CI FROM v TABLESAMPLE (10 PERCENT), LATERAL (SELECT * FROM w WHERE w.id = v.id)",
    "FROM v |> WHERE id > 1 |> SELECT id",
)
REFUSED = {
    "SELECT * FROM other": "reads other",
    "SELECT * FROM default.v": "reads default.v",
    "SELECT (SELECT max(x) FROM parquet.`/x`)": "reads parquet./x",
    "SELECT * FROM x, (WITH x AS (SELECT 1) SELECT * FROM x)": "reads x",
    "WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a": "reads b",
    "SELECT * FROM v WITH (path = '/x')": "reads v",
    "SELECT * FROM v VERSION AS OF 1": "RelationTimeTravel",
    "SELECT * FROM STREAM v": "NamedStreamingRelation",
    "SELECT TRANSFORM(id) USING 'cat' FROM v": "ScriptTransformation",
    "SELECT IDENTIFIER('reflect')('a', 'b')": "ExpressionWithUnresolvedIdentifier",
    "SELECT transform(array(1), x -> reflect('a', 'b'))": "calls reflect",
    "SELECT system.builtin.java_method('a', 'b')": "calls system.builtin.java_method",
    "SELECT try_reflect('a', 'b') OVER () FROM v": "calls try_reflect",
    "SELECT from_xml('a', 'b', map('rowValidationXSDPath', '/x'))": "calls from_xml",
    "SELECT input_file_name() FROM v": "calls input_file_name",
    "SELECT made_here(1)": "calls made_here",
    "SELECT x FROM v LATERAL VIEW made_there(id) t AS x": "calls made_there",
    "SELECT * FROM read_files('/x')": "reads from read_files",
    "SELECT * FROM table_changes('v', 0)": "reads from table_changes",
}


@pytest.mark.spark
def test_a_query_of_the_views_is_taken_and_anything_else_is_refused(spark_engine: SparkEngine) -> None:
    from cdc_views_spark.statement_check import check

    session = spark_engine.session
    session.udf.register("made_here", lambda x: x)
    try:
        for text in TAKEN:
            check(session, text, views=VIEWS)
        for text, told in REFUSED.items():
            with pytest.raises(UsageError) as found:
                check(session, text, views=VIEWS)
            assert told in str(found.value), text
    finally:
        session.sql("DROP TEMPORARY FUNCTION made_here")


def test_a_session_elsewhere_is_refused() -> None:
    pytest.importorskip("pyspark")
    from cdc_views_spark.statement_check import check

    with pytest.raises(UnsupportedError, match="Spark Connect"):
        check(object(), "SELECT 1", views=VIEWS)  # type: ignore[arg-type]
