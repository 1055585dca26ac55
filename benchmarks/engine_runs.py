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


def _open(folder: Path, strict: bool) -> perdure.Engine:
    tuning = perdure.Tuning(strict_receipts=strict)
    return perdure.open(f"sqlite:///{folder / 'runtime_state.db'}", tuning=tuning)


def one_sync_run(folder: Path, calls: int, *, strict: bool) -> Run:
    """Run one `def main`; `strict` waits for each receipt's own commit."""
    with _open(folder, strict) as engine:
        watch = Stopwatch()
        outcome = engine.run(jobs.sync_agent(calls, watch.enter))
        run = watch.stop(calls)
    _check(outcome, calls)
    return run


def async_runs(folder: Path, runs: int, calls: int, *, strict: bool) -> Run:
    """Run `runs` of `async def main` at the same time, `calls` calls each."""

    async def everything() -> Run:
        with _open(folder, strict) as engine:
            watch = Stopwatch()
            lives = [engine.arun(jobs.async_agent(calls, watch.enter)) for _ in range(runs)]
            outcomes = await asyncio.gather(*lives)
            result = watch.stop(runs * calls)
        for outcome in outcomes:
            _check(outcome, calls)
        return result

    return asyncio.run(everything())


def warm_up(folder: Path) -> None:
    """Make two calls of each kind, so that no measured run pays for imports."""
    one_sync_run(folder / "sync", 2, strict=False)
    async_runs(folder / "async", 1, 2, strict=False)
