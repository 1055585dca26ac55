"""A trial of the comparison kills for real and counts for real: toy systems that lie are seen through."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.compare.systems import SYSTEMS, WORKERS, System
from benchmarks.compare.trial import Setting, names_of, run_trial
from benchmarks.compare.verdicts import CALM, CHANGES, MAIL, RENAMED, SIGKILLED, Experiment, Facts, Word, judge

PERDURE = next(system for system in SYSTEMS if system.key == "perdure")
SETTING = Setting(Path(sys.executable), "trial-1", watch_seconds=20, patience_seconds=10)
HEAD = f"import os, sys\nsys.path.insert(0, {str(WORKERS)!r})\nimport outside\n"
NAIVE = "outside.send('mail')\noutside.said('finished')\n"
LIAR = (
    "outside.send('announce') if outside.LIFE == 'start' else None\noutside.look('compute')\noutside.said('finished')\n"
)
NEVER_THERE = "print('I do not like mails', file=sys.stderr)\noutside.said('finished')\n"
SAYS_NOTHING = "outside.send('mail') if outside.LIFE == 'start' else sys.stdin.read()\n"
BREAKS = "outside.send('mail') if outside.LIFE == 'start' else sys.exit('no such table')\n"


def tried(body: str, test: Experiment, folder: Path, setting: Setting = SETTING) -> Facts:
    script = folder / "toy.py"
    script.write_text(HEAD + body, "utf-8")
    return run_trial(System("toy", "Toy", "toy", str(script), ()), test, setting)


def test_a_system_that_does_it_again_is_seen_by_the_mail_server(tmp_path: Path) -> None:
    facts = tried(NAIVE, MAIL, tmp_path)
    assert (facts.exit_code, facts.before, facts.after) == (SIGKILLED, {"mail": 1}, {"mail": 2})
    assert judge(MAIL, facts).word is Word.REPEATED


def test_a_system_that_skips_the_rest_is_seen_by_the_mail_server(tmp_path: Path) -> None:
    facts = tried(LIAR, RENAMED, tmp_path)
    assert (facts.before, facts.after, facts.reads["compute"]) == ({"announce": 1}, {"announce": 1}, 2)
    assert judge(RENAMED, facts).word is Word.DROPPED


def test_a_run_without_a_kill_is_counted_too(tmp_path: Path) -> None:
    assert judge(CALM, tried(NAIVE, CALM, tmp_path)).word is Word.FINISHED


def test_a_life_that_never_comes_to_the_kill_is_no_trial_and_says_why(tmp_path: Path) -> None:
    facts = tried(NEVER_THERE, MAIL, tmp_path)
    assert judge(MAIL, facts).word is Word.NOTHING
    assert "I do not like mails" in facts.trouble


def test_a_trial_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    facts = tried(NAIVE, MAIL, tmp_path, replace(SETTING, python=tmp_path / "no-python"))
    assert judge(MAIL, facts).word is Word.NOTHING
    assert "no-python" in facts.trouble


def test_a_life_that_ends_by_itself_was_not_killed(tmp_path: Path) -> None:
    facts = tried("outside.say('holding')\nos._exit(0)\n", MAIL, tmp_path)
    assert judge(MAIL, facts).word is Word.NOTHING


def test_a_system_that_says_nothing_is_stuck_when_the_watch_is_over(tmp_path: Path) -> None:
    facts = tried(SAYS_NOTHING, MAIL, tmp_path, replace(SETTING, watch_seconds=0.2, patience_seconds=1.5))
    assert (facts.exit_code, facts.said) == (SIGKILLED, None)
    assert judge(MAIL, facts).word is Word.STUCK


def test_a_system_that_breaks_has_failed_in_its_own_words(tmp_path: Path) -> None:
    facts = tried(BREAKS, MAIL, tmp_path)
    assert judge(MAIL, facts).word is Word.FAILED
    assert "ended with 1: no such table" in facts.detail


def test_perdure_waits_after_one_mail_and_finishes_after_the_answer() -> None:
    facts = run_trial(PERDURE, MAIL, SETTING)
    assert (judge(MAIL, facts).word, facts.after, facts.detail) == (Word.WAITING, {"mail": 1}, "waiting (in_doubt)")
    assert facts.answer is not None
    assert (judge(MAIL, facts.answer).word, facts.answer.after) == (Word.FINISHED, {"mail": 1})


@pytest.mark.parametrize("test", CHANGES, ids=lambda test: test.name)
def test_perdure_goes_on_after_a_change_of_code(test: Experiment) -> None:
    facts = run_trial(PERDURE, test, SETTING)
    verdict = judge(test, facts if facts.answer is None else facts.answer)
    assert (verdict.word, verdict.note) == (Word.FINISHED, ""), facts


def test_every_system_has_a_worker_a_lock_and_trials_of_its_own_name() -> None:
    assert len({system.key for system in SYSTEMS}) == len(SYSTEMS)
    for system in SYSTEMS:
        assert system.script.is_file()
        assert (WORKERS.parents[2] / "requirements" / f"compare-{system.env}.lock").is_file()
    names = [name for system in SYSTEMS for _, name in names_of(system, 3)]
    assert len(set(names)) == len(names)
