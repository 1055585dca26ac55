"""The page of the requirements: all of them are there, and each stands on tests that exist and commands that are some."""

from __future__ import annotations

import tasks
from perdure.cli.parser import NOUNS
from tests.docs.evidence_support import missing
from tests.evidence.requirements import REQUIREMENTS

JOB_RUNNER = [f"R{number:03}" for number in range(1, 129)]


def test_every_requirement_of_a_job_runner_stands_on_the_page_once() -> None:
    numbers = [row.number for row in REQUIREMENTS]
    assert len(numbers) == len(set(numbers))
    assert set(JOB_RUNNER) <= set(numbers)


def test_every_test_that_a_requirement_names_exists() -> None:
    assert {row.number: wrong for row in REQUIREMENTS if (wrong := missing(row.tests))} == {}


def test_every_requirement_has_a_test_or_a_command_that_exists_or_says_why_it_has_none() -> None:
    for row in REQUIREMENTS:
        assert row.tests or row.commands or row.missing, row
        for command in row.commands:
            program, word, *_ = command.removeprefix("python3 ").split()
            assert word in (tasks.COMMANDS if program == "tasks.py" else NOUNS), command
