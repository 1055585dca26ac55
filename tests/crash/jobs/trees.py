"""An agent that does what a tree says: calls one after another or side by side, in steps, memos and threads."""

import asyncio
from typing import Any

from mails import TOOLS


async def main(run: Any) -> dict[str, int]:
    return await _node(run, run.inputs["tree"])


async def _node(run: Any, node: Any) -> Any:
    kind, *rest = node
    if kind == "call":
        tool, name = rest
        await run.call(TOOLS[tool], run.inputs["url"], f"{run.inputs['tag']}:{name}", "text")
    elif kind == "sequence":
        for child in rest:
            await _node(run, child)
    elif kind == "gather":
        await asyncio.gather(*(_node(run, child) for child in rest))
    elif kind == "group":
        async with asyncio.TaskGroup() as group:
            for child in rest:
                group.create_task(_node(run, child))
    elif kind == "step":
        async with run.step(rest[0]):
            await _node(run, rest[1])
    elif kind == "memo":
        await run.memo(rest[0], _node, run, rest[1], key=rest[0])
    elif kind == "thread":
        await asyncio.to_thread(_calls, run, rest)
    return None


def _calls(run: Any, calls: Any) -> None:
    for _, tool, name in calls:
        TOOLS[tool](run.inputs["url"], f"{run.inputs['tag']}:{name}", "text")
