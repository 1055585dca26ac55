"""Async agents: operations of several branches share one ledger and one life."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from perdure import tool
from tests.integration.engine_support import Crash, Outside, live


def test_a_receipt_that_is_on_its_way_to_the_ledger_puts_no_other_branch_on_hold(tmp_path: Path) -> None:
    @tool(side_effect_class="external", scope=["x"])
    async def send(x: int, delay_seconds: float) -> int:
        await asyncio.sleep(delay_seconds)
        return x

    async def chain(branch: int) -> None:
        for i in range(6):
            await send(100 * branch + i, 0.0003 * (1 + branch))

    async def main(run: Any) -> str:
        await asyncio.gather(*(chain(branch) for branch in range(4)))
        return "ok"

    for n in range(25):
        done = live(tmp_path / str(n), main)
        assert (done.status, done.calls) == ("succeeded", {"succeeded": 24})


def test_twins_that_run_in_parallel_each_meet_their_own_receipt_again(tmp_path: Path) -> None:
    sent: list[int] = []

    @tool(side_effect_class="external")
    async def remind(to: str) -> int:
        sent.append(1)
        return len(sent)

    async def branch(seconds: float) -> int:
        await asyncio.sleep(seconds)
        return await remind("a")

    async def first(run: Any) -> list[int]:
        got = await asyncio.gather(branch(0.02), branch(0.0))
        raise RuntimeError(str(got))

    async def second(run: Any) -> list[int]:
        return await asyncio.gather(branch(0.0), branch(0.02))

    failed = live(tmp_path, first)
    done = live(tmp_path, second, resume=True)
    assert (failed.error_detail or "").startswith("[2, 1]")
    assert done.result == [2, 1]
    assert len(sent) == 2


def test_many_runs_share_a_loop_and_leave_it_as_it_was(tmp_path: Path) -> None:
    from tests.integration.engine_support import open_engine

    @tool(side_effect_class="external")
    async def send(n: int) -> int:
        await asyncio.sleep(0.001 * (n % 3))
        return n

    async def main(run: Any) -> list[int]:
        return await asyncio.gather(*(send(n) for n in range(5)))

    async def go() -> None:
        loop = asyncio.get_running_loop()
        with open_engine(tmp_path) as engine:
            done = await asyncio.gather(*(engine.arun(main, run_id=f"r{i}") for i in range(20)))
            assert {outcome.status for outcome in done} == {"succeeded"}
            branches = {call["run_id"] for call in engine.calls(limit=1000)}
        assert len(branches) == 20
        assert loop.get_task_factory() is None

    asyncio.run(go())


def test_a_cancel_before_the_start_leaves_no_doubt_and_sends_nothing(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(side_effect_class="external", scope=["x"])
    async def send(x: str) -> str:
        await asyncio.sleep(0.002)
        sent.append(x)
        return x

    async def noise(k: int) -> None:
        for i in range(3):
            await send(f"n{k}.{i}")

    def cancelled_after(turns: int) -> Any:
        async def main(run: Any) -> str:
            others = asyncio.gather(noise(0), noise(1))
            task = asyncio.create_task(run.call(send, "target"))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            try:
                got = str(await task)
            except asyncio.CancelledError:
                got = "cancelled"
            await others
            await send("last")
            return got

        return main

    for turns in range(12):
        sent.clear()
        done = live(tmp_path / str(turns), cancelled_after(turns))
        assert done.status == "succeeded"
        assert sent.count("target") == (1 if done.result == "target" else 0)


def test_an_agent_that_swallows_every_cancel_does_not_keep_the_process(tmp_path: Path) -> None:
    @tool(side_effect_class="external", approval="always")
    async def send() -> None:
        return None

    async def main(run: Any) -> None:
        await run.memo("before", lambda: 1)
        try:
            await send()
        except asyncio.CancelledError:
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    continue

    done = live(tmp_path, main)
    assert (done.status, done.reason) == ("waiting", "approval")


def test_wait_for_around_a_send_in_flight_returns_the_receipt(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(side_effect_class="external")
    async def send(by: str) -> str:
        await asyncio.sleep(0.1)
        sent.append(by)
        return by

    async def main(run: Any) -> str:
        try:
            return str(await asyncio.wait_for(send("A"), 0.02))
        except TimeoutError:
            return str(await send("B"))

    assert live(tmp_path, main).result == "A"
    assert sent == ["A"]


def test_a_row_inside_a_finished_memo_is_met_with_the_memo_and_not_taken_from_outside(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(side_effect_class="external")
    async def send(text: str) -> int:
        sent.append(text)
        return len(sent)

    async def inner() -> int:
        return await send("x")

    async def first(run: Any) -> None:
        await run.memo("m", inner)
        raise RuntimeError("the second send never began")

    async def second(run: Any) -> list[int]:
        async def left() -> int:
            await asyncio.sleep(0.02)
            return int(await run.memo("m", inner))

        return await asyncio.gather(left(), send("x"))

    live(tmp_path, first)
    done = live(tmp_path, second, resume=True)
    assert (done.status, done.result) == ("succeeded", [1, 2])
    assert sent == ["x", "x"]


def test_what_a_sync_function_gives_back_to_be_awaited_is_awaited(tmp_path: Path) -> None:
    async def compute(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1

    async def main(run: Any) -> int:
        return int(await run.memo("m", lambda: compute(1)))

    def sync_main(run: Any) -> int:
        return int(run.memo("m", lambda: compute(1)))

    assert live(tmp_path / "a", main).result == 2
    assert live(tmp_path / "b", sync_main).result == 2


def test_a_challenge_that_is_raised_waits_for_the_other_branches_too(tmp_path: Path) -> None:
    """Another branch meets the row in question a moment later: nothing speaks against the call then (semantics #5)."""
    outside = Outside()

    @tool(name="send", side_effect_class="external")
    async def send(to: str) -> str:
        outside.sent.append(to)
        return f"sent to {to}"

    async def main(run: Any) -> Any:
        met = asyncio.Event()

        async def one() -> Any:
            if run.attempt == 1:
                await met.wait()
                raise Crash
            return await run.call(send, "a", on_challenge="raise")

        async def two() -> Any:
            await asyncio.sleep(0)
            told = await run.call(send, "b")
            met.set()
            return told

        return await asyncio.gather(one(), two())

    live(tmp_path, main)
    assert live(tmp_path, main, resume=True).result == ["sent to a", "sent to b"]
    assert outside.sent == ["b", "a"]


def test_a_challenge_that_nobody_resolves_is_raised_when_the_run_is_quiet(tmp_path: Path) -> None:
    outside = Outside()

    @tool(name="send", side_effect_class="external")
    async def send(to: str) -> str:
        outside.sent.append(to)
        return f"sent to {to}"

    async def main(run: Any) -> Any:
        if run.attempt == 1:
            await run.call(send, "b")
            raise Crash
        told = await run.call(send, "a", on_challenge="return")
        return type(told).__name__

    live(tmp_path, main)
    assert live(tmp_path, main, resume=True).result == "CallChallenged"
    assert outside.sent == ["b"]
