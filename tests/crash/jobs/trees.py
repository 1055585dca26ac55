"""An agent that does what a tree says: calls one after another or side by side, in steps, memos and threads."""

import asyncio
import contextlib
from typing import Any

from mails import TOOLS


async def main(run: Any) -> None:
    await node(run, run.inputs["tree"])


async def node(run: Any, tree: Any) -> None:
    kind, *rest = tree
    await KINDS[kind](run, *rest)


async def _call(run: Any, tool: str, name: str) -> None:
    await run.call(TOOLS[tool], run.inputs["url"], f"{run.inputs['tag']}:{name}", "text")


async def _sequence(run: Any, *children: Any) -> None:
    for child in children:
        await node(run, child)


async def _gather(run: Any, *children: Any) -> None:
    await asyncio.gather(*(node(run, child) for child in children))


async def _group(run: Any, *children: Any) -> None:
    async with asyncio.TaskGroup() as group:
        for child in children:
            group.create_task(node(run, child))


async def _step(run: Any, name: str, child: Any) -> None:
    async with run.step(name):
        await node(run, child)


async def _memo(run: Any, name: str, child: Any) -> None:
    await run.memo(name, node, run, child, key=name)


async def _bounded(run: Any, seconds: float, child: Any) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(node(run, child), seconds)


async def _thread(run: Any, *calls: Any) -> None:
    await asyncio.to_thread(_calls, run, calls)


def _calls(run: Any, calls: Any) -> None:
    for _, tool, name in calls:
        TOOLS[tool](run.inputs["url"], f"{run.inputs['tag']}:{name}", "text")


KINDS = {
    "call": _call,
    "sequence": _sequence,
    "gather": _gather,
    "group": _group,
    "step": _step,
    "memo": _memo,
    "bounded": _bounded,
    "thread": _thread,
}
