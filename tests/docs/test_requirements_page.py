"""The page of the requirements: all of them are there, and each stands on tests that exist and commands that are some."""

from __future__ import annotations

import pytest

import tasks
from perdure.cli.parser import NOUNS
from tests.docs.evidence_support import missing
from tests.evidence.requirements import REQUIREMENTS


def test_no_requirement_stands_on_the_page_twice() -> None:
    numbers = [row.number for row in REQUIREMENTS]
    assert len(numbers) == len(set(numbers))


@pytest.mark.timeout(60)
def test_every_test_that_a_requirement_names_exists() -> None:
    assert {row.number: wrong for row in REQUIREMENTS if (wrong := missing(row.tests))} == {}


def test_every_requirement_has_a_test_or_a_command_that_exists() -> None:
    for row in REQUIREMENTS:
        assert row.tests or row.commands, row
        for command in row.commands:
            program, word, *_ = command.removeprefix("python3 ").split()
            assert word in (tasks.COMMANDS if program == "tasks.py" else NOUNS), command
