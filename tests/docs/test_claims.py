"""What the pages claim about the program is so: commands, promises, knobs, fields, layers, links."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import AsyncRun, Engine, Run
from perdure.cli.parser import NOUNS, build
from perdure.config.job_schema import LATER_AGENT_KINDS
from perdure.config.policy_schema import RuleModel
from perdure.ports.tool import declare
from perdure.runtime.crashpoints import KNOBS, PREFIX
from tests.docs.markdown import PAGES, ROOT, blocks
from tools.docs import demo_parser

README = (ROOT / "README.md").read_text("utf-8")
_COMMAND = re.compile(r"\bperdure((?: -[-a-zA-Z]+(?:[= ](?!-)\S+)?)*) ([a-z]+)(?: ([a-z]+))?")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_PAGE_IDS = [str(page.relative_to(ROOT)) for page in PAGES]
PROMISE = (
    "Within one ledger, an accepted operation is never forgotten and never silently repeated. Before an effectful "
    "call starts, a record of that exact request is on stable storage. After any crash the engine knows, for each "
    'operation: done, not started, definitely failed, or in doubt; and it acts on "in doubt" only by a rule you '
    "chose for that tool."
)


def _code(text: str) -> list[str]:
    """Return what stands as code in a page: fenced and inline."""
    fenced = re.findall(r"^```[^\n]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [*fenced, *re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))]


def _missing(line: int) -> list[str]:
    """Return what a line of the README's list of missing things names."""
    listed = README.partition("<!-- not in this version")[2].partition("<!-- end of the list -->")[0]
    return re.findall(r"`([^`]+)`", listed.splitlines()[line].partition(";")[0])


def _exists(command: str) -> bool:
    noun, _, verb = command.partition(" ")
    return noun in NOUNS and (not verb or verb in NOUNS[noun])


@pytest.mark.parametrize("page", PAGES, ids=_PAGE_IDS)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    for code in _code(page.read_text("utf-8")):
        for _, noun, verb in _COMMAND.findall(re.sub(r"pip install[^\n]*|import perdure|#[^\n]*", "", code)):
            if noun not in ("import",):
                assert noun in NOUNS, f"{page.name}: perdure {noun}"
                assert not NOUNS[noun] or not verb or verb in NOUNS[noun], f"{page.name}: perdure {noun} {verb}"


def test_every_command_that_an_error_names_exists() -> None:
    told = re.compile(r'(?:next_command|default_next)\s*=\s*\(?f?"perdure ([a-z]+)(?: ([a-z]+))?')
    found = [command for path in (ROOT / "src").rglob("*.py") for command in told.findall(path.read_text("utf-8"))]
    assert found
    for noun, verb in found:
        assert noun in NOUNS, noun
        assert not NOUNS[noun] or not verb or verb in NOUNS[noun], (noun, verb)


def test_the_command_line_page_has_every_command() -> None:
    page = (ROOT / "docs/cli.md").read_text("utf-8")
    wanted = {f"### perdure {noun} {verb}".rstrip() for noun, verbs in NOUNS.items() for verb in verbs or ("",)}
    assert wanted == set(re.findall(r"^### perdure .*$", page, re.MULTILINE))


def test_flags_that_a_page_uses_exist() -> None:
    known = {
        flag for parser in [*_parsers(build()), demo_parser()] for a in parser._actions for flag in a.option_strings
    }
    for page in PAGES:
        for block in blocks(page):
            lines = [line for line in block.body.splitlines() if re.search(r"\bperdure [a-z-]", line)]
            used = {flag for line in lines for flag in re.findall(r"(?<=\s)--[a-z-]+", line.partition("#")[0])}
            assert used <= known, f"{page.name}:{block.line}: {used - known}"


def _parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    under: list[argparse.ArgumentParser] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            under += [found for sub in action.choices.values() for found in _parsers(sub)]
    return [parser, *under]


def test_what_the_readme_says_is_missing_is_missing() -> None:
    commands, in_a_run, of_the_engine, agents = (_missing(line) for line in (1, 2, 3, 4))
    assert commands
    assert [name for name in commands if _exists(name)] == []
    names = [name.partition(".") for name in in_a_run]
    assert [
        name for owner, _, name in names if owner == "run" and (hasattr(Run, name) or hasattr(AsyncRun, name))
    ] == []
    assert [name for owner, _, name in names if owner == "perdure" and hasattr(perdure, name)] == []
    assert [name for name in of_the_engine if hasattr(Engine, name)] == []
    assert set(agents) == LATER_AGENT_KINDS


def test_the_promise_stands_in_its_own_words() -> None:
    assert f"> {PROMISE}\n" in README


def test_the_crash_knobs_of_the_page_are_those_of_the_code() -> None:
    page = (ROOT / "docs/crash-knobs.md").read_text("utf-8")
    table = page.partition("<!-- generated: crash-knobs -->")[2].partition("<!-- end")[0]
    assert set(re.findall(rf"`{PREFIX}([A-Z_]+)`", table)) == set(KNOBS)


def test_every_field_of_a_rule_is_explained() -> None:
    page = (ROOT / "docs/policy.md").read_text("utf-8")
    table = page.partition("| field | means |")[2].partition("\n\n")[0]
    assert set(
        re.findall(r"`([a-z_]+)`", "".join(row.split("|")[1] for row in table.splitlines() if "|" in row))
    ) == set(RuleModel.model_fields)


def test_every_argument_of_tool_is_explained() -> None:
    page = (ROOT / "docs/tools.md").read_text("utf-8")
    told = set(re.findall(r"^\| `([a-z_]+)=", page, re.MULTILINE))
    annotations: dict[str, Any] = dict(declare.__annotations__)
    assert told == set(annotations) - {"return", "namespace"}


def test_the_guide_for_changes_stays_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text("utf-8").splitlines()) < 120


def test_files_that_the_guide_names_exist() -> None:
    guide = (ROOT / "AGENTS.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+(?:\.[a-z]+)?)(?::\w+)?`", guide))
    assert len(named) > 20
    assert [
        name for name in sorted(named) if not (ROOT / name).exists() and not (ROOT / "src/perdure" / name).exists()
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=_PAGE_IDS)
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text("utf-8")):
        if not target.startswith(("https:", "mailto:")):
            path, _, anchor = target.partition("#")
            assert (page.parent / path).exists() if path else anchor, f"{page.name}: {target}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs/design").glob("[0-9]*.md")), ids=lambda page: page.stem)
def test_a_choice_says_what_was_measured_and_what_else_was_possible(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text.startswith(f"# {page.stem[:4]}: ")
    parts = ("**Decision.**", "**Why.**", "**What was measured", "**Could have gone the other way.**")
    assert [part for part in parts if part not in text] == []
    assert len(text.split()) < 550, "one page"
