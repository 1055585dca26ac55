"""Async agents in which one call waits for a person, in every form that asyncio has for it, while a sibling is sending."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from reference import answered
from waiting import approved, mark, sibling

from perdure import tool
from perdure.testing.provider.client import post

PATIENCE_SECONDS = 60


@tool(side_effect_class="external", scope=["what"], approval="always")
def approved_sync(url: str, what: str) -> dict[str, Any]:
    return answered(post(f"{url}/plain", {"what": what}), 201)


@tool(side_effect_class="external", scope=["what"], timeout="50ms")
def overdue(url: str, what: str) -> dict[str, Any]:
    """The tests hold the reply far beyond the timeout and beyond the grace that a sender gets."""
    return answered(post(f"{url}/plain", {"what": what}), 201)


class Beside:
    """A send in a task of its own, begun before whatever waits."""

    def __init__(self, run: Any) -> None:
        self.url, self.tag, self.run = run.inputs["url"], run.inputs["tag"], run
        self.sending = asyncio.create_task(self.wait_for(sibling(self.url, f"{self.tag}:sends")))

    @staticmethod
    async def wait_for(one: Awaitable[Any]) -> Any:
        return await one

    def waits(self) -> Awaitable[Any]:
        """The call that only a person can let go on."""
        return approved(self.url, f"{self.tag}:waits")

    async def done(self) -> str:
        """The line after the wait, which no life runs that has ended."""
        await self.sending
        await mark(self.run, "after")
        return "done"


async def gathered(run: Any) -> str:
    beside = Beside(run)
    await asyncio.gather(beside.waits(), beside.sending)
    return await beside.done()


async def gathered_with_exceptions(run: Any) -> str:
    beside = Beside(run)
    await asyncio.gather(beside.waits(), beside.sending, return_exceptions=True)
    return await beside.done()


async def task_group(run: Any) -> str:
    beside = Beside(run)
    async with asyncio.TaskGroup() as group:
        group.create_task(beside.wait_for(beside.waits()))
        group.create_task(beside.wait_for(beside.sending))
    return await beside.done()


async def waited(run: Any) -> str:
    beside = Beside(run)
    await asyncio.wait([asyncio.create_task(beside.wait_for(beside.waits())), beside.sending])
    return await beside.done()


async def bounded_by_wait_for(run: Any) -> str:
    beside = Beside(run)
    await asyncio.wait_for(beside.waits(), PATIENCE_SECONDS)
    return await beside.done()


async def bounded_by_timeout(run: Any) -> str:
    beside = Beside(run)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await beside.waits()
    return await beside.done()


async def in_a_thread(run: Any) -> str:
    beside = Beside(run)
    await asyncio.to_thread(approved_sync, beside.url, f"{beside.tag}:waits")
    return await beside.done()


async def past_its_timeout(run: Any) -> str:
    beside = Beside(run)
    await run.call(overdue, beside.url, f"{beside.tag}:waits")
    return await beside.done()


async def swallows_the_cancel_once(run: Any) -> str:
    beside = Beside(run)
    try:
        await beside.waits()
    except asyncio.CancelledError:
        await sibling(beside.url, f"{beside.tag}:sneaked")
    return await beside.done()


async def swallows_every_cancel(run: Any) -> str:
    beside = Beside(run)
    calls = [beside.waits()]
    while True:
        try:
            await calls.pop()
            break
        except asyncio.CancelledError:
            calls.append(sibling(beside.url, f"{beside.tag}:sneaked"))
        except BaseException:
            calls.append(asyncio.sleep(PATIENCE_SECONDS))
    return await beside.done()


async def swallows_all_and_asks_again_at_once(run: Any) -> str:
    """It never gives the loop a turn of its own accord."""
    beside = Beside(run)
    call = beside.waits()
    while True:
        try:
            await call
            break
        except BaseException:
            call = sibling(beside.url, f"{beside.tag}:sneaked")
    return await beside.done()


async def raises_meanwhile(run: Any) -> str:
    """The program gives up by itself, as soon as it is told to, with one call parked and one on its way."""
    beside = Beside(run)
    waiting = asyncio.create_task(beside.wait_for(beside.waits()))
    while run.attempt == 1 and not (run.workspace / "go").exists():
        await asyncio.sleep(0.005)
    if run.attempt == 1:
        raise RuntimeError(f"it gave up beside {waiting.get_name()}")
    await waiting
    return await beside.done()


async def returns_meanwhile(run: Any) -> str:
    """The program returns, as soon as it is told to, with one call parked and one on its way."""
    beside = Beside(run)
    waiting = asyncio.create_task(beside.wait_for(beside.waits()))
    while run.attempt == 1 and not (run.workspace / "go").exists():
        await asyncio.sleep(0.005)
    if run.attempt == 1:
        return "too early"
    await waiting
    return await beside.done()


@tool(side_effect_class="external", scope=["what"], probe_lag="0s", timeout="100ms")
async def hands_it_to_a_thread(url: str, what: str, *, call: Any) -> dict[str, Any]:
    """Past its timeout its task is cancelled, and the thread goes on."""
    body = {"marker": call.idempotency_key, "what": what}
    return answered(await asyncio.to_thread(post, f"{url}/searchable", body), 201)


@hands_it_to_a_thread.probe
def find(call: Any) -> Any:
    from children import find as find_by_marker

    return find_by_marker(call)


async def a_thread_goes_on(run: Any) -> str:
    url, tag = run.inputs["url"], run.inputs["tag"]
    return str((await hands_it_to_a_thread(url, f"{tag}:one"))["id"])


def a_thread_goes_on_in_sync_code(run: Any) -> str:
    url, tag = run.inputs["url"], run.inputs["tag"]
    return str(run.call(hands_it_to_a_thread, url, f"{tag}:one")["id"])


async def a_thread_of_the_program_never_ends(run: Any) -> str:
    import threading

    beside = Beside(run)
    stuck = asyncio.create_task(asyncio.to_thread(threading.Event().wait, PATIENCE_SECONDS))
    await beside.waits()
    stuck.cancel()
    return await beside.done()
