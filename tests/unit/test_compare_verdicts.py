"""The comparison's judge believes the mail server and not the system, and never leaves a trial or a system out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.compare.report import Results, Row, decode, encode, own_words, tables
from benchmarks.compare.verdicts import (
    ADDED,
    CALM,
    CHANGES,
    MAIL,
    MAIL_FIRST,
    RENAMED,
    SAID,
    SAME,
    SIGKILLED,
    Experiment,
    Facts,
    Word,
    judge,
    mails_sent,
    summed,
)

SENT_ONCE = Facts(SIGKILLED, {"mail": 1}, {"mail": 1}, {"compute": 1}, "finished")
BOTH = {"announce": 1, "report": 1}
CHANGED = Facts(SIGKILLED, {"announce": 1}, BOTH, {"compute": 2}, "finished")


@pytest.mark.parametrize(
    ("test", "facts", "word"),
    [
        (MAIL, SENT_ONCE, Word.FINISHED),
        (MAIL, replace(SENT_ONCE, after={"mail": 2}), Word.REPEATED),
        (MAIL, replace(SENT_ONCE, after={}), Word.DROPPED),
        (MAIL, replace(SENT_ONCE, said="waiting"), Word.WAITING),
        (MAIL, replace(SENT_ONCE, said="failed"), Word.FAILED),
        (MAIL, replace(SENT_ONCE, said="pending"), Word.STUCK),
        (MAIL, replace(SENT_ONCE, said=None), Word.STUCK),
        (CALM, Facts(None, {}, {"mail": 1}, {}, "finished"), Word.FINISHED),
        (CALM, Facts(None, {}, {}, {}, "finished"), Word.DROPPED),
        (SAME, CHANGED, Word.FINISHED),
        (RENAMED, replace(CHANGED, after={"announce": 1}), Word.DROPPED),
        (RENAMED, replace(CHANGED, after={"announce": 2}), Word.DROPPED),
        (MAIL_FIRST, replace(CHANGED, after={"greet": 1, "announce": 2, "report": 1}), Word.REPEATED),
        (ADDED, CHANGED, Word.FINISHED),
    ],
)
def test_the_word_for_a_trial(test: Experiment, facts: Facts, word: Word) -> None:
    assert judge(test, facts).word is word


@pytest.mark.parametrize("test", [MAIL, *CHANGES])
@pytest.mark.parametrize("said", [*SAID, None])
def test_no_system_finishes_by_its_word_alone(test: Experiment, said: str | None) -> None:
    facts = Facts(SIGKILLED, test.due_before, {}, {}, said)
    assert judge(test, facts).word is not Word.FINISHED


@pytest.mark.parametrize("test", [MAIL, *CHANGES])
@pytest.mark.parametrize("said", [*SAID, None])
def test_a_mail_too_many_is_told_whatever_the_system_says(test: Experiment, said: str | None) -> None:
    twice = Facts(SIGKILLED, test.due_before, dict.fromkeys(test.due, 2), {}, said)
    verdict = judge(test, twice)
    assert verdict.word is not Word.FINISHED
    assert f"{test.due[0]}: 2 times" in verdict.note


@pytest.mark.parametrize("exit_code", [None, 0, 1, -15, 137])
def test_a_life_that_was_not_ended_by_sigkill_is_no_trial(exit_code: int | None) -> None:
    verdict = judge(MAIL, replace(SENT_ONCE, exit_code=exit_code))
    assert verdict.word is Word.NOTHING
    assert str(exit_code) in verdict.note


@pytest.mark.parametrize("before", [{}, {"mail": 2}, {"mail": 1, "other": 1}])
def test_a_kill_at_another_moment_is_no_trial(before: dict[str, int]) -> None:
    assert judge(MAIL, replace(SENT_ONCE, before=before)).word is Word.NOTHING


def test_a_word_the_judge_does_not_know_is_no_trial() -> None:
    assert judge(MAIL, replace(SENT_ONCE, said="ok")).word is Word.NOTHING


def test_trouble_of_the_harness_is_never_a_verdict_on_the_system() -> None:
    verdict = judge(MAIL, Facts(trouble="no port"))
    assert (verdict.word, verdict.note) == (Word.NOTHING, "no port")


def test_a_new_step_that_was_not_run_is_told() -> None:
    assert judge(ADDED, CHANGED).note == "new step not run: check"
    assert judge(ADDED, replace(CHANGED, reads={"check": 1, "compute": 2})).note == ""


def test_dropped_work_and_a_repeated_mail_are_both_told() -> None:
    verdict = judge(RENAMED, replace(CHANGED, after={"announce": 2}))
    assert str(verdict) == "finished, but silently dropped work (never sent: report; announce: 2 times)"


def test_trials_that_differ_are_all_shown() -> None:
    twice = replace(SENT_ONCE, after={"mail": 2})
    cell = summed(MAIL, [SENT_ONCE, twice, SENT_ONCE], 3)
    assert cell == "finished, 2 of 3; finished, but sent a mail again (mail: 2 times), 1 of 3"
    assert mails_sent([SENT_ONCE, twice, SENT_ONCE], "mail") == "1, 2, 1"


def test_trials_that_are_missing_are_not_forgotten() -> None:
    assert summed(MAIL, [SENT_ONCE], 3) == "not measured (no trial), 2 of 3; finished, 1 of 3"
    assert mails_sent([SENT_ONCE, Facts(trouble="no port")], "mail") == "1, ?"
    assert mails_sent([], "mail") == "?"


ALL_TESTS = tuple(test.name for test in (CALM, MAIL, *CHANGES))
GOOD = Row(
    "good",
    "Good",
    {"good": "1.0"},
    ALL_TESTS,
    {
        "calm": [Facts(None, {}, {"mail": 1}, {}, "finished")],
        "mail": [replace(SENT_ONCE, said="waiting", detail="I `ask`", answer=SENT_ONCE)] * 3,
        **{test.name: [CHANGED] * 3 for test in CHANGES},
    },
)
RESULTS = Results("2026-11-22", "a machine", 3, 60.0, (GOOD,))


def test_a_system_that_could_not_run_keeps_its_rows() -> None:
    absent = Row("absent", "Absent", {}, ALL_TESTS, could_not_run="no wheel\nfor this machine")
    shown = tables(replace(RESULTS, rows=(GOOD, absent)))
    rows = [line for line in shown.splitlines() if line.startswith("| Absent |")]
    assert len(rows) == 2
    assert all("could not run: no wheel for this machine" in row for row in rows)
    assert {row.count(" |") for row in rows} == {4, 5}, "as many cells as the head has"


def test_a_control_that_went_wrong_is_told() -> None:
    assert "Control: not killed, each of these 1 sent 1 mail and finished." in tables(RESULTS)
    for calm in ([], [Facts(None, {}, {"mail": 2}, {}, "finished")], [Facts(None, {}, {"mail": 1}, {}, "failed")]):
        bad = replace(GOOD, trials={**GOOD.trials, "calm": calm})
        assert "did not: Good: " in tables(replace(RESULTS, rows=(bad,)))


def test_what_became_of_the_job_after_an_answer_is_shown() -> None:
    assert "| 1, 1, 1 | waits for a person, 3 of 3; after the answer: finished, 3 of 3 |" in tables(RESULTS)
    wrong = replace(SENT_ONCE, said="waiting", answer=replace(SENT_ONCE, after={"mail": 2}))
    bad = replace(GOOD, trials={**GOOD.trials, "mail": [wrong]})
    assert "after the answer: finished, but sent a mail again (mail: 2 times), 1 of 1" in tables(
        replace(RESULTS, rows=(bad,))
    )


def test_the_words_of_a_system_are_quoted_with_the_time_it_was_watched() -> None:
    assert own_words(RESULTS) == "- Good (killed between “sent” and “recorded”, 0 s): `I 'ask'`"


def test_results_survive_the_file_and_hold_facts_only() -> None:
    text = encode(RESULTS)
    assert tables(decode(text)) == tables(RESULTS)
    assert [word for word in Word if word not in SAID and word in text] == []
    document = json.loads(text)
    document["rows"][0]["trials"]["mail"][0]["after"] = {"mail": 5}
    assert "mail: 5 times" in tables(decode(json.dumps(document))), "a verdict is made from the facts each time"


def test_another_document_is_refused() -> None:
    with pytest.raises(ValueError, match=r"perdure\.compare/v1"):
        decode('{"schema": "perdure.bench/v1"}')
