"""Failures about which a person is asked: the run waits, nothing fires meanwhile, and the answer goes on (R042)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import CallFailed, ToolFailed, VerdictRefused, tool
from tests.integration.engine_support import Outside, mailer
from tests.integration.job_support import Job

KINDS = {"auth": "ask_human_on_auth_failure", "ambiguous_recipient": "ask_human_on_ambiguous_recipient"}


@pytest.fixture
def outside() -> Outside:
    return Outside()


class Door:
    """A provider that lets nobody in until it is opened."""

    def __init__(self, kind: str | None) -> None:
        self.kind, self.open, self.tries = kind, False, 0

    def tool(self) -> Any:
        """Return a tool that knocks."""

        @tool(name="knock", side_effect_class="external")
        def knock(n: int = 0) -> str:
            self.tries += 1
            if not self.open:
                raise ToolFailed("401: who are you?", kind=self.kind)
            return f"in {n}"

        return knock


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_failure_of_that_kind_waits_for_a_person_and_retry_goes_on(
    tmp_path: Path, outside: Outside, kind: str, is_async: bool
) -> None:
    job, door, send = Job(tmp_path, f"escalation: {{{KINDS[kind]}: true}}"), Door(kind), mailer(outside)
    knock = door.tool()

    def main(run: Any) -> str:
        said = knock()
        send("after")
        return str(said)

    async def main_async(run: Any) -> str:
        said = await run.call(knock)
        await run.call(send, "after")
        return str(said)

    chosen = main_async if is_async else main
    found = job.life(chosen)
    assert (found.status, found.reason, found.exit_code, door.tries) == ("waiting", "question", 6, 1)
    [item] = found.waiting_for
    assert "knock(n=0): 401: who are you?" in item.summary
    assert item.commands == (f"perdure answer {item.id} retry", f"perdure answer {item.id} 'give up'")
    assert (job.life(chosen).reason, door.tries, outside.sent) == ("question", 1, [])
    with job.engine() as engine:
        with pytest.raises(VerdictRefused, match="is answered by 'retry' or 'give up'"):
            engine.answer(item.id, "whatever")
        engine.answer(item.id, "Retry")
    again = job.life(chosen)
    assert (again.reason, door.tries, again.waiting_for[0].id == item.id) == ("question", 2, False)
    door.open = True
    with job.engine() as engine:
        engine.approve(again.waiting_for[0].id)
    done = job.life(chosen)
    assert (done.status, done.result, door.tries, outside.sent) == ("succeeded", "in 0", 3, ["after:"])


@pytest.mark.parametrize("by", ["answer", "deny"])
def test_giving_up_hands_the_failure_to_the_program(tmp_path: Path, outside: Outside, by: str) -> None:
    job, door, send = Job(tmp_path, "escalation: {ask_human_on_auth_failure: true}"), Door("auth"), mailer(outside)
    knock = door.tool()

    def main(run: Any) -> str:
        with pytest.raises(CallFailed, match="401: who are you") as failed:
            knock()
        send("instead")
        return str(failed.value.error_type)

    item = job.life(main).waiting_for[0]
    with job.engine() as engine:
        if by == "answer":
            engine.answer(item.id, "give up", actor="boss")
        else:
            engine.deny(item.id, reason="later", actor="boss")
        with pytest.raises(VerdictRefused):
            engine.approve(item.id)
    done = job.life(main)
    assert (done.status, done.result, door.tries, outside.sent) == ("succeeded", "ToolFailed", 1, ["instead:"])


def test_without_the_escalation_it_is_an_ordinary_failure(tmp_path: Path) -> None:
    job = Job(tmp_path, "escalation: {ask_human_on_auth_failure: false}\nbudgets: {max_retries_per_tool_call: 2}")
    door = Door("auth")
    knock = door.tool()
    found = job.life(lambda run: knock())
    assert (found.status, found.error_code, door.tries) == ("failed", "CallFailed", 2)


def test_no_other_effect_starts_while_a_person_is_asked(tmp_path: Path, outside: Outside) -> None:
    job, door, send = Job(tmp_path, "escalation: {ask_human_on_auth_failure: true}"), Door("auth"), mailer(outside)
    knock, reads = door.tool(), list[int]()

    @tool(name="look", side_effect_class="read_only")
    async def look() -> int:
        reads.append(1)
        return 1

    async def main(run: Any) -> list[Any]:
        async def later() -> str:
            while not door.tries:
                await asyncio.sleep(0)
            await look()
            return str(await run.call(send, "sibling"))

        return list(await asyncio.gather(run.call(knock), later()))

    found = job.life(main)
    assert (found.reason, outside.sent, len(found.waiting_for)) == ("question", [], 1)
    door.open = True
    with job.engine() as engine:
        engine.answer(found.waiting_for[0].id, "retry")
    done = job.life(main)
    assert (done.status, outside.sent, reads) == ("succeeded", ["sibling:"], [1])


@pytest.mark.parametrize(
    ("budget", "after", "then"),
    [("budgets: {max_same_error_repeats: 2}", 2, ("waiting", 4)), ("", 3, ("failed", 5))],
)
def test_repeated_failures_ask_a_person(tmp_path: Path, budget: str, after: int, then: tuple[str, int]) -> None:
    """Whichever limit is hit first wins: with five requests allowed, the second row of three ends before its end."""
    job, door = Job(tmp_path, f"escalation: {{ask_human_on_repeated_failures: true}}\n{budget}"), Door(None)
    knock = door.tool()
    found = job.life(lambda run: knock(7))
    assert (found.reason, door.tries) == ("question", after)
    with job.engine() as engine:
        engine.answer(found.waiting_for[0].id, "retry")
    found = job.life(lambda run: knock(7))
    assert (found.status, door.tries) == then


def test_an_error_of_a_reading_tool_is_asked_about_too(tmp_path: Path) -> None:
    job = Job(tmp_path, "escalation: {ask_human_on_repeated_failures: true}\nbudgets: {max_same_error_repeats: 2}")
    broken = [True]

    @tool(name="parse", side_effect_class="read_only")
    def parse(n: int) -> int:
        if broken[0]:
            raise ValueError("no such table")
        return n

    def main(run: Any) -> int:
        try:
            return int(parse(1))
        except CallFailed:
            return int(parse(2))

    found = job.life(main)
    assert (found.reason, found.calls) == ("question", {"awaiting_approval": 1, "failed": 1})
    broken[0] = False
    with job.engine() as engine:
        engine.answer(found.waiting_for[0].id, "retry")
    assert job.life(main).result == 2


def test_a_kind_that_nobody_knows_is_a_mistake_of_the_tool() -> None:
    with pytest.raises(ValueError, match="is neither 'auth' nor 'ambiguous_recipient'"):
        ToolFailed("x", kind="authentication")
