"""The page of reliability: its figures are those that were recorded, and each planted bug is caught by a test that exists."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.crash import planting
from tests.docs.evidence_support import collected
from tests.docs.markdown import ROOT
from tests.docs.test_claims import PROMISE
from tests.evidence import matrix
from tests.model.programs import MUTANTS
from tools.figures import MEASURED, broken, recorded

PAGE = (ROOT / "docs/reliability.md").read_text("utf-8")
NAMED_IN_THE_RULES = 13
AT_LEAST = 20


def planted() -> list[planting.Plant]:
    return [plant for plant in planting.load().values() if plant.area != planting.HELP]


def test_the_promise_stands_in_its_own_words() -> None:
    assert f"> {PROMISE}\n" in PAGE


def test_at_least_twenty_rules_are_broken_on_purpose_in_every_part() -> None:
    assert len(planted()) >= AT_LEAST
    assert set(Counter(plant.area for plant in planted())) == set(planting.AREAS)


@pytest.mark.parametrize("plant", planted(), ids=lambda plant: plant.name)
def test_the_test_that_catches_a_planted_bug_exists_and_names_it(plant: planting.Plant) -> None:
    assert f"tests/crash/{plant.caught_by}" in collected()
    file = planting.FOLDER / plant.caught_by.partition("::")[0]
    assert plant.name in file.read_text("utf-8"), "the test does not use it"


def test_the_model_breaks_at_least_the_rules_that_its_text_names() -> None:
    assert len(MUTANTS) >= NAMED_IN_THE_RULES


def test_the_recorded_figures_are_whole_and_show_no_broken_promise() -> None:
    entries = recorded()
    assert list(entries) == list(MEASURED), "measure the rest: python3 tasks.py figures NAME"
    for name, entry in entries.items():
        assert not broken(entry["figures"]), name
        assert re.fullmatch(r"[0-9a-f]{40}", entry["commit"]), name
        assert entry["command"].removeprefix("python3 ").startswith(MEASURED[name][0]), name


def test_what_was_not_tested_is_said() -> None:
    untested = PAGE.partition("## What was not tested")[2]
    for word in ("power cut", "macOS", "3.14", "file systems", "PostgreSQL", "days", "models"):
        assert word in untested, word
    assert any(not row.tests for row in matrix.SCENARIOS), "then the last line of the page is out of date"


def test_the_readme_leads_to_the_evidence() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for page in ("reliability", "durability_test_matrix", "requirements"):
        assert f"(docs/{page}.md)" in readme and Path(ROOT, f"docs/{page}.md").exists()
