"""What another process grants is noticed by a run that lives: before a limit stops it, the ledger is read once more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import ToolFailed, tool
from perdure.ports.clock import after
from perdure.testing import FakeClock
from tests.integration.engine_support import Outside, mailer
from tests.integration.job_support import Job


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("granted", [True, False])
def test_a_later_deadline_is_noticed_by_a_living_run(tmp_path: Path, is_async: bool, granted: bool) -> None:
    job, outside = Job(tmp_path, f"deadline: {after(FakeClock().now(), 3600)}"), Outside()
    send = mailer(outside)

    def extend() -> None:
        if granted:
            with job.engine() as elsewhere:
                elsewhere.grant("r1", {"deadline": "+3h"})
        job.clock.advance(hours=2)

    def main(run: Any) -> Any:
        extend()
        return run.call(send, "a")

    async def main_async(run: Any) -> Any:
        extend()
        return await run.call(send, "a")

    with job.engine() as engine:
        done = job.live_in(engine, main_async if is_async else main)
        assert (done.status, len(outside.sent)) == (("succeeded", 1) if granted else ("failed", 0))


def test_more_requests_of_a_call_are_noticed_by_a_living_run(tmp_path: Path) -> None:
    job, tried = Job(tmp_path, "budgets: {max_retries_per_tool_call: 2}"), list[int]()

    @tool(name="ask", side_effect_class="external")
    def ask() -> str:
        tried.append(1)
        if len(tried) == 2:
            with job.engine() as elsewhere:
                elsewhere.grant("r1", {"retries": 2})
        if len(tried) < 4:
            raise ToolFailed("busy")
        return "done"

    with job.engine() as engine:
        done = job.live_in(engine, lambda run: ask(), wait=True)
        assert (done.status, len(tried)) == ("succeeded", 4)


def test_more_calls_are_noticed_by_a_living_run(tmp_path: Path) -> None:
    job, outside = Job(tmp_path, "budgets: {max_tool_calls: 1}"), Outside()
    send = mailer(outside)

    def main(run: Any) -> int:
        send("a")
        with job.engine() as elsewhere:
            elsewhere.grant("r1", {"calls": 1})
        send("b")
        return len(outside.sent)

    with job.engine() as engine:
        assert job.live_in(engine, main).result == 2
