"""The agents that the benchmarks run: loops over one external tool that does nothing but note its entry."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import perdure
from benchmarks.payload import RESULT, args_for

Enter = Callable[[], None]


def sync_agent(calls: int, enter: Enter) -> Callable[[perdure.Run], int]:
    """Make a `def main` of `calls` effectful calls."""

    @perdure.tool(side_effect_class="external")
    def place_order(number: int, url: str, body: str) -> dict[str, Any]:
        enter()
        return RESULT

    def main(run: perdure.Run) -> int:
        for number in range(calls):
            place_order(**args_for(number))
        return calls

    return main


def async_agent(calls: int, enter: Enter) -> Callable[[perdure.AsyncRun], Coroutine[Any, Any, int]]:
    """Make an `async def main` of `calls` effectful calls."""

    @perdure.tool(side_effect_class="external")
    async def place_order(number: int, url: str, body: str) -> dict[str, Any]:
        enter()
        return RESULT

    async def main(run: perdure.AsyncRun) -> int:
        for number in range(calls):
            await place_order(**args_for(number))
        return calls

    return main


def long_agent(calls: int, enter: Enter, messages: list[dict[str, Any]]) -> Callable[[perdure.Run], int]:
    """Make a `def main` that keeps what it was told, as an agent keeps its conversation."""

    @perdure.tool(side_effect_class="external")
    def place_order(number: int, url: str, body: str) -> dict[str, Any]:
        enter()
        return RESULT

    def main(run: perdure.Run) -> int:
        for number in range(calls):
            messages.append(place_order(**args_for(number)))
        return len(messages)

    return main


def resumable_agent(calls: int, enter: Callable[[int], None]) -> Callable[[perdure.Run], int]:
    """Make a `def main` whose lost call may be sent again, so that no resume has to wait for a person."""

    @perdure.tool(side_effect_class="external", key_ttl="24h")
    def place_order(number: int, url: str, body: str, *, call: perdure.CallContext) -> dict[str, Any]:
        enter(number)
        return RESULT

    def main(run: perdure.Run) -> int:
        for number in range(calls + 1):
            place_order(**args_for(number))
        return calls

    return main
