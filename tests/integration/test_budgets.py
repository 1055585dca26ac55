"""Budgets: a limit that is reached pauses the run and asks; a grant lets it go on (R036 to R040, C8, C19)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import CallFailed, ToolFailed, UsageError, VerdictRefused, tool
from perdure.ports.clock import SystemClock
from tests.integration.engine_support import Outside, mailer
from tests.integration.job_support import Job


@pytest.fixture
def outside() -> Outside:
    return Outside()


def sending(outside: Outside, how_many: int) -> Callable[[Any], list[str]]:
    """Return a main that sends so many mails."""
    send = mailer(outside)

    def main(run: Any) -> list[str]:
        return [send(f"to{i}") for i in range(how_many)]

    return main


def test_the_call_after_the_last_one_allowed_waits_and_a_grant_lets_it_go(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 2}")
    found = job.life(sending(outside, 4))
    assert (found.status, found.reason, found.exit_code) == ("waiting", "budget", 6)
    assert outside.sent == ["to0:", "to1:"]
    [item] = found.waiting_for
    assert item.summary.startswith("2 of 2 tool calls are used (max_tool_calls)")
    assert item.commands == ("perdure resume r1 --grant calls=2",)
    again = job.life(sending(outside, 4))
    assert (again.reason, again.replayed, len(again.waiting_for)) == ("budget", 0, 1)
    assert outside.sent == ["to0:", "to1:"]
    one_more = job.life(sending(outside, 4), grant={"calls": 1})
    assert (one_more.reason, len(outside.sent)) == ("budget", 3)
    assert one_more.waiting_for[0].id != item.id
    done = job.life(sending(outside, 4), grant={"calls": 5})
    assert (done.status, len(outside.sent), done.replayed) == ("succeeded", 4, 3)
    with job.engine() as engine:
        assert [(grant.kind, grant.amount) for grant in engine.grants("r1")] == [("calls", "1"), ("calls", "5")]
        assert [(item.limit, item.used, item.allowed) for item in engine.budgets("r1")] == [("calls", 4, 8)]


def test_a_call_that_did_nothing_is_given_back_and_one_that_failed_is_not(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 3, max_retries_per_tool_call: 2}")
    send = mailer(outside)
    tries: list[int] = []

    @tool(name="flaky", side_effect_class="external")
    def flaky(n: int) -> int:
        tries.append(n)
        if len(tries) in (1, 3, 4):
            raise ToolFailed(f"not now {len(tries)}")
        return n

    def main(run: Any) -> None:
        flaky(1)  # two requests, one call
        with pytest.raises(CallFailed):
            flaky(2)
        send("a")
        send("b")

    found = job.life(main)
    assert (found.reason, tries, outside.sent) == ("budget", [1, 1, 2, 2], ["a:"])
    with job.engine() as engine:
        assert engine.budgets("r1")[0].used == 3


def test_memos_are_no_tool_calls_and_a_limit_that_is_hit_holds_them_too(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 1}")
    send, computed = mailer(outside), list[str]()

    async def main(run: Any) -> None:
        await run.memo("before", lambda: computed.append("before"))
        await run.call(send, "a")
        await run.memo("at the limit", lambda: computed.append("at the limit"))
        await asyncio.gather(run.call(send, "b"), run.memo("after", lambda: computed.append("after")))

    assert job.life(main).reason == "budget"
    assert (outside.sent, computed) == (["a:"], ["before", "at the limit"])
    assert job.life(main, grant={"calls": 1}).status == "succeeded"
    assert (outside.sent, computed) == (["a:", "b:"], ["before", "at the limit", "after"])


def test_what_is_in_flight_finishes_when_a_sibling_hits_the_limit(tmp_path: Path) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 2}")
    sent: list[str] = []
    third_waits = asyncio.Event()

    @tool(name="slow", side_effect_class="external")
    async def slow(to: str) -> str:
        await asyncio.wait_for(third_waits.wait(), 5)
        sent.append(to)
        return to

    async def main(run: Any) -> list[str]:
        async def last() -> str:
            try:
                return await slow("c")
            finally:
                sent.append("never in this life")

        async def see() -> None:
            while not any(item.parked == "budget" for item in run.door.life.operations):
                await asyncio.sleep(0)
            third_waits.set()

        found = await asyncio.gather(slow("a"), slow("b"), last(), see())
        return list(found[:3])

    found = job.life(main)
    assert (found.reason, found.calls) == ("budget", {"prepared": 1, "succeeded": 2})
    assert sorted(sent) == ["a", "b", "never in this life"]
    third_waits.set()

    async def again(run: Any) -> list[str]:
        return list(await asyncio.gather(slow("a"), slow("b"), slow("c")))

    done = job.life(again, grant={"calls": 1})
    assert (done.status, done.result, sorted(sent)) == ("succeeded", ["a", "b", "c"], ["a", "b", "c", sent[2]])


def test_a_budget_hit_inside_a_memo_waits_and_the_memo_is_entered_again(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 1}")
    send = mailer(outside)

    def both(run: Any) -> str:
        return str(send("a") + send("b"))

    def main(run: Any) -> str:
        return str(run.memo("both", both, run, key="both"))

    assert job.life(main).reason == "budget"
    done = job.life(main, grant={"calls": 1})
    assert (done.status, outside.sent) == ("succeeded", ["a:", "b:"])


@pytest.mark.parametrize("kind", ["sync", "async with", "with in a loop"])
def test_the_step_after_the_last_one_allowed_never_starts(tmp_path: Path, outside: Outside, kind: str) -> None:
    job = Job(tmp_path, "budgets: {max_steps: 2}")
    send = mailer(outside)

    def sync_main(run: Any) -> None:
        for n in range(3):
            with run.step(f"part {n}"):
                send(f"to{n}")

    async def async_main(run: Any) -> None:
        for n in range(3):
            if kind == "async with":
                async with run.step(f"part {n}"):
                    await run.call(send, f"to{n}")
            else:
                with run.step(f"part {n}"):
                    await run.call(send, f"to{n}")

    main = sync_main if kind == "sync" else async_main
    found = job.life(main)
    assert (found.reason, outside.sent) == ("budget", ["to0:", "to1:"])
    assert found.waiting_for[0].commands == ("perdure resume r1 --grant steps=2",)
    with job.engine() as engine:
        assert [step["name"] for step in engine.details("r1")["steps"]] == ["main", "part 0", "part 1"]
    done = job.life(main, grant={"steps": 1})
    assert (done.status, outside.sent) == ("succeeded", ["to0:", "to1:", "to2:"])


def test_minutes_add_up_over_lives_and_the_time_between_them_is_free(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "budgets: {max_wallclock_minutes: 30}")
    send = mailer(outside, repeat="allow")

    def working(minutes: float, then: str) -> Callable[[Any], None]:
        def main(run: Any) -> None:
            job.clock.advance(minutes=minutes)
            send(then)
            raise RuntimeError("stopped")

        return main

    assert job.life(working(20, "a")).status == "failed"
    job.clock.advance(days=3)
    assert job.life(working(9, "b")).status == "failed"
    found = job.life(working(2, "c"))
    assert (found.reason, outside.sent) == ("budget", ["a:", "b:"])
    assert found.waiting_for[0].summary.startswith("31 of 30 active minutes are used (max_wallclock_minutes)")
    job.clock.advance(days=1)
    assert job.life(working(0, "c")).reason == "budget"
    with job.engine() as engine:
        assert engine.budgets("r1")[0].used == 31
    assert job.life(working(0, "c"), grant={"minutes": 5}).status == "failed"
    assert outside.sent == ["a:", "b:", "c:"]


def test_equal_errors_in_a_row_make_the_run_wait(tmp_path: Path) -> None:
    job = Job(tmp_path, "budgets: {max_same_error_repeats: 3, max_retries_per_tool_call: 2}")
    asked: list[int] = []

    @tool(name="fetch", side_effect_class="read_only")
    def fetch(n: int) -> int:
        asked.append(n)
        if n == 2:
            return n
        raise ToolFailed("the server is down")

    @tool(name="other", side_effect_class="read_only")
    def other(n: int) -> int:
        asked.append(100 + n)
        return n

    def main(run: Any) -> None:
        for n in (1, 2, 3, 4):
            other(n)  # another tool's success is no end of the row
            try:
                fetch(n)
            except CallFailed:
                continue

    found = job.life(main)
    assert found.reason == "budget"
    assert asked == [101, 1, 1, 102, 2, 103, 3, 3, 104, 4]
    assert found.waiting_for[0].summary.startswith("3 of 3 equal errors in a row are used (max_same_error_repeats)")
    done = job.life(main, grant={"errors": 1})
    assert (done.status, asked[-1]) == ("succeeded", 4)


def test_tokens_and_money_are_counted_once_whatever_is_replayed(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "budgets: {max_tokens: 100, max_usd: 0.5}")
    send, asked = mailer(outside), list[int]()

    def model(messages: Any) -> dict[str, Any]:
        asked.append(len(messages))
        return {
            "choices": [{"message": {"role": "assistant", "content": "done"}}],
            "usage": {"prompt_tokens": 40, "completion_tokens": 20, "total_tokens": 60},
        }

    def main(run: Any) -> None:
        run.usage(tokens=30, usd=0.1)
        run.usage(tokens=5)
        run.turn("ask", model, [{"role": "user", "content": "go"}])
        send("a")
        run.usage(tokens=5, usd=0.1)
        send("b")

    for _ in range(3):
        found = job.life(main)
        assert (found.reason, outside.sent, asked) == ("budget", ["a:"], [1])
    with job.engine() as engine:
        assert [(item.limit, item.used, item.allowed) for item in engine.budgets("r1")] == [
            ("tokens", 100, 100),
            ("usd", 0.2, 0.5),
        ]
    assert job.life(main, grant={"tokens": 100}).status == "succeeded"
    assert outside.sent == ["a:", "b:"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"callz": 3}, "'callz' is nothing that can be granted; did you mean 'calls'?"),
        ({"steps": 3}, "the job has no max_steps, so there is nothing to add steps to"),
        ({"calls": 0}, "calls=0 is no number above 0"),
        ({"calls": "1.5"}, "calls=1.5 is no whole number"),
        ({"calls": "nan"}, "calls=nan is no number above 0"),
        ({"deadline": "+2h"}, "the job has no deadline, so there is none to extend"),
        ({"minutes": True}, "minutes=True is no number above 0"),
        ({}, "nothing is granted"),
    ],
)
def test_a_grant_that_means_nothing_is_refused_as_a_whole(
    tmp_path: Path, outside: Outside, given: dict[str, object], says: str
) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 1, max_wallclock_minutes: 5}")
    job.life(sending(outside, 2))
    with pytest.raises(UsageError) as refused, job.engine() as engine:
        engine.grant("r1", {"calls": 1, **given} if given else given)
    assert says in refused.value.message
    assert job.life(sending(outside, 2)).reason == "budget"


def test_a_run_that_has_ended_needs_no_grant(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 2}")
    assert job.life(sending(outside, 2)).status == "succeeded"
    with job.engine() as engine, pytest.raises(VerdictRefused, match="has ended"):
        engine.grant("r1", {"calls": 1})


def test_a_grant_that_is_not_enough_leaves_the_question_open(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 1, max_wallclock_minutes: 5}")
    found = job.life(sending(outside, 2))
    with job.engine() as engine:
        engine.grant("r1", {"minutes": 5})
        assert [item.id for _, item in engine.inbox()] == [found.waiting_for[0].id]
        assert engine.outcome("r1").status == "waiting"
        engine.grant("r1", {"calls": 1})
        assert (engine.inbox(), engine.outcome("r1").status) == ([], "queued")


def test_under_wait_a_grant_is_taken_up_by_the_living_process(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 1}")
    send = mailer(outside)
    with job.engine(SystemClock()) as engine:
        granted = threading.Event()

        def grant_when_asked() -> None:
            while not engine.inbox():
                granted.wait(0.005)
            engine.grant("r1", {"calls": 1}, actor="boss")
            granted.set()

        def main(run: Any) -> str:
            threading.Thread(target=grant_when_asked, daemon=True).start()
            send("a")
            return str(send("b"))

        done = job.live_in(engine, main, wait=True)
        assert (done.status, done.attempt, outside.sent) == ("succeeded", 1, ["a:", "b:"])
        assert engine.grants("r1")[0].actor == "boss"


def test_a_deadline_is_extended_by_a_grant_and_the_specification_stays(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "deadline: 2026-01-01T13:00:00Z")
    paid: list[int] = []

    @tool(name="wire", side_effect_class="external", approval="always")
    def wire(cents: int) -> int:
        paid.append(cents)
        return cents

    def main(run: Any) -> int:
        return int(wire(5))

    assert job.life(main).reason == "approval"
    job.clock.advance(hours=2)
    with job.engine() as engine:
        found = engine.outcome("r1")
        assert (found.status, found.error_code, found.exit_code) == ("failed", "deadline", 8)
        spec_before = engine.runs()[0].spec_json
    assert job.life(main).error_code == "deadline"
    found = job.life(main, grant={"deadline": "+2h"})
    assert (found.reason, paid) == ("approval", [])
    with job.engine() as engine:
        engine.approve(found.waiting_for[0].id)
        row = engine.runs()[0]
        assert (row.spec_json, row.deadline_at) == (spec_before, "2026-01-01T16:00:00.000000Z")
        with pytest.raises(UsageError, match="is not later than now"):
            engine.grant("r1", {"deadline": "2026-01-01T15:30:00Z"})
    assert (job.life(main).status, paid) == ("succeeded", [5])


def test_granted_retries_are_requests_more(tmp_path: Path) -> None:
    job, tries = Job(tmp_path, "budgets: {max_retries_per_tool_call: 2}"), list[int]()

    @tool(name="flaky", side_effect_class="external")
    def flaky() -> None:
        tries.append(1)
        raise ToolFailed(f"not now {len(tries)}")

    assert (job.life(lambda run: flaky()).status, len(tries)) == ("failed", 2)
    assert (job.life(lambda run: flaky()).status, len(tries)) == ("failed", 3)  # an explicit resume gets one
    assert (job.life(lambda run: flaky(), grant={"retries": 3}).status, len(tries)) == ("failed", 5)


def test_a_run_that_ended_without_more_asks_for_no_grant(tmp_path: Path) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 1}")

    @tool(name="send", side_effect_class="external")
    async def send(to: str) -> str:
        return to

    async def main(run: Any) -> str:
        await send("a")
        try:
            return await asyncio.wait_for(send("b"), 0.01)
        except TimeoutError:
            return "without b"

    found = job.life(main)
    assert (found.status, found.result, found.waiting_for) == ("succeeded", "without b", ())
