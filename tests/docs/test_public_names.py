"""What is public is said to be public: names, commands, documents and variables stand on the page that lists them."""

from __future__ import annotations

import re
from inspect import signature

import pytest

import perdure
from perdure.cli.parser import NOUNS
from perdure.ports.tool import declare
from perdure.runtime.crashpoints import PREFIX
from tests.docs.markdown import ROOT

PAGE = (ROOT / "docs/design/0031-additions-to-the-public-contract.md").read_text("utf-8")
SAID = {word for code in re.findall(r"`([^`\n]+)`", PAGE) for word in code.split()}


def members(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def in_the_source(pattern: str) -> set[str]:
    found = (path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    return {name for text in found for name in re.findall(pattern, text)}


PUBLIC = {
    "names of the package": set(perdure.__all__),
    "members of a run": members(perdure.Run) | members(perdure.AsyncRun),
    "members of an engine": members(perdure.Engine),
    "options of a tool": set(signature(declare).parameters) - {"namespace"},
    "commands": {word for noun, verbs in NOUNS.items() for word in (noun, *verbs)},
    "documents": in_the_source(r"\b(perdure\.[a-z_]+)/v1"),
}


@pytest.mark.parametrize("what", PUBLIC)
def test_what_is_public_is_on_the_page_of_what_is_public(what: str) -> None:
    assert PUBLIC[what]
    assert PUBLIC[what] - SAID == set()


def test_every_variable_is_on_the_page_or_of_a_family_that_is() -> None:
    families = tuple(word.removesuffix("…") for word in SAID if word.endswith("…"))
    found = {name for name in in_the_source(r"\b(PERDURE_[A-Z0-9_]+)") if not name.startswith(PREFIX)}
    assert found
    assert {name for name in found if name not in SAID and not name.startswith(families)} - {"PERDURE_"} == set()


def test_what_the_page_calls_a_name_of_the_package_is_one() -> None:
    listed = PAGE.partition("## Names of the package")[2].partition("In a run,")[0]
    named = {word for code in re.findall(r"`([^`]+)`", listed) for word in code.split()}
    assert named == set(perdure.__all__)
