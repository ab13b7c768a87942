{#-
  Queries over a relation of facts: a raw table, a state, or any union of them (each fact may be there any number of times).
  `schema` is the table's name in cdc_views.yml, `as_of` the clock that decides what has expired: see `instant`.
-#}

{% macro latest_row(relation, schema, as_of=none) -%}
  {#- The table as production shows it. One row per row key, and per partition that has only live static columns. #}
  {{- cdc_views.rendered("latest_row", schema, relation, cdc_views.instant(as_of)) -}}
{%- endmacro %}

{% macro as_of(relation, schema, instant) -%}
  {#- `latest_row` at an instant. Facts written or landed later still count: only the clock moves. #}
  {{- cdc_views.latest_row(relation, schema, as_of=instant) -}}
{%- endmacro %}

{% macro live_rows(relation, schema, as_of=none) -%}
  {#- The keys of `latest_row`, without reading what else a row shows. Same grain. #}
  {{- cdc_views.rendered("live_rows", schema, relation, cdc_views.instant(as_of)) -}}
{%- endmacro %}

{% macro latest_cells(relation, schema, state=none) -%}
  {#-
    The facts that still matter, in the raw layout and with `_part`: the winner of each cell and the deletions.
    One row per row key, static row, partition deletion, range deletion and truncate. `_landed_at` of every row is when the
    newest of the facts landed. With `state`, an earlier result, only the parts of it that `relation` says something about.
  #}
  {{- cdc_views.rendered("latest_cells", schema, relation, state) -}}
{%- endmacro %}

{% macro dedupe_replicas(relation, schema) -%}
  {#- Each fact once: the raw layout without `_origin`, and `_replicas`, on how many nodes it was seen. Needs no order. #}
  {%- set columns = cdc_views.layout(schema, except=["_origin", "_landed_at"]) -%}
  {%- set landed = adapter.quote("_landed_at") -%}
SELECT
  {{ columns }},
  COUNT(DISTINCT {{ adapter.quote("_origin") }}.{{ adapter.quote("node") }}) AS {{ adapter.quote("_replicas") }},
  MIN({{ landed }}) AS {{ landed }}
FROM {{ relation }}
GROUP BY {{ columns }}
{%- endmacro %}

{% macro instant(as_of=none) -%}
  {#-
    The clock as SQL, seconds since the epoch: of a whole number or an ISO 8601 text (no zone: UTC; fractions cut). None is
    the variable `cdc_views_as_of`, and without it none: the engine's own clock.
  #}
  {%- set found = var("cdc_views_as_of", none) if as_of is none else as_of -%}
  {%- if found is none -%}
    {{ return(none) }}
  {%- endif -%}
  {%- if modules.re.match("-?[0-9]+$", found | string) -%}
    {{ return("CAST(" ~ found ~ " AS BIGINT)") }}
  {%- endif -%}
  {%- if not modules.re.match("[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?)?(Z|[+-][0-9]{2}:[0-9]{2})?$", found | string) -%}
    {{ exceptions.raise_compiler_error("cdc_views: instant '" ~ found ~ "' is neither epoch seconds nor ISO 8601, as in 2026-01-31T12:00:00Z") }}
  {%- endif -%}
  {%- set text = modules.re.sub("[.][0-9]+", "", found | string) | replace("Z", "+00:00") -%}
  {%- set moment = modules.datetime.datetime.fromisoformat(text) -%}
  {%- if moment.tzinfo is none -%}
    {%- set moment = modules.pytz.utc.localize(moment) -%}
  {%- endif -%}
  {{ return(cdc_views.instant(moment.timestamp() | int)) }}
{%- endmacro %}
