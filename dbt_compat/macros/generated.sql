{#- Dispatch to what `cdc-views dbt export` wrote for a table. Nothing in this package decides which cell wins. -#}

{% macro tables() -%}
  {#- What the export says of each table: its name here, and the columns of its raw layout. #}
  {{ return(adapter.dispatch("cdc_views_tables", "cdc_views")()) }}
{%- endmacro %}

{% macro default__cdc_views_tables() -%}
  {{ exceptions.raise_compiler_error(
    "cdc_views: this project has no generated macros; run `cdc-views dbt export --project cdc_views.yml --out DIR`, " ~
    "DIR being the folder of dbt_project.yml"
  ) }}
{%- endmacro %}

{% macro known_table(table) -%}
  {#- What the export says of one table. #}
  {%- set known = cdc_views.tables() -%}
  {%- if table not in known -%}
    {{ exceptions.raise_compiler_error(
      "cdc_views: there are no macros for table '" ~ table ~ "', only for " ~ known.keys() | join(", ") ~
      "; name it as cdc_views.yml does, and run `cdc-views dbt export` again if it is new there"
    ) }}
  {%- endif -%}
  {{ return(known[table]) }}
{%- endmacro %}

{% macro rendered(what, table, relation, argument=none) -%}
  {#-
    The SQL of `what` of a table in the adapter's dialect. By dispatch, for dbt to see which macros a generic test needs: it
    hides the others from it.
  #}
  {%- do cdc_views.known_table(table) -%}
  {{ return(adapter.dispatch("cdc_views_rendered", "cdc_views")(what, table, relation, argument)) }}
{%- endmacro %}

{% macro default__cdc_views_rendered(what, table, relation, argument) -%}
  {{ exceptions.raise_compiler_error("cdc_views: generated macros are missing; run `cdc-views dbt export` again") }}
{%- endmacro %}

{% macro layout(table, except=[]) -%}
  {#- The raw table's columns, quoted and parted by commas. #}
  {%- set columns = [] -%}
  {%- for name in cdc_views.known_table(table)["layout"] if name not in except -%}
    {%- do columns.append(cdc_views.quoted(name)) -%}
  {%- endfor -%}
  {{ return(columns | join(", ")) }}
{%- endmacro %}

{% macro quoted(name) -%}
  {#- A name as an identifier, whatever letters it holds: `adapter.quote` does not double the quotes inside. #}
  {%- set mark = adapter.quote("")[0] -%}
  {{ return(adapter.quote(name | replace(mark, mark ~ mark))) }}
{%- endmacro %}
