"""Decimals of a declared size: stored as text, shown as DECIMAL(p, s), never rounded.

Every engine's cast rounds a text with more digits after the point than the type has. So a text that does not fit is replaced by
one that is no number before the cast: the query fails, and its error shows the value and a remedy.
"""

from __future__ import annotations

from sqlglot import exp

from cdc_views.model.types import Kind, Scalar
from cdc_views.sql.dialects.writing import Sql

_LEAST_EXPONENT = 7
"""Texts have the form of Java's `BigDecimal.toString`, which writes an exponent for numbers below 0.000001."""


def fitting(precision: int, scale: int) -> str:
    """Return the regular expression of texts that fit DECIMAL(precision, scale).

    Not every engine's type refuses too many digits before the point. Avoids backslashes: dialects escape them differently.
    """
    whole = precision - scale
    forms = [f"0*[0-9]{{0,{whole}}}([.][0-9]{{0,{scale}}}0*)?", "0([.]0+)?E[+-][0-9]+"]
    if whole > 1:
        forms.append(f"[0-9]([.][0-9]+)?E[+]{_up_to(whole - 1)}")
    for exponent in range(_LEAST_EXPONENT, scale + 1):
        more = f"([.][0-9]{{1,{scale - exponent}}})?" if scale > exponent else ""
        forms.append(f"[0-9]{more}E-{exponent}")
    return f"^-?({'|'.join(forms)})$"


def _up_to(most: int) -> str:
    """The regular expression of the numbers from 1 to `most`, which has at most two digits."""
    tens, ones = divmod(most, 10)
    forms = [f"[1-{min(most, 9)}]", *([f"[1-{tens - 1}][0-9]"] if tens > 1 else []), *([f"{tens}[0-{ones}]"] if tens else [])]
    return f"({'|'.join(forms)})"


def refusal(text: Sql, *, precision: int, scale: int) -> Sql:
    """Return SQL of the replacement of a text that does not fit; the engine's error shows it."""
    column = text.find(exp.Column)
    whose = f" of {column.name}" if column is not None and not column.name.startswith("_") else ""
    said = exp.Literal.string(f" does not fit decimal({precision}, {scale}){whose}: update the schema file")
    return exp.DPipe(this=text.copy(), expression=said)


def fits(text: Sql, *, precision: int, scale: int) -> Sql:
    """Return the condition that a text fits; null for null."""
    return exp.RegexpLike(this=text.copy(), expression=exp.Literal.string(fitting(precision, scale)))


class DecimalDialect:
    """The decimals of a dialect."""

    def decimal_type(self, precision: int, scale: int) -> exp.DataType:
        """Return the type of DECIMAL(precision, scale)."""
        return exp.DataType.build(f"DECIMAL({precision}, {scale})")

    def exact_decimal(self, text: Sql, *, precision: int, scale: int) -> Sql:
        """Return a text as a number; the query fails if it does not fit."""
        # the cast is outside: DuckDB may cast what a branch reads in rows of other branches, or in rows that were filtered out
        kept = exp.If(this=fits(text, precision=precision, scale=scale), true=text.copy())
        fitting_text = exp.Case(ifs=[kept], default=refusal(text, precision=precision, scale=scale))
        return exp.Cast(this=fitting_text, to=self.decimal_type(precision, scale))

    def friendly_leaf(self, base: Sql, kind: Scalar) -> Sql:
        """Return a stored scalar in its friendly type."""
        size = kind.decimal_size
        if size is None:
            return self.friendly_scalar(base, kind.kind)
        return self.exact_decimal(base, precision=size[0], scale=size[1])

    def friendly_scalar(self, base: Sql, kind: Kind) -> Sql:
        """Return a stored timestamp, date or time in the dialect's type (TIMESTAMP, DATE ...), and others as they are."""
        return base
