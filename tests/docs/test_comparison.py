"""The comparison that the README shows is the recorded one, whole, and nothing beside it."""

from __future__ import annotations

import re

from benchmarks.compare.report import own_words, recorded, tables
from benchmarks.compare.systems import SYSTEMS
from benchmarks.compare.verdicts import MAIL, Word, judge
from tests.docs.markdown import ROOT

README = (ROOT / "README.md").read_text("utf-8")
SECTION = README.partition("\n## Compared\n")[2].partition("\n## ")[0]


def block(page: str, name: str) -> str:
    """Return what stands in a generated block."""
    return page.partition(f"<!-- generated: {name} -->\n")[2].partition("<!-- end of generated -->")[0].strip()


def test_the_readme_shows_the_recorded_tables() -> None:
    assert block(SECTION, "compared") == tables(recorded()).strip()


def test_the_page_quotes_what_the_systems_said() -> None:
    page = (ROOT / "docs/comparison.md").read_text("utf-8")
    assert block(page, "compared-words") == own_words(recorded()).strip()


def test_the_readme_claims_no_figure_beside_the_recorded_ones() -> None:
    prose = SECTION.replace(block(SECTION, "compared"), "")
    assert len(prose.split()) > 20
    assert re.findall(r"(?<!python)\d", prose) == []


def test_the_record_holds_every_system_with_all_its_trials() -> None:
    results = recorded()
    assert results.trials >= 3
    assert [(row.key, row.title) for row in results.rows] == [(system.key, system.title) for system in SYSTEMS]
    for row, system in zip(results.rows, SYSTEMS, strict=True):
        assert row.tests == tuple(test.name for test in system.tests)
        if not row.could_not_run:
            assert set(row.versions) == set(system.packages)
            wanted = {test.name: results.trials if test.hold else 1 for test in system.tests}
            assert {name: len(trials) for name, trials in row.trials.items()} == wanted


def test_every_recorded_trial_was_one() -> None:
    found = [
        (row.key, experiment.name, judge(experiment, facts).word)
        for row, system in zip(recorded().rows, SYSTEMS, strict=True)
        for experiment in system.tests
        for facts in row.trials.get(experiment.name, ())
    ]
    assert len(found) > 100
    assert [told for told in found if told[-1] is Word.NOTHING] == []


def test_perdure_sent_one_mail_in_every_recorded_trial() -> None:
    row = next(row for row in recorded().rows if row.key == "perdure")
    assert [dict(facts.after) for facts in row.trials[MAIL.name]] == [{"mail": 1}] * recorded().trials
