"""The check of all conditions that users write: `--where`, data tests, and the rules of contracts.

A condition may come from somebody else, and engines can read files, the environment or settings (`SUMMARIZE 'file'`, `getenv`;
Spark's `reflect` runs any Java method). So syntax, functions and types that are not listed here are refused in every dialect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import accumulate

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from cdc_views.errors import UsageError

_NAMES = (
    "collate and or xor case if coalesce ifnull nvl nullif greatest least cast try_cast typeof lower lcase upper ucase length "
    "len char_length character_length octet_length bit_length strlen trim ltrim rtrim substring substr left right replace "
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
    "map_contains_key map_extract map_from_arrays to_map struct struct_pack struct_extract row json_extract json_extract_scalar "
    "json_extract_string json_extract_path json_array_length json_type json_keys json_contains json_valid json_exists "
    "parse_json "
)
ALLOWED = frozenset(_NAMES.split())
"""Functions in lower case: the names that users write, and sqlglot's own names for some of them."""

_CLASSES = (
    "Paren Tuple Column Identifier Dot Literal Boolean Null Var Not Neg EQ NEQ GT GTE LT LTE NullSafeEQ NullSafeNEQ Is "
    "In Between Like ILike SimilarTo Glob Escape Any All Add Sub Mul Div IntDiv Mod DPipe BitwiseAnd BitwiseOr "
    "BitwiseXor BitwiseNot BitwiseLeftShift BitwiseRightShift AtTimeZone Interval DataType DataTypeParam "
    "ColumnDef Bracket Slice Lambda PropertyEQ JSONPath JSONPathRoot JSONPathKey JSONPathSubscript"
)
_SYNTAX = frozenset(_CLASSES.split())  # classes of a syntax tree other than functions

_TYPE_NAMES = (
    "BOOLEAN TINYINT SMALLINT INT BIGINT INT128 UTINYINT USMALLINT UINT UBIGINT UINT128 FLOAT DOUBLE DECIMAL BIT TEXT "
    "CHAR VARCHAR BINARY VARBINARY BLOB DATE TIME TIMETZ TIMESTAMP TIMESTAMPTZ TIMESTAMPNTZ TIMESTAMP_S TIMESTAMP_MS "
    "TIMESTAMP_NS DATETIME INTERVAL UUID JSON ARRAY LIST STRUCT MAP"
)
_TYPES = frozenset(_TYPE_NAMES.split())  # types of casts; an engine would look up any other name in its catalogue

MOST_LETTERS = 10_000
"""The longest text (`lpad`) and the longest list type that a condition may ask for."""
_NUMBER = re.compile(r"[0-9.]+(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPENING = "SELECT 1 WHERE ("


@dataclass(frozen=True, slots=True)
class Condition:
    """One boolean expression in DuckDB's dialect that only computes on the values of a row; the constructor checks it.

    `text` is the user's text, `called` its name in messages, `tree` its syntax tree without comments, with the user's names.

    Raises:
        UsageError: It is empty, is not one expression, or holds syntax, a function or a type that is not listed here.

    >>> Condition("lower(state) = 'open' and amount > 10").sql()
    "LOWER(state) = 'open' AND amount > 10"
    >>> Condition("getenv('HOME') = ''")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    cdc_views.errors.UsageError: --where "getenv('HOME') = ''" calls getenv, which is not among the functions ...
    """

    text: str
    called: str = "--where"
    tree: exp.Expr = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", self._checked())

    def sql(self) -> str:
        """Return the condition in DuckDB's dialect, on one line without comments."""
        return str(self.tree.unnest().sql(dialect="duckdb", comments=False))

    def _error(self, why: str, *, quotes: bool = True) -> UsageError:
        return UsageError(f"{self.called} {self.text!r} {why}" if quotes else f"{self.called} {why}")

    def _checked(self) -> exp.Expr:
        if not self.text.strip():
            raise self._error("is empty; give a condition, or leave it out for all rows", quotes=False)
        tree = self._parsed()
        nodes = list(tree.walk())
        for node in nodes:
            node.pop_comments()
            if isinstance(node, exp.Func):
                self._check_call(node)
        for node in nodes:
            if not isinstance(node, exp.Func):
                self._check_syntax(node)
        return tree

    def _parsed(self) -> exp.Expr:
        try:
            kinds = [token.token_type for token in sqlglot.tokenize(self.text, read="duckdb")]
            depths = accumulate((kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN) for kind in kinds)
            if min(depths, default=0) < 0:
                raise self._error("closes a bracket that it did not open; give one expression")
            trees = sqlglot.parse(f"{_OPENING}{self.text}\n)", read="duckdb")
        except ParseError as error:
            raise self._error(f"is not a SQL expression: {_what_is_wrong(self.text, error)}") from error
        except SqlglotError as error:
            raise self._error("is not a SQL expression: a quote or a comment is not closed") from error
        except RecursionError as error:
            raise self._error("is nested too deeply; give a shorter condition", quotes=False) from error
        found = [tree for tree in trees if tree is not None]
        clauses = {name for name, value in found[0].args.items() if value} if found else set()
        if len(found) != 1 or not isinstance(found[0], exp.Select) or clauses != {"expressions", "where"}:
            raise self._error('is not one expression; give a single condition such as "amount > 10"')
        tree: exp.Expr = found[0].args["where"].this
        return tree

    def _check_call(self, call: exp.Func) -> None:
        names = {call.name.lower()} if isinstance(call, exp.Anonymous) else {name.lower() for name in call.sql_names()}
        if isinstance(call, (exp.AggFunc, exp.Columns)) or not names & ALLOWED:
            raise self._error(
                f"calls {min(names)}, which is not among the functions a condition may call: "
                "only those that compute on the row's values, as lower, date_trunc or list_contains"
            )
        if isinstance(call, exp.Pad) and not _is_small(call.expression):
            raise self._error(f"pads a text to what is no number up to {MOST_LETTERS:,}; give such a number")
        if isinstance(call.parent, exp.Dot) and call.arg_key == "expression":
            raise self._error(f"calls {min(names)} with a dot; write {min(names)}(value)")

    def _check_syntax(self, node: exp.Expr) -> None:
        name = type(node).__name__
        if isinstance(node, exp.Star):
            raise self._error("holds a *; name the columns")
        if name not in _SYNTAX:
            what = "query" if isinstance(node, (exp.Query, exp.Subquery)) else name.lower()
            raise self._error(f"holds a {what}; only an expression over one row works here")
        if isinstance(node, exp.DataType):
            self._check_type(node)
        elif isinstance(node, exp.Var) and not _WORD.fullmatch(node.name):
            raise self._error(f"holds {node.name!r}, which is no word")
        elif isinstance(node, exp.Literal) and not node.is_string and not _NUMBER.fullmatch(node.name):
            raise self._error(f"holds {node.name!r}, which is no number")

    def _check_type(self, node: exp.DataType) -> None:
        kind = node.this
        if not isinstance(kind, exp.DataType.Type) or kind.name not in _TYPES:
            raise self._error(f"casts to {node.sql(dialect='duckdb')}, which is not among the types that a condition may cast to")
        if not all(_is_small(literal) for literal in node.find_all(exp.Literal)):
            raise self._error(f"casts to a type of a size above {MOST_LETTERS:,}")


def checked(text: str | None) -> Condition | None:
    """Return the condition of a `--where`; None if there is none."""
    return None if text is None else Condition(text)


def _is_small(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Literal) and node.is_int and int(node.name) <= MOST_LETTERS


def _what_is_wrong(text: str, error: ParseError) -> str:
    """Return where parsing stopped in the user's own text; the parser's message names its own classes."""
    (first, *_) = error.errors or [{}]
    line, found = first.get("line"), first.get("highlight")
    lines = text.split("\n")
    if line is None or not found:
        return "it cannot be read"
    if line > len(lines):
        return "something is missing at its end"
    column = first["col"] - len(found) - (len(_OPENING) if line == 1 else 0) + 1
    where = f"column {column}" if len(lines) == 1 else f"line {line}, column {column}"
    return f"it cannot be read at {found!r} ({where})"
