"""Words that some engine reads as more than a name."""

from __future__ import annotations

_WORDS = """
all alter analyse analyze and anti any array as asc asof assert_rows_modified asymmetric at authorization between bigint
binary bit boolean both by case cast char character check coalesce collate collation column columns concurrently constraint
contains create cross cube current current_catalog current_date current_path current_role current_schema current_time
current_timestamp current_user deallocate dec decimal default deferrable define delete desc describe distinct div do drop
else end enum escape except exclude execute exists extract false fetch filter final float following for foreign format
freeze from full generated glob global grant group grouping grouping_id groups hash having if ignore ilike in inf infinity
initially inner inout insert int integer intersect interval into is isnull join json_array json_exists json_object
json_query json_table json_value lambda lateral leading left like limit listagg localtime localtimestamp lookup map merge
minus mod nan national natural nchar new no none normalize not notnull null nullif nulls numeric of offset on only or order
out outer over overlaps overlay partition paste pivot pivot_longer pivot_wider placing position positional preceding
precision prepare prewhere primary proto qualify range real recursive references respect returning right rollup row rows
sample select semi session_user set setof settings show similar skip smallint some sql struct substring summarize symmetric
system_user table tablesample then time timestamp to trailing treat trim true try_cast tuple uescape unbounded union unique
unknown unnest unpack unpivot user using values varchar variadic verbose when where window with within xmlattributes
xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
"""
KEYWORDS = frozenset(_WORDS.split())
"""In lower case. Sources: duckdb_keywords() and pg_get_keywords() without unreserved words; the reserved words of Spark (ANSI),
GoogleSQL and Trino; ClickHouse's words that begin a clause, and its names of numbers. Engines are asked about each word by
tests/properties/test_dialects.py.
"""
