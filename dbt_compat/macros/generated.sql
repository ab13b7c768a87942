{#- Dispatch to what `cdc-views dbt export` wrote for a table. Nothing in this package decides which cell wins. -#}

{% macro known_table(table) -%}
  {#- What the export says of a table: its name here, and the columns of its raw layout. #}
  {%- set tables = context.get('cdc_views__tables') -%}
  {%- if not tables -%}
    {{ exceptions.raise_compiler_error(
      "cdc_views: this project has no generated macros; run `cdc-views dbt export --project cdc_views.yml --out " ~
      "DIR`, DIR being the folder of dbt_project.yml"
    ) }}
  {%- endif -%}
  {%- set known = tables() -%}
  {%- if table not in known -%}
    {{ exceptions.raise_compiler_error(
      "cdc_views: there are no macros for table '" ~ table ~ "', only for " ~ known.keys() | join(", ") ~
      "; name it as cdc_views.yml does, and run `cdc-views dbt export` again if it is new there"
    ) }}
  {%- endif -%}
  {{ return(known[table]) }}
{%- endmacro %}

{% macro generated(what, table) -%}
  {#- The macro that renders `what` of a table in the adapter's dialect. #}
  {%- set name = "cdc_views__" ~ what ~ "__" ~ cdc_views.known_table(table)["name"] -%}
  {%- set found = context.get(name) -%}
  {%- if not found -%}
    {{ exceptions.raise_compiler_error("cdc_views: macro " ~ name ~ " is missing; run `cdc-views dbt export` again") }}
  {%- endif -%}
  {{ return(found) }}
{%- endmacro %}

{% macro layout(table, except=[]) -%}
  {#- The raw table's columns, quoted and parted by commas. #}
  {%- set columns = [] -%}
  {%- for name in cdc_views.known_table(table)["layout"] if name not in except -%}
    {%- do columns.append(adapter.quote(name)) -%}
  {%- endfor -%}
  {{ return(columns | join(", ")) }}
{%- endmacro %}
