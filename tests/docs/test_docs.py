"""The documents: links, anchors, commands, rule numbers and named tests exist. tests/docs runs what is in their blocks."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer
import yaml

from cdc_views.cli.app import app

ROOT = Path(__file__).parents[2]
SKIPPED = {"build", "dist", "node_modules"}
SEMANTICS = ROOT / "docs" / "reference" / "semantics.md"
RULES_CODE = ROOT / "docs" / "internals" / "rules.md"
RULE = re.compile(r"(?<![\w.#^-])([CKDWSM][1-9])(\.[1-9])?(?![\w^])")
"""A rule's number; `C2.4` is a part of C2. Not `#C1`, `2^C1` or `x-D1`."""

GROUPS = {"C": 5, "K": 2, "D": 3, "W": 6, "S": 6, "M": 3}
"""How many rules each letter has."""

_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+(?:\([^()]*\))?)\)")
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"^(?:cdc_views|spark|producers|tests|templates|docs)/[\w./]+$")
_FORBIDDEN = {
    "a path of a machine": re.compile(r"(?<![\w.$:/}])/(?:work|home|root|Users|tmp|mnt|opt|var)/"),
    "the host of a package index": re.compile(
        r"pypi\.org|pythonhosted|artifactory|\bnexus\b|index-url|devpi|https?://(?:localhost|\d+\.\d+\.\d+\.\d+)", re.IGNORECASE
    ),
}


def documents() -> list[Path]:
    """Every document of the project."""
    found: list[Path] = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        found += [Path(folder) / name for name in files if name.endswith(".md")]
    return sorted(found)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


DOCUMENTS = documents()
OURS = [path for path in DOCUMENTS if not name_of(path).startswith("tests/")]


def prose(text: str) -> str:
    """The text without its code."""
    return _CODE.sub("", _FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    """The anchors that a forge gives the headings of a document."""
    found: dict[str, int] = {}
    names: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+?)\s*$", _FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"[`*_]|\[|\]\([^)]*\)", "", heading).lower()
        slug = "".join(letter for letter in plain if letter.isalnum() or letter in " -_").replace(" ", "-")
        names.add(f"{slug}-{found[slug]}" if slug in found else slug)
        found[slug] = found.get(slug, 0) + 1
    return names


def broken_links(path: Path, text: str) -> list[str]:
    broken = []
    for target in _LINK.findall(_FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / unquote(file)).resolve() if file else path
        if not linked.exists():
            broken.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(linked.read_text(encoding="utf-8")):
            broken.append(f"{target}: no such heading")
    return broken


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_relative_links_and_anchors_resolve(path: Path) -> None:
    assert broken_links(path, path.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_noticed() -> None:
    text = "[a](nowhere.md) [b](reference/semantics.md#c99-nothing) ![c](images/none.svg) [d](reference/semantics.md#cells)"
    assert len(broken_links(ROOT / "docs" / "README.md", text)) == 3


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_no_document_names_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert {what: found.group() for what, pattern in _FORBIDDEN.items() if (found := pattern.search(text))} == {}


@pytest.mark.parametrize("text", ["see /home/me/x", "`/work/shared/y`", "https://pypi.org/simple", "pip --index-url x"])
def test_a_machine_is_noticed(text: str) -> None:
    assert any(pattern.search(text) for pattern in _FORBIDDEN.values())


def commands(text: str) -> Iterator[str]:
    """Every `cdc-views …` of a document: in code blocks, one a line or pipe, and between backticks."""
    for _, block in _FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            for part in line.removeprefix("$ ").split(" | "):
                if part.strip().startswith("cdc-views "):
                    yield part.strip().split("  #")[0]
    for code in _CODE.findall(_FENCE.sub("", text)):
        if code.startswith("cdc-views ") and "…`" not in code:
            yield code


@cache
def known_commands() -> dict[str, Any]:
    """Every command by its name; built once, since building them reads the signatures of all."""
    commands: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
    return commands


def what_is_wrong(command: str) -> str:
    """Return what the command line would not understand, or nothing."""
    words = [word for word in shlex.split(command)[1:] if word != "…"]
    known = known_commands()
    if not words or words[0] == "--help":
        return ""
    if words[0] not in known:
        return f"no command {words[0]!r}"
    named = known[words[0]]
    if getattr(named, "commands", None) is not None:
        if words[1:2] and named.get_command(None, words[1]) is None:
            return f"{words[0]} has no command {words[1]!r}"
        named = named.get_command(None, words[1]) if words[1:2] else named
    if named.context_settings.get("ignore_unknown_options"):
        return ""
    options = {name for parameter in named.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    wrong = [word for word in words[1:] if word.startswith("--") and word.partition("=")[0] not in options]
    return f"{words[0]} has no {', '.join(wrong)}" if wrong else ""


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_commands_and_options_exist(path: Path) -> None:
    found = {command: what_is_wrong(command) for command in commands(path.read_text(encoding="utf-8"))}
    assert {command: wrong for command, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_each_block_of_yaml_can_be_read(path: Path) -> None:
    for language, block in _FENCE.findall(path.read_text(encoding="utf-8")):
        assert language != "yaml" or list(yaml.safe_load_all(block)), block


def test_the_readme_names_commands() -> None:
    found = list(commands((ROOT / "README.md").read_text(encoding="utf-8")))
    assert {shlex.split(c)[1] for c in found} >= {"init", "land", "query", "explain", "generate", "apply", "fidelity"}


@pytest.mark.parametrize(
    "command",
    [
        "cdc-views landd x",
        "cdc-views query t --asof 3",
        "cdc-views plan --engine duckdb",
        "cdc-views dbt import",
        "cdc-views dbt export --into x",
    ],
)
def test_a_command_that_does_not_exist_is_noticed(command: str) -> None:
    assert what_is_wrong(command)


def rules_defined() -> set[str]:
    """The rules that the semantics page has a heading for, and the parts that its tables number."""
    text = SEMANTICS.read_text(encoding="utf-8")
    rules = set(re.findall(r"^### ([A-Z]\d): ", text, re.MULTILINE))
    return rules | set(re.findall(r"^\| ([A-Z]\d\.\d) \|", text, re.MULTILINE))


def rules_cited() -> dict[str, set[str]]:
    """Rule → the files that cite it. Of code only comments, docstrings and texts are looked at: `S1` may be a name."""
    cited: dict[str, set[str]] = {}
    code = [p for folder in ("cdc_views", "spark", "producers", "templates") for p in (ROOT / folder).rglob("*") if p.is_file()]
    code += list((ROOT / "tests").rglob("*.py"))
    for path in [*(p for p in code if p.suffix in (".py", ".j2") and p.name != Path(__file__).name), *OURS]:
        for line in path.read_text(encoding="utf-8").splitlines():
            if path.suffix == ".py" and not re.search(r"\brules?\b|\([CKDWSM]\d|[#\"]", line):
                continue
            for rule, part in RULE.findall(line):
                cited.setdefault(rule + part, set()).add(name_of(path))
    return cited


def test_every_rule_that_is_cited_is_defined() -> None:
    defined = rules_defined()
    assert {rule: sorted(where) for rule, where in rules_cited().items() if rule not in defined} == {}


def test_a_rule_that_does_not_exist_is_noticed() -> None:
    assert {rule + part for rule, part in RULE.findall("see rules C9, C2.7 and (W3)")} - rules_defined() == {"C9", "C2.7"}


def test_every_rule_is_defined_in_order_and_has_its_code_named() -> None:
    text = SEMANTICS.read_text(encoding="utf-8")
    headings = re.findall(r"^### ([A-Z]\d): ", text, re.MULTILINE)
    assert headings == [f"{group}{n}" for group, last in GROUPS.items() for n in range(1, last + 1)]
    rows = re.findall(
        r"^\| \[([A-Z]\d)\]\([^)]*\) \| (`cdc_views/.*`.*) \| .*\|$", RULES_CODE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert [rule for rule, _ in rows] == headings


@pytest.mark.parametrize("path", OURS, ids=name_of)
def test_files_and_tests_that_are_named_exist(path: Path) -> None:
    missing = []
    for code in _CODE.findall(_FENCE.sub("", path.read_text(encoding="utf-8"))):
        file, _, test = code.partition("::")
        if not _PATH.match(file) or "<" in file:
            continue
        named = ROOT / file
        if not named.exists() or (test and f"def {test.rpartition('::')[2]}(" not in named.read_text(encoding="utf-8")):
            missing.append(code)
    assert missing == []


def test_pictures_are_well_formed_and_described() -> None:
    import xml.etree.ElementTree as tree

    pictures = sorted((ROOT / "docs" / "images").glob("*.svg"))
    assert pictures
    for picture in pictures:
        tags = {element.tag.rpartition("}")[2] for element in tree.parse(picture).iter()}
        assert {"title", "desc"} <= tags
        assert not tags & {"script", "foreignObject", "image"}
