"""Async agents: operations of several branches share one ledger and one life."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from perdure import tool

from tests.integration.engine_support import live


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
    assert failed.error_detail == str(done.result) == "[2, 1]"
    assert len(sent) == 2
