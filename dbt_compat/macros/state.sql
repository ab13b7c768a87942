{#- The model that keeps a table's state: incremental, and the same facts whatever was landed in which run. -#}

{% macro keeps_state(keep=true) -%}
  {#-
    Whether a state is kept: the adapter can, and the table's `dbt: {materialized: view}` does not say otherwise. Where none
    is, the model shows the raw facts, which have the same latest rows.
  #}
  {{ return(keep and target.type in ["duckdb", "spark", "databricks"]) }}
{%- endmacro %}

{% macro state_config(keep=true) -%}
  {#- The configuration of a state's model. A run replaces whole parts, so that running it twice changes nothing. #}
  {%- if not cdc_views.keeps_state(keep) -%}
    {{ return({"materialized": "view"}) }}
  {%- elif target.type == "duckdb" -%}
    {{ return({"materialized": "incremental", "incremental_strategy": "delete+insert", "unique_key": "_part"}) }}
  {%- endif -%}
  {{ return({
    "materialized": "incremental",
    "incremental_strategy": "insert_overwrite",
    "partition_by": ["_part"],
    "file_format": "delta",
  }) }}
{%- endmacro %}

{% macro state(relation, schema, keep=true) -%}
  {#-
    What a state's model selects: all facts reduced, or in an incremental run what landed since, with the parts it touches.

    What landed up to `cdc_views_overlap_hours` (1) before the watermark is read again: landings may commit in another order
    than their clocks say, and a fact that is read twice changes nothing.
  #}
  {%- if not cdc_views.keeps_state(keep) -%}
    SELECT {{ cdc_views.layout(schema) }} FROM {{ relation }}
  {%- elif is_incremental() -%}
    {%- do cdc_views.check_layout(this, schema) -%}
    {{- cdc_views.latest_cells(cdc_views.landed_since(relation, this), schema, state=this) -}}
  {%- else -%}
    {{- cdc_views.latest_cells(relation, schema) -}}
  {%- endif -%}
{%- endmacro %}

{% macro landed_since(relation, state) -%}
  {#- The facts that landed since the state's watermark, less the overlap; all of them where the state is empty. #}
  {%- set hours = var("cdc_views_overlap_hours", 1) | int -%}
  {%- set landed = adapter.quote("_landed_at") -%}
(
    SELECT _facts.* FROM {{ relation }} AS _facts
    CROSS JOIN (SELECT MAX({{ landed }}) - INTERVAL {{ hours }} HOUR AS _since FROM {{ state }}) AS _watermark
    WHERE _facts.{{ landed }} >= _watermark._since OR _watermark._since IS NULL
  )
{%- endmacro %}

{% macro check_layout(state, schema) -%}
  {#- A state that was built before the schema gained a column has no cells of it: it is built anew. #}
  {%- if execute -%}
    {%- set stored = adapter.get_columns_in_relation(state) | map(attribute="name") | map("lower") | list -%}
    {%- for name in cdc_views.known_table(schema)["layout"] if name | lower not in stored -%}
      {{ exceptions.raise_compiler_error(
        "cdc_views: " ~ state ~ " has no column '" ~ name ~ "' of " ~ schema ~ "; build it anew with --full-refresh"
      ) }}
    {%- endfor -%}
  {%- endif -%}
{%- endmacro %}
