"""The fake clock: it stands still, wakes whom it must, and the engine asks nobody else for the time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import CallContext, Probe, ToolFailed, tool
from perdure.ports.clock import Clock
from perdure.testing import ClockStands, FakeClock


def test_time_never_passes_by_itself_and_passes_when_it_is_told_to() -> None:
    clock: Clock = FakeClock("2026-03-01T00:00:00Z")
    assert isinstance(clock, FakeClock)
    assert clock.now() == clock.now() == "2026-03-01T00:00:00.000000Z"
    clock.advance(0.25, minutes=1, hours=2, days=3)
    assert (clock.now(), clock.monotonic()) == ("2026-03-04T02:01:00.250000Z", 3 * 86_400 + 7_260.25)
    clock.advance_to("2026-03-04T01:00:00Z")
    assert clock.now() == "2026-03-04T02:01:00.250000Z", "it does not go back by that"
    clock.advance_to("2026-03-04T03:00:00Z")
    assert clock.now() == "2026-03-04T03:00:00.000000Z"
    with pytest.raises(ValueError, match="step"):
        clock.advance(-1)


def test_a_step_back_moves_the_wall_clock_only() -> None:
    clock = FakeClock("2026-03-01T00:00:00Z")
    clock.advance(10)
    clock.step(days=-1)
    assert (clock.now(), clock.monotonic()) == ("2026-02-28T00:00:10.000000Z", 10)
    clock.set_to("2026-03-01T01:00:00+01:00")
    assert (clock.now(), clock.monotonic()) == ("2026-03-01T00:00:00.000000Z", 10)


def test_sleepers_wake_when_their_time_has_come_and_not_before() -> None:
    clock = FakeClock()
    with ThreadPoolExecutor(3) as pool:
        naps = [pool.submit(clock.sleep, seconds) for seconds in (5, 10, 30)]
        clock.wait_for_sleepers(3)
        clock.advance(4.999)
        assert clock.sleeping == 3
        assert clock.advance_to_next() == pytest.approx(0.001)
        naps[0].result(5)
        assert clock.sleeping == 2
        clock.advance(minutes=1)
        for nap in naps:
            nap.result(5)
    assert clock.sleeping == 0
    with pytest.raises(ClockStands, match="nobody sleeps"):
        clock.advance_to_next()
    with pytest.raises(TimeoutError, match="0 of 1 sleep"):
        clock.wait_for_sleepers(timeout_seconds=0.01)


def test_a_task_sleeps_by_it_too_and_a_cancelled_one_is_forgotten() -> None:
    clock = FakeClock()

    async def main() -> None:
        first, second = asyncio.create_task(clock.pause(5)), asyncio.create_task(clock.pause(50))
        await asyncio.to_thread(clock.wait_for_sleepers, 2)
        clock.advance(5)
        await first
        second.cancel()
        await asyncio.wait([second])
        assert clock.sleeping == 0

    asyncio.run(main())


def test_a_sleep_that_nobody_ends_is_an_error_and_not_a_hang() -> None:
    clock = FakeClock(patience_seconds=0.01)
    with pytest.raises(ClockStands, match="skips_sleeps"):
        clock.sleep(1)
    with pytest.raises(ClockStands, match="advance it"):
        asyncio.run(clock.pause(1))
    assert clock.sleeping == 0


def test_a_clock_that_skips_sleeps_moves_on_to_their_end() -> None:
    clock = FakeClock("2026-03-01T00:00:00Z", skips_sleeps=True)
    clock.sleep(3600)
    asyncio.run(clock.pause(3600))
    assert clock.now() == "2026-03-01T02:00:00.000000Z"


@pytest.fixture
def refusals() -> list[str]:
    return []


@pytest.fixture(params=["sync", "async"])
def retried(request: pytest.FixtureRequest, refusals: list[str]) -> Any:
    """An agent whose tool is refused twice, with a pause of 100 s and more after each."""

    @tool(name="refused_twice", side_effect_class="external", scope=["to"], max_attempts=3)
    def refused_twice(to: str) -> int:
        refusals.append(to)
        if len(refusals) < 3:
            raise ToolFailed("not now")
        return len(refusals)

    def main(run: Any) -> Any:
        return refused_twice("ann")

    async def async_main(run: Any) -> Any:
        return await run.call(refused_twice, "ann")

    return main if request.param == "sync" else async_main


def test_an_engine_waits_by_the_clock_that_it_was_given(tmp_path: Path, retried: Any, refusals: list[str]) -> None:
    clock, tuning = FakeClock(), perdure.Tuning(first_retry_seconds=100)
    began = clock.now()
    with (
        perdure.open(state_dir=tmp_path, clock=clock, tuning=tuning) as engine,
        ThreadPoolExecutor(1) as pool,
    ):
        run = pool.submit(engine.run, retried, run_id="r")
        for attempt in (1, 2):
            clock.wait_for_sleepers()
            assert len(refusals) == attempt
            clock.advance_to_next()
        assert run.result(5).result == 3
        row = engine.calls("r")[0]
    assert row["prepared_at"] == began, "no time passed but what the test let pass"
    assert clock.monotonic() > 50, "two pauses of 45 s at least"


def test_a_run_goes_through_its_pauses_at_once_where_sleeps_are_skipped(tmp_path: Path, retried: Any) -> None:
    clock, tuning = FakeClock(skips_sleeps=True), perdure.Tuning(first_retry_seconds=100)
    with perdure.open(state_dir=tmp_path, clock=clock, tuning=tuning) as engine:
        assert engine.run(retried, run_id="r").result == 3
    assert clock.monotonic() > 50, "two pauses of 45 s at least"


@pytest.mark.parametrize("is_async", [False, True])
def test_the_lag_of_a_probe_passes_by_the_clock(tmp_path: Path, is_async: bool) -> None:
    sent: list[str] = []

    @tool(name="lagging", side_effect_class="external", scope=["to"], probe_lag="1h")
    def lagging(to: str) -> str:
        sent.append(to)
        if len(sent) == 1:
            raise ConnectionResetError("the answer was lost before it was sent")
        return to

    @lagging.probe
    def find(call: CallContext) -> Probe:
        return Probe.not_happened(complete=True)

    def main(run: Any) -> Any:
        return lagging("ann")

    async def async_main(run: Any) -> Any:
        return await run.call(lagging, "ann")

    clock = FakeClock(skips_sleeps=True)
    with perdure.open(state_dir=tmp_path, clock=clock) as engine:
        assert engine.run(async_main if is_async else main, run_id="r").result == "ann"
    assert clock.monotonic() >= 3600
    assert sent == ["ann", "ann"]
