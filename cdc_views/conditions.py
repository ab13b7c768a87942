"""Which functions a user's `--where` may call: those that compute on the row's values and nothing else.

A condition comes from whoever runs a query, and engines have functions that read files, the environment or the
session (`read_text`, `getenv`, `current_setting`; Spark's `reflect` runs any Java method). What is not listed is refused.
"""

from __future__ import annotations

from itertools import accumulate

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from cdc_views.errors import UsageError

_NAMES = (
    "and or xor case if coalesce ifnull nvl nullif greatest least cast try_cast typeof lower lcase upper ucase length len "
    "char_length character_length octet_length bit_length strlen trim ltrim rtrim substring substr left right replace "
    "translate concat concat_ws starts_with startswith prefix ends_with endswith suffix contains strpos str_position instr "
    "position regexp_like regexp_matches regexp_full_match regexp_extract regexp_replace split str_split string_split "
    "split_part pad lpad rpad reverse ascii unicode ord chr initcap strip_accents hex unhex to_hex encode decode to_base64 "
    "from_base64 from_hex md5 sha sha1 sha2 sha256 hash abs ceil ceiling floor round sign sqrt cbrt exp ln log log2 log10 "
    "pow power mod trunc truncate isnan is_nan isinf is_inf isfinite bit_count bitwise_count extract date_part date_trunc "
    "datetrunc timestamp_trunc date_diff datediff date_add date_sub timestamp_add timestamp_sub timestamp_diff date "
    "date_str_to_date to_date ts_or_ds_to_date ts_or_ds_to_timestamp timestamp time year month day day_of_month dayofmonth "
    "day_of_week dayofweek day_of_week_iso isodow day_of_year dayofyear hour minute second quarter week weekofyear "
    "week_of_year last_day monthname dayname epoch epoch_ms epoch_us epoch_ns millisecond microsecond current_date "
    "current_timestamp now today age strftime strptime str_to_time str_to_date time_to_str to_timestamp unix_to_time "
    "time_to_unix make_date date_from_parts make_timestamp timestamp_from_parts make_time time_from_parts to_days "
    "to_seconds array list_value array_contains list_contains list_has list_has_any list_has_all array_has array_has_any "
    "array_has_all array_contains_all array_overlaps array_size array_length cardinality array_position list_position "
    "list_extract array_extract element_at list_distinct array_distinct list_sort array_sort sort_array list_sum list_min "
    "list_max list_filter list_transform filter transform array_filter array_transform map map_keys map_values "
    "map_contains_key map_extract map_from_arrays struct struct_pack struct_extract row json_extract json_extract_scalar "
    "json_extract_string json_extract_path json_array_length json_type json_keys json_contains json_valid json_exists "
    "parse_json "
)
ALLOWED = frozenset(_NAMES.split())
"""Names in lower case: as users write them, and as sqlglot calls those it knows by another name."""


def check_condition(text: str | None) -> None:
    """Raise `UsageError` for a condition that is empty, closes a bracket it did not open, or calls what is not `ALLOWED`.

    What is otherwise no single expression passes: reading it is `plan.where`'s, which says what is wrong.
    """
    if text is None:
        return
    if not text.strip():
        raise UsageError("--where is empty; give a condition, or leave it out for all rows")
    try:
        tokens = sqlglot.tokenize(text, read="duckdb")
        trees = sqlglot.parse(f"SELECT 1 WHERE ({text}\n)", read="duckdb")
    except SqlglotError:
        return
    except RecursionError as error:
        raise UsageError("--where is nested too deeply; give a shorter condition") from error
    if _least_depth([token.token_type for token in tokens]) < 0:
        raise UsageError(f"--where {text!r} closes a bracket that it did not open; give one expression")
    for tree in trees:
        if tree is not None:
            _check_tree(text, tree.args.get("where") or tree)


def _least_depth(tokens: list[TokenType]) -> int:
    steps = ((token is TokenType.L_PAREN) - (token is TokenType.R_PAREN) for token in tokens)
    return min(accumulate(steps), default=0)


def _check_tree(text: str, tree: exp.Expr) -> None:
    for call in tree.find_all(exp.Func):
        names = _names(call)
        if not names & ALLOWED:
            raise UsageError(
                f"--where {text!r} calls {min(names)}, which is not among the functions a condition may call: "
                "only those that compute on the row's values, as lower, date_trunc or list_contains"
            )
    if tree.find(exp.Star) is not None and tree.find(exp.Query) is None:
        raise UsageError(f"--where {text!r} holds a *; name the columns")


def _names(call: exp.Func) -> set[str]:
    if isinstance(call, exp.Anonymous):
        return {call.name.lower()}
    return {name.lower() for name in call.sql_names()}
