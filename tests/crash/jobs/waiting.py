"""Async agents in which one call must wait for a person while its siblings send."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

from reference import answered

from perdure import CallContext, tool
from perdure.testing.provider.request import post


@tool(side_effect_class="external", scope=["what"])
async def doubtful(url: str, what: str) -> dict[str, Any]:
    """The tests drop the reply: only a person can tell."""
    return answered(await asyncio.to_thread(post, f"{url}/plain", {"what": what}), 201)


@tool(side_effect_class="external", scope=["what"], approval="always")
async def approved(url: str, what: str) -> dict[str, Any]:
    return answered(await asyncio.to_thread(post, f"{url}/plain", {"what": what}), 201)


@tool(side_effect_class="external", scope=["what"], key_ttl="24h")
async def sibling(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    key = {"Idempotency-Key": call.idempotency_key}
    return answered(await asyncio.to_thread(post, f"{url}/keyed", {"what": what}, key), 201)


@tool(side_effect_class="external", scope=["what"])
def in_a_thread(url: str, what: str) -> dict[str, Any]:
    return answered(post(f"{url}/plain", {"what": what}), 201)


@tool(side_effect_class="external", scope=["what"], timeout="50ms")
def impatient(url: str, what: str) -> dict[str, Any]:
    """The tests delay the reply far beyond the timeout."""
    return answered(post(f"{url}/plain", {"what": what}), 201)


@tool(side_effect_class="external")
def unscoped(url: str, what: str) -> dict[str, Any]:
    return answered(post(f"{url}/plain", {"what": what}), 201)


@tool(side_effect_class="read_only")
async def count(x: int) -> int:
    return x


TOOLS = {found.name: found for found in (doubtful, approved)}


async def mark(run: Any, what: str) -> None:
    """Show at the provider that this line of the program ran; the engine knows nothing of it."""
    await asyncio.to_thread(post, f"{run.inputs['url']}/plain", {"what": f"{run.inputs['tag']}:{what}"})


def _pair(run: Any) -> tuple[Awaitable[Any], Awaitable[Any]]:
    url, tag = run.inputs["url"], run.inputs["tag"]
    return TOOLS[run.inputs["tool"]](url, f"{tag}:waits"), sibling(url, f"{tag}:sends")


async def gathered(run: Any) -> str:
    await asyncio.gather(*_pair(run))
    await mark(run, "after")
    return "done"


async def gathered_with_exceptions(run: Any) -> str:
    found = await asyncio.gather(*_pair(run), return_exceptions=True)
    await mark(run, "after")
    return ",".join(type(item).__name__ for item in found)


async def task_group(run: Any) -> str:
    waits, sends = _pair(run)
    async with asyncio.TaskGroup() as group:
        group.create_task(_awaited(waits))
        group.create_task(_awaited(sends))
    await mark(run, "after")
    return "done"


async def waited(run: Any) -> str:
    tasks = [asyncio.create_task(_awaited(one)) for one in _pair(run)]
    await asyncio.wait(tasks)
    await mark(run, "after")
    return "done"


async def _awaited(one: Awaitable[Any]) -> Any:
    return await one


async def raises_beside_a_send(run: Any) -> str:
    """`main` ends by an error of its own while a task of it is mid-send."""
    _, sends = _pair(run)
    task = asyncio.create_task(_awaited(sends))
    while not (run.workspace / "go").exists():
        await asyncio.sleep(0.005)
    raise RuntimeError(f"the program gave up while {task.get_name()} was sending")


async def swallows_every_cancel(run: Any) -> str:
    """It takes every cancel for a nuisance and tries to go on."""
    url, tag = run.inputs["url"], run.inputs["tag"]
    waits, _ = _pair(run)
    while True:
        try:
            await waits
            break
        except asyncio.CancelledError:
            waits = asyncio.sleep(0.01, "not really")
        try:
            await sibling(url, f"{tag}:sneaked")
        except BaseException:
            continue
    while run.attempt == 1:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue
    return "done"


async def bounded_send(run: Any) -> dict[str, Any]:
    url, tag = run.inputs["url"], run.inputs["tag"]
    reply = await asyncio.wait_for(sibling(url, f"{tag}:slow"), 0.1)
    return {"slow": reply["id"], "next": (await sibling(url, f"{tag}:next"))["id"]}


async def bounded_by_timeout(run: Any) -> dict[str, Any]:
    """The cancel of the timeout comes at the next engine call of the same task, if it still holds then."""
    url, tag = run.inputs["url"], run.inputs["tag"]
    got = {}
    try:
        async with asyncio.timeout(0.1):
            got["slow"] = (await sibling(url, f"{tag}:slow"))["id"]
            got["never"] = (await sibling(url, f"{tag}:never"))["id"]
    except TimeoutError:
        got["next"] = (await sibling(url, f"{tag}:next"))["id"]
    return got


def _by_hand(url: str, tag: str) -> list[str]:
    return [in_a_thread(url, f"{tag}:thread{k}")["id"] for k in range(2)]


async def doubt_in_a_thread(run: Any) -> list[str]:
    """The first of these calls loses its reply, in a thread that the engine cannot cancel."""
    return await asyncio.to_thread(_by_hand, run.inputs["url"], run.inputs["tag"])


async def met_in_a_thread(run: Any) -> str:
    """An old effect speaks against a new one of its kind until a thread of the program asks for it again."""
    url, tag = run.inputs["url"], run.inputs["tag"]
    if run.attempt == 1:
        await run.call(unscoped, url, f"{tag}:old")
        raise RuntimeError("the first life ends here")
    await asyncio.gather(
        run.call(count, 1), run.call(unscoped, url, f"{tag}:new"), asyncio.to_thread(_meet, url, f"{tag}:old")
    )
    return "done"


def _meet(url: str, what: str) -> None:
    time.sleep(0.02)  # while the guard's answer is on its way
    unscoped(url, what)


async def threads(run: Any) -> dict[str, Any]:
    """Sync code in a thread of the program, a sync tool in a thread of the engine, and an async tool, side by side."""
    url, tag = run.inputs["url"], run.inputs["tag"]
    by_hand, called, sent = await asyncio.gather(
        asyncio.to_thread(_by_hand, url, tag),
        run.call(in_a_thread, url, f"{tag}:called"),
        sibling(url, f"{tag}:sent"),
    )
    return {"thread0": by_hand[0], "thread1": by_hand[1], "called": called["id"], "sent": sent["id"]}


async def late(run: Any) -> dict[str, Any]:
    url, tag = run.inputs["url"], run.inputs["tag"]
    begun = time.monotonic()
    replies = await asyncio.gather(run.call(impatient, url, f"{tag}:late"), sibling(url, f"{tag}:sends"))
    assert time.monotonic() - begun > 0.05
    return {"late": replies[0]["id"], "sends": replies[1]["id"]}


def late_sync(run: Any) -> dict[str, Any]:
    url, tag = run.inputs["url"], run.inputs["tag"]
    return {"late": impatient(url, f"{tag}:late")["id"], "next": in_a_thread(url, f"{tag}:next")["id"]}
