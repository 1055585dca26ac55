"""The same work through the engine, in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import perdure
from benchmarks import jobs
from benchmarks.measure import Run, Stopwatch


def _check(outcome: perdure.Outcome, calls: int) -> None:
    if outcome.status != "succeeded" or outcome.result != calls:
        raise RuntimeError(f"the run ended {outcome.status} ({outcome.reason}) with {outcome.result!r}")


def one_sync_run(folder: Path, calls: int, *, strict: bool) -> Run:
    """Run one `def main`."""
    with perdure.open(
        f"sqlite:///{folder / 'runtime_state.db'}", tuning=perdure.Tuning(strict_receipts=strict)
    ) as engine:
        watch = Stopwatch()
        outcome = engine.run(jobs.sync_agent(calls, watch.enter))
        run = watch.stop(calls)
    _check(outcome, calls)
    return run


def async_runs(folder: Path, runs: int, calls: int) -> Run:
    """Run `runs` of `async def main` at the same time, `calls` calls each."""

    async def everything() -> Run:
        with perdure.open(f"sqlite:///{folder / 'runtime_state.db'}") as engine:
            watch = Stopwatch()
            outcomes = await asyncio.gather(
                *(engine.arun(jobs.async_agent(calls, watch.enter)) for _ in range(runs))
            )
            result = watch.stop(runs * calls)
        for outcome in outcomes:
            _check(outcome, calls)
        return result

    return asyncio.run(everything())
