{% test watermark(model, facts, lag_hours=0) %}
  {#- Fails where the newest of `facts` landed more than `lag_hours` after the newest that the state took in. -#}
  {%- set landed = adapter.quote("_landed_at") -%}
SELECT _raw.newest AS landed, _state.newest AS taken_in
FROM (SELECT MAX({{ landed }}) AS newest FROM {{ facts }}) AS _raw
CROSS JOIN (SELECT MAX({{ landed }}) AS newest FROM {{ model }}) AS _state
WHERE _raw.newest IS NOT NULL
  AND (_state.newest IS NULL OR _raw.newest > _state.newest + INTERVAL {{ lag_hours }} HOUR)
{% endtest %}

{% test replica_coverage(model, table, replication_factor, at_least=1.0) %}
  {#-
    Fails where a smaller share of the facts than `at_least` was seen on `replication_factor` nodes. A node that is behind,
    a lost log and read repair (whose mutation says less) all lower it; `cdc-views replicas` tells which.
  -#}
SELECT _facts, _lacking
FROM (
  SELECT COUNT(*) AS _facts, SUM(CASE WHEN {{ adapter.quote("_replicas") }} < {{ replication_factor }} THEN 1 ELSE 0 END) AS _lacking
  FROM ({{ cdc_views.dedupe_replicas(model, table) }}) AS _once
) AS _counted
WHERE _lacking > (1 - {{ at_least }}) * _facts
{% endtest %}
