"""What Great Expectations found of a table's rows, as checks of our report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_views.model.severity import Severity
from cdc_views.quality.checks import MOST_PLACES, Check

_SUITE = Check("expectations", "Great Expectations finds the rows as the suite of cdc-views expects them", unit="expectations")
_LOADED = Check("custom.can_be_loaded", "each expectation of the suite is of a class that is known here", unit="expectations")


@dataclass(frozen=True, slots=True)
class ExpectationOutcome:
    """One expectation and its result, as Great Expectations gives them."""

    is_theirs: bool
    config: Any
    result: Any

    @property
    def name(self) -> str:
        """Its type and column, in short."""
        column = self.config.kwargs.get("column")
        return str(self.config.type).removeprefix("expect_") + (f".{column}" if column else "")


def checks_of(outcomes: Sequence[ExpectationOutcome], *, with_values: bool) -> Iterator[Check]:
    """Yield a check for each expectation of the user's, and one for all of ours that failed."""
    failed = [outcome for outcome in outcomes if not outcome.is_theirs and not outcome.result.success]
    if failed:
        worst = min((_severity(outcome) for outcome in failed), key=lambda one: one is not Severity.ERROR)
        where = tuple(outcome.name for outcome in failed)[:MOST_PLACES]
        yield Check(_SUITE.name, _SUITE.rule, worst, len(failed), _SUITE.unit, where)
    names: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.is_theirs:
            names[outcome.name] = names.get(outcome.name, 0) + 1
            yield _check(outcome, number=names[outcome.name], with_values=with_values)


def unloadable(stored: Sequence[dict[str, Any]], outcomes: Sequence[ExpectationOutcome]) -> tuple[Check, ...]:
    """Return a failed check where expectations of the user's suite did not run: Great Expectations leaves unknown ones out."""
    ran = [outcome.config.type for outcome in outcomes if outcome.is_theirs]
    lost = [str(expectation.get("type")) for expectation in stored]
    for kind in ran:
        if kind in lost:
            lost.remove(kind)
    return (
        (Check(_LOADED.name, _LOADED.rule, Severity.ERROR, len(lost), _LOADED.unit, tuple(lost[:MOST_PLACES])),) if lost else ()
    )


def _check(outcome: ExpectationOutcome, *, number: int, with_values: bool) -> Check:
    found = outcome.result.result or {}
    count = found.get("unexpected_count")
    is_met = bool(outcome.result.success)
    values = tuple(str(value) for value in found.get("partial_unexpected_list", ()))[:MOST_PLACES] if with_values else ()
    asked = {
        key: value for key, value in outcome.config.kwargs.items() if key not in ("batch_id", "column") and value is not None
    }
    return Check(
        f"custom.{outcome.name}" + (f".{number}" if number > 1 else ""),
        str(outcome.config.description or f"{outcome.config.type} {asked or ''}".strip()),
        _severity(outcome),
        0 if is_met else int(count or 1),
        "rows" if count else "expectations",
        values or (() if is_met else _raised(outcome)),
    )


def _raised(outcome: ExpectationOutcome) -> tuple[str, ...]:
    """What hindered an expectation, such as a column that is not there; nothing where it was only not met."""
    told = outcome.result.exception_info or {}
    parts = [told] if "raised_exception" in told else [part for part in told.values() if isinstance(part, dict)]
    return tuple(str(part["exception_message"]).splitlines()[0] for part in parts if part.get("raised_exception"))[:1]


def _severity(outcome: ExpectationOutcome) -> Severity:
    return (
        Severity.ERROR
        if str(getattr(outcome.config.severity, "value", outcome.config.severity)) == "critical"
        else Severity.WARNING
    )
