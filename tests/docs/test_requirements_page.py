"""The page of the requirements: all of them are there, and each stands on tests that exist and commands that are some."""

from __future__ import annotations

import pytest

import tasks
from perdure.cli.parser import NOUNS
from tests.docs.evidence_support import missing
from tests.docs.markdown import ROOT
from tests.evidence import matrix
from tests.evidence.requirement import NOT_THERE, Requirement
from tests.evidence.requirements import REQUIREMENTS

JOB_RUNNER = [f"R{number:03}" for number in range(1, 129)]


def test_every_requirement_of_a_job_runner_stands_on_the_page_once() -> None:
    numbers = [row.number for row in REQUIREMENTS]
    assert len(numbers) == len(set(numbers))
    assert set(JOB_RUNNER) <= set(numbers)


def test_every_test_that_a_requirement_names_exists() -> None:
    assert {row.number: wrong for row in REQUIREMENTS if (wrong := missing(row.tests))} == {}


def readme_says_is_not_there() -> str:
    """Return the README's list of what is not in this version; another test compares it with the program."""
    text = (ROOT / "README.md").read_text("utf-8")
    return text.partition("<!-- not in this version")[2].partition("<!-- end of the list -->")[0]


@pytest.mark.parametrize("row", [*REQUIREMENTS, *matrix.rows()], ids=lambda row: row.number)
def test_what_does_not_hold_waits_for_something_that_the_readme_says_is_not_there(
    row: Requirement | matrix.Row,
) -> None:
    """So that a note goes when what it names comes, and none hides what could hold."""
    named = [told for word, told in NOT_THERE.items() if word in row.missing]
    assert bool(named) == bool(row.missing), row.missing
    for told in named:
        assert f"`{told}`" in readme_says_is_not_there(), row.missing


@pytest.mark.parametrize("row", [row for row in REQUIREMENTS if row.otherwise], ids=lambda row: row.number)
def test_what_was_decided_otherwise_has_a_page_that_says_why_and_tests(row: Requirement) -> None:
    number, _, says = row.otherwise.partition(": ")
    (page,) = (ROOT / "docs/design").glob(f"{number}-*.md")
    assert row.number in page.read_text("utf-8") and len(says.split()) > 4
    assert row.tests and not row.missing


def test_every_requirement_has_a_test_or_a_command_that_exists_or_says_why_it_has_none() -> None:
    for row in REQUIREMENTS:
        assert row.tests or row.commands or row.missing, row
        for command in row.commands:
            program, word, *_ = command.removeprefix("python3 ").split()
            assert word in (tasks.COMMANDS if program == "tasks.py" else NOUNS), command
