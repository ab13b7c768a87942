"""The data tests of a table with those of a contract, and what the contract says that they cannot test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from cdc_views.export.contracts.comparing import ContractVerdict, compare
from cdc_views.export.contracts.document import Contract
from cdc_views.export.contracts.rules import rules_for
from cdc_views.quality.checks import MOST_PLACES, Check, Report
from cdc_views.quality.conditions import is_of_rows, test_name
from cdc_views.quality.validating import validate_table

if TYPE_CHECKING:
    from cdc_views.operations.context import TableContext
    from cdc_views.project.models import DataTest

_MATCHES = Check("matches_contract", "the view is what the contract says: columns, types, keys", unit="differences")
_COVERED = Check("contract_is_tested", "each rule of the contract is a data test", unit="rules")


def validate_with(contract: Contract, table: TableContext, **options: Any) -> Report:
    """Run the data tests of a table, those of a contract, and compare the two; `options` are `validate_table`'s.

    A rule that is no data test is no failure: `contract_is_tested` is skipped then, and says which.
    """
    if contract.object_of(table) is None:
        report = validate_table(table, **options)
        return replace(report, checks=(*report.checks, _MATCHES.skipped(f"{contract.path} does not describe the table")))
    rules = rules_for(contract, table)
    report = validate_table(with_tests(table, rules.tests), **options)
    found = compare(contract, [with_tests(table, rules.tests)], is_selection=True)
    broken = [f"{d.where}: {d.element or d.table}: {d.what}" for d in found if d.verdict is ContractVerdict.DIFFERS]
    matches = replace(_MATCHES, broken=len(broken), where=tuple(broken[:MOST_PLACES]))
    told = "; ".join(map(str, rules.unexpressed))
    covered = _COVERED.skipped(told) if told else replace(_COVERED, note=f"{len(rules.tests) + len(rules.kept)} rules")
    return replace(report, checks=(*report.checks, matches, covered))


def with_tests(table: TableContext, tests: Sequence[DataTest]) -> TableContext:
    """Return the table with more data tests, each but once and under a name of its own."""
    kept = list(table.config.tests)
    taken = {test_name(test) for test in kept if is_of_rows(test)}
    for test in tests:
        if test in kept:
            continue
        if is_of_rows(test):
            names = (test_name(test) if n == 1 else f"{test_name(test)}.{n}" for n in count(1))
            name = next(name for name in names if name not in taken)
            taken.add(name)
            test = test if name == test_name(test) else test.model_copy(update={"name": name})
        kept.append(test)
    return replace(table, config=table.config.model_copy(update={"tests": tuple(kept)}))
