"""The page of rules: for each, the tests that show it, the ways it was broken to see them fail, and a case of a real cluster."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from page_text import page, table

ROOT = Path(__file__).parents[2]
SEMANTICS = ROOT / "docs" / "reference" / "semantics.md"
CODE = ROOT / "docs" / "internals" / "rules.md"
TESTS = ROOT / "tests"


@dataclass(frozen=True, slots=True)
class RealCase:
    """A row of a captured table in which a rule decides, as `explain` shows; `which`: Cassandra's early or late answer."""

    rule: str
    case: str
    table: str
    key: str
    column: str | None
    which: str


def _wide(rule: str, tenant: str, day: int, seq: int, kind: str, column: str | None, which: str = "early") -> RealCase:
    key = json.dumps({"tenant": tenant, "day": f"2026-01-0{day}", "seq": seq, "kind": kind})
    return RealCase(rule, "wide3", "hid211.orders", key, column, which)


REAL_CASES = (
    _wide("C2.1", "t2", 1, 1, "y", "v"),
    _wide("C2.2", "t1", 1, -1, "x", "big"),
    _wide("C2.3", "t2", 2, 0, "y", "w"),
    _wide("C2.4", "t2", 1, 1, "y", "v"),
    _wide("C2.6", "t2", 1, 2, "z", "w"),
    _wide("C4", "t1", 1, -1, "x", None, "late"),
    _wide("C5", "t2", 1, 0, "z", "v"),
    _wide("D1", "t1", 2, 2, "x", "v"),
    _wide("D2", "t2", 1, 1, "y", "amount"),
    _wide("D3", "t2", 1, 1, "y", "sm"),
    _wide("W1", "t2", 1, 1, "y", None),
    _wide("W2", "t1", 2, 2, "x", None),
    _wide("W4", "t1", 2, 0, "x", "m"),
    RealCase("W3", "exotic3", "hid413.exotic", '{"p": 7, "q": 7.0}', None, "early"),
)
"""One for each rule that decides something in the captured tables; tests/docs/test_reference.py explains every one."""


def rules_page() -> str:
    """Every rule of the semantics page with what shows it; one that nothing shows is named."""
    tests, broken, titles = rule_tests(), _broken(), _titles()
    real = {case.rule: case for case in REAL_CASES}
    missing = [rule for rule in titles if rule not in tests and rule[:2] not in tests]
    rows = [(_link(rule), title, *_counts(rule, tests, broken, real)) for rule, title in titles.items()]
    summary = table(("rule", "says", "tests", "broken on purpose", "real case"), rows)
    sections = [_section(rule, tests.get(rule, []), broken.get(rule, []), real.get(rule)) for rule in titles]
    without = [rule for rule in titles if not any(known.startswith(rule) for known in real)]
    return page("Rules and what proves them", _intro(missing, without), summary, *sections)


def _link(rule: str) -> str:
    return f"[{rule}](#{rule.lower().replace('.', '')})"


def _intro(untested: list[str], without_case: list[str]) -> str:
    return (
        "The rules are those of [semantics](semantics.md). A test of `tests/semantics`\n"
        "states facts and the rows they show; the rows come from\n"
        "the pure rules and, in the same test, from every strategy on DuckDB (`CDC_VIEWS_SHOWN_BY=one`: from one of them).\n"
        "*Broken on purpose*: the plan was made to break the rule in that\n"
        "way, and the comparison with the pure rules must notice\n"
        "([test_checker_can_fail.py](../../tests/semantics/test_checker_can_fail.py)).\n"
        "*Real case*: a row of a captured cluster in which the rule decides;\n"
        "Cassandra's own answer has it so ([test_real_cases.py](../../tests/properties/test_real_cases.py)\n"
        "compares whole tables).\n\n"
        f"Without a test: {', '.join(untested) or 'none'}.\n"
        f"Without a real case of their own: {', '.join(without_case)}. Keys, byte\n"
        f"orders occur throughout the captured tables, but no\n"
        "single row is singled out; S rules come from Debezium's captured\n"
        "events, where the tests say so; M rules are about our own state.\n"
    )


def _counts(
    rule: str, tests: dict[str, list[str]], broken: dict[str, list[str]], real: dict[str, RealCase]
) -> tuple[str, str, str]:
    count = str(len(tests[rule])) if rule in tests else f"see {rule[:2]}" if rule[:2] in tests else "**none**"
    return count, str(len(broken.get(rule, []))) if rule in broken else "", f"`{real[rule].table}`" if rule in real else ""


def _section(rule: str, tests: list[str], broken: list[str], real: RealCase | None) -> str:
    parts = [f"## {rule}\n"]
    if tests:
        parts.append("".join(f"- [`{name}`](../../{file})\n" for file, name in (one.split("::") for one in tests)))
    if broken:
        parts.append("Broken on purpose, and noticed: " + "; ".join(broken) + ".\n")
    if real is not None:
        parts.append(f"Real case (`{real.case}`, the {real.which} answer):\n\n```text\n{explain_command(real)}\n```\n")
    return "\n".join(parts)


def explain_command(case: RealCase) -> str:
    """Return the command that shows a case, in a project of the captured table."""
    key = case.key.replace("'", "'\\''")
    column = f" --column {case.column}" if case.column else ""
    return f"cdc-views explain {case.table} --key '{key}'{column} --as-of {INSTANTS[case.case, case.which]}"


INSTANTS = {("wide3", "early"): 1795254672, ("wide3", "late"): 1795254680, ("exotic3", "early"): 1795257412}
"""When Cassandra answered, epoch seconds: `as_of` of the captured answers."""


def _titles() -> dict[str, str]:
    """Rule → what the semantics page heads it with; numbered parts right after their rule."""
    text = SEMANTICS.read_text(encoding="utf-8")
    titles: dict[str, str] = {}
    for line in text.splitlines():
        if found := re.match(r"### ([A-Z]\d): (.+)", line) or re.match(r"\| ([A-Z]\d\.\d) \| (.+) \|", line):
            titles[found[1]] = found[2]
    return titles


def rule_tests() -> dict[str, list[str]]:
    """Rule → its tests, as `file::name`: those of tests/semantics, then those that docs/internals/rules.md names."""
    found: dict[str, list[str]] = {}
    for path in sorted((TESTS / "semantics").glob("test_*_rules.py")):
        rule = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if heading := re.match(r"# ([A-Z]\d)\b", line):
                rule = heading[1]
            elif rule and (test := re.match(r"def (test_\w+)", line)):
                found.setdefault(rule, []).append(f"{path.relative_to(ROOT).as_posix()}::{test[1]}")
    for line in CODE.read_text(encoding="utf-8").splitlines():
        if row := re.match(r"\| \[([A-Z]\d)\]", line):
            for named in re.findall(r"`(tests/[\w/]+\.py::test_\w+)`", line):
                if named not in found.setdefault(row[1], []):
                    found[row[1]].append(named)
    return found


def _broken() -> dict[str, list[str]]:
    """Rule → the ways in which tests/helpers/corruptors.py breaks it."""
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    from helpers.corruptors import CORRUPTORS

    found: dict[str, list[str]] = {}
    for corruptor in CORRUPTORS:
        if corruptor.what not in found.setdefault(corruptor.rule, []):
            found[corruptor.rule].append(corruptor.what)
    return found
