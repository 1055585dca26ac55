"""``run.sleep`` and ``run.ask``: what is waited for is stored, and every life goes on with it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perdure import Outcome, UsageError, VerdictRefused
from perdure.testing import FakeClock
from tests.integration.engine_support import FAST, Outside, live, mailer, open_engine
from tests.integration.test_waiting import run_waiting

HOUR = 3600


def both(main: Any, amain: Any, form: str) -> Any:
    return main if form == "sync" else amain


def sleeper(form: str, woken: list[str], *, seconds: Any = HOUR, until: Any = None) -> Any:
    given = {"until": until} if until is not None else {"seconds": seconds}

    def main(run: Any) -> str:
        run.sleep(**given)
        woken.append("woken")
        return "rested"

    async def amain(run: Any) -> str:
        await run.sleep(**given)
        woken.append("woken")
        return "rested"

    return both(main, amain, form)


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_long_sleep_ends_the_life_and_no_restart_begins_it_anew(tmp_path: Path, form: str) -> None:
    clock, woken = FakeClock(), list[str]()
    main = sleeper(form, woken)
    first = live(tmp_path, main, clock=clock)
    assert (first.status, first.reason, first.exit_code) == ("waiting", "timer", 10)
    (item,) = first.waiting_for
    assert (item.kind, item.summary) == ("timer", "sleeps until 2026-01-01T13:00:00.000000Z")
    clock.advance(minutes=30)
    again = live(tmp_path, main, clock=clock)
    assert (again.reason, again.exit_code, again.attempt, woken) == ("timer", 10, 2, [])
    assert again.waiting_for == first.waiting_for, "the moment is the one of the first life"
    clock.advance(minutes=31)
    done = live(tmp_path, main, clock=clock, resume=True)
    assert (done.status, done.result, woken) == ("succeeded", "rested", ["woken"])
    assert (done.calls, done.replayed) == ({}, 0), "a timer is no tool call"


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_short_sleep_is_waited_for_in_the_process(tmp_path: Path, form: str) -> None:
    clock, woken = FakeClock(skips_sleeps=True), list[str]()
    done = live(tmp_path, sleeper(form, woken, seconds="59s"), clock=clock)
    assert (done.status, done.attempt, woken) == ("succeeded", 1, ["woken"])
    assert clock.now() == "2026-01-01T12:00:59.000000Z"


@pytest.mark.parametrize("until", ["2026-01-01T14:00:00+01:00", datetime(2026, 1, 1, 13, tzinfo=UTC)])
def test_a_moment_is_slept_until_wherever_it_is_written(tmp_path: Path, until: Any) -> None:
    clock, woken = FakeClock(), list[str]()
    main = sleeper("sync", woken, until=until)
    assert live(tmp_path, main, clock=clock).waiting_for[0].summary == "sleeps until 2026-01-01T13:00:00.000000Z"
    clock.advance(hours=1)
    assert live(tmp_path, main, clock=clock).status == "succeeded"


def test_a_moment_that_has_passed_is_not_waited_for(tmp_path: Path) -> None:
    done = live(tmp_path, sleeper("sync", [], until="2020-01-01T00:00:00Z"), clock=FakeClock())
    assert (done.status, done.attempt) == ("succeeded", 1)


def test_the_rest_of_a_sleep_under_a_minute_is_waited_for_in_the_process(tmp_path: Path) -> None:
    clock = FakeClock()
    main = sleeper("sync", [])
    assert live(tmp_path, main, clock=clock).exit_code == 10
    clock.advance(minutes=59.5)
    clock.skips_sleeps = True
    assert (live(tmp_path, main, clock=clock).status, clock.now()) == ("succeeded", "2026-01-01T13:00:00.000000Z")


def test_each_sleep_is_one_of_its_own_and_its_effects_are_not_repeated(tmp_path: Path) -> None:
    outside, clock = Outside(), FakeClock()
    send = mailer(outside)

    def main(run: Any) -> None:
        for number in range(3):
            send(str(number))
            run.sleep("1h")

    for number in range(3):
        assert live(tmp_path, main, clock=clock).exit_code == 10
        assert len(outside.sent) == number + 1
        clock.advance(hours=1)
    assert live(tmp_path, main, clock=clock).status == "succeeded"
    assert outside.sent == ["0:", "1:", "2:"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"seconds": 1, "until": "2026-01-01T00:00:00Z"},
        {"seconds": -1},
        {"seconds": "soon"},
        {"seconds": "forever"},
        {"until": "2026-01-01T00:00:00"},
        {"until": "noon"},
    ],
)
def test_a_sleep_that_cannot_be_meant_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    def main(run: Any) -> None:
        with pytest.raises(UsageError):
            run.sleep(**given)

    assert live(tmp_path, main).status == "succeeded"


def test_a_branch_that_gives_up_waiting_leaves_no_timer_behind(tmp_path: Path) -> None:
    async def main(run: Any) -> str:
        try:
            await asyncio.wait_for(run.sleep("1h"), 0.01)
        except TimeoutError:
            return str(await run.memo("other", lambda: "went on"))
        return "slept"

    with open_engine(tmp_path) as engine:
        assert engine.run(main, run_id="r1").result == "went on"
        assert [call["status"] for call in engine.calls("r1", inner=True)] == ["cancelled", "succeeded"]


def test_no_rule_of_a_policy_makes_an_effect_of_a_timer_or_a_question(tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\nrules:\n  - {tool: '*', side_effect_class: external, approval: always}\n")

    def main(run: Any) -> None:
        run.sleep(0)
        run.ask("go on?")

    with open_engine(tmp_path, policies=[policy]) as engine:
        assert engine.run(main, run_id="r1").reason == "question"
        classes = {call["side_effect_class"] for call in engine.calls("r1", inner=True)}
        assert classes == {"local"}


# --- questions -------------------------------------------------------------------------------------------------------


def asker(form: str, heard: list[str], options: Any = None) -> Any:
    def main(run: Any) -> str:
        heard.append(run.ask("Which one?", options=options))
        return heard[-1]

    async def amain(run: Any) -> str:
        heard.append(await run.ask("Which one?", options=options))
        return heard[-1]

    return both(main, amain, form)


@pytest.mark.parametrize("form", ["sync", "async"])
def test_an_answer_is_the_same_in_every_life(tmp_path: Path, form: str) -> None:
    heard: list[str] = []
    main = asker(form, heard)

    def failing(run: Any) -> None:
        run.ask("Which one?")
        raise ValueError

    first = live(tmp_path, main)
    assert (first.status, first.reason, first.exit_code, heard) == ("waiting", "question", 6, [])
    assert live(tmp_path, main).waiting_for == first.waiting_for, "a restart asks nobody anew"
    (item,) = first.waiting_for
    assert (item.kind, item.summary) == ("question", "Which one?")
    assert item.commands[0].startswith(f"perdure answer {item.id} TEXT ")
    with open_engine(tmp_path) as engine:
        engine.answer(item.id, "the second", actor="ann")
        assert engine.outcome("r1").status == "queued"
        assert engine.inbox() == []
        with pytest.raises(VerdictRefused, match="nobody waits"):
            engine.answer(item.id, "the first")
        assert [said["actor"] for said in engine.call("r1.1")["evidence"]] == ["ann"]
    if form == "sync":
        assert live(tmp_path, failing, resume=True).status == "failed"
        assert live(tmp_path, main, resume=True).result == "the second"
    else:
        assert live(tmp_path, main).result == "the second"
    assert heard == ["the second"]


def test_only_one_of_the_options_is_an_answer(tmp_path: Path) -> None:
    main = asker("sync", [], options=["yes", "no, never"])
    (item,) = live(tmp_path, main).waiting_for
    said = [command.partition(" --state-dir")[0] for command in item.commands]
    assert said == [f"perdure answer {item.id} yes", f"perdure answer {item.id} 'no, never'"]
    with open_engine(tmp_path) as engine:
        with pytest.raises(VerdictRefused, match="one of: yes, no, never"):
            engine.answer(item.id, "maybe")
        engine.answer(item.id, "no, never")
    assert live(tmp_path, main).result == "no, never"


@pytest.mark.parametrize("form", ["sync", "async"])
def test_who_stays_gets_the_answer_in_place(tmp_path: Path, form: str) -> None:
    done = run_waiting(tmp_path, asker(form, []), lambda engine, item: engine.answer(item.id, "here"))
    assert (done.status, done.result, done.attempt) == ("succeeded", "here", 1)


def test_several_questions_are_asked_at_once_and_answered_in_any_order(tmp_path: Path) -> None:
    async def main(run: Any) -> list[str]:
        return list(await asyncio.gather(run.ask("one?"), run.ask("two?"), run.ask("one?")))

    first = live(tmp_path, main)
    assert [item.summary for item in first.waiting_for] == ["one?", "two?", "one?"]
    with open_engine(tmp_path) as engine:
        for number in (2, 0):
            engine.answer(first.waiting_for[number].id, f"answer {number}")
            assert engine.outcome("r1").status == "waiting"
    assert live(tmp_path, main).status == "waiting"
    with open_engine(tmp_path) as engine:
        engine.answer(first.waiting_for[1].id, "answer 1")
    assert live(tmp_path, main).result == ["answer 0", "answer 1", "answer 2"]


def test_a_person_goes_before_the_time(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main(run: Any) -> str:
        _, said = await asyncio.gather(run.sleep("1h"), run.ask("well?"))
        return str(said)

    def lived() -> Outcome:
        return live(tmp_path, main, clock=clock)

    first = lived()
    assert (first.reason, [item.kind for item in first.waiting_for]) == ("question", ["question", "timer"])
    with open_engine(tmp_path) as engine:
        engine.answer(first.waiting_for[0].id, "yes")
    assert lived().reason == "timer"
    clock.advance(hours=1)
    assert lived().result == "yes"


def test_cancelling_takes_timers_and_questions_back(tmp_path: Path) -> None:
    async def main(run: Any) -> None:
        await asyncio.gather(run.sleep("1h"), run.ask("well?"))

    with open_engine(tmp_path, tuning=FAST) as engine:
        first = engine.run(main, run_id="r1")
        assert engine.cancel("r1").waiting_for == ()
        assert engine.inbox() == []
        with pytest.raises(VerdictRefused):
            engine.answer(first.waiting_for[0].id, "too late")


@pytest.mark.parametrize(
    "given", [{"question": " "}, {"question": "x", "options": "yes"}, {"question": "x", "options": ["a", "a"]}]
)
def test_a_question_that_cannot_be_meant_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    def main(run: Any) -> None:
        with pytest.raises(UsageError):
            run.ask(**given)

    assert live(tmp_path, main).status == "succeeded"
