{% test one_row_per_key(model, key) %}
  {#- Fails with the keys that several rows have. `key`: the row key's columns. -#}
  {%- set columns = [] -%}
  {%- for name in key -%}{%- do columns.append(cdc_views.quoted(name)) -%}{%- endfor -%}
SELECT {{ columns | join(", ") }}, COUNT(*) AS found
FROM {{ model }}
GROUP BY {{ columns | join(", ") }}
HAVING COUNT(*) > 1
{% endtest %}

{% test no_expired_visible(model, facts, table, columns) %}
  {#-
    Fails with the rows of the model that `facts` do not show as of now: a table that was built before something expired
    still shows it. `columns`: those to compare, without maps, which not every engine can compare.
  -#}
  {{- cdc_views.rows_without(model, "(" ~ cdc_views.latest_row(facts, table) ~ ")", columns) -}}
{% endtest %}

{% test shows_the_same(model, facts, table, columns) %}
  {#-
    Fails with the latest rows that only the model or only `facts` show, both read as facts of the table at one clock: finds
    a state that missed something. `columns` as in `no_expired_visible`.
  -#}
  {%- set ours = "(" ~ cdc_views.latest_row(model, table) ~ ")" -%}
  {%- set theirs = "(" ~ cdc_views.latest_row(facts, table) ~ ")" -%}
SELECT * FROM ({{ cdc_views.rows_without(ours, theirs, columns) }}) AS _only_here
UNION ALL
SELECT * FROM ({{ cdc_views.rows_without(theirs, ours, columns) }}) AS _only_there
{% endtest %}

{% macro rows_without(left, right, columns) -%}
  {#- The rows of `left`, by these columns, that `right` does not have. -#}
  {%- set quoted = [] -%}
  {%- for name in columns -%}{%- do quoted.append(cdc_views.quoted(name)) -%}{%- endfor -%}
SELECT {{ quoted | join(", ") }} FROM {{ left }} AS _left
EXCEPT{{ " DISTINCT" if target.type == "bigquery" }}
SELECT {{ quoted | join(", ") }} FROM {{ right }} AS _right
{%- endmacro %}
