"""The control door: arm faults, let held requests go, wait for an event, read the counts."""

import asyncio
from dataclasses import asdict, fields
from typing import Any

from perdure.testing.provider.effect_log import BEGINNING, EffectLog, Line, count_lines, newest_part
from perdure.testing.provider.faults import FaultBook, Holds, parse_fault
from perdure.testing.provider.wire import BadRequest, Reply, Request
from perdure.testing.provider.world import Settings, World


class Changes:
    """Wakes those who wait for the log to grow."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def announce(self) -> None:
        """Wake everybody who waits now."""
        self._event.set()
        self._event = asyncio.Event()

    async def next(self) -> None:
        """Return after the next announcement."""
        await self._event.wait()


class Control:
    """Answers every request under /control. Nothing here is logged as an effect or counted."""

    def __init__(self, log: EffectLog, world: World, faults: FaultBook, holds: Holds, changes: Changes) -> None:
        self._log, self._world, self._faults, self._holds, self._changes = log, world, faults, holds, changes

    async def answer(self, request: Request) -> Reply:
        """Answer one control request, or 404."""
        if request.method == "GET" and request.rest == "wait":
            return await self._wait(request)
        answers = {
            ("GET", "log"): self._whole_log,
            ("GET", "counts"): self._counts,
            ("GET", "state"): self._state,
            ("POST", ""): self._arm,
            ("POST", "set"): self._set,
            ("POST", "release"): self._release,
            ("POST", "forget_keys"): self._forget_keys,
            ("POST", "clear"): self._clear,
            ("POST", "begin_again"): self._begin_again,
        }
        handler = answers.get((request.method, request.rest))
        if handler is None:
            return Reply(404, {"error": f"no such control: {request.method} /control/{request.rest}"})
        return handler(request)

    async def _wait(self, request: Request) -> Reply:
        """Long poll until the log holds `count` lines that fit; 408 when that takes too long."""
        wanted = {k: v for k, v in request.query.items() if k not in ("count", "timeout_seconds")}
        count = request.number("count", 1)
        seen = 0
        try:
            async with asyncio.timeout(request.number("timeout_seconds", 5)):
                while (seen := sum(_fits(line, wanted) for line in self._log.lines)) < count:
                    await self._changes.next()
        except TimeoutError:
            return Reply(408, {"error": "it did not happen in time", "count": seen})
        return Reply(200, {"count": seen})

    def _whole_log(self, _: Request) -> Reply:
        return Reply(200, {"lines": self._log.lines})

    def _counts(self, _: Request) -> Reply:
        return Reply(200, count_lines(newest_part(self._log.lines)))

    def _state(self, _: Request) -> Reply:
        return Reply(200, {"held": self._holds.count(), "faults_left": self._faults.left(),
                           "settings": asdict(self._world.settings)})  # fmt: skip

    def _arm(self, request: Request) -> Reply:
        self._faults.arm(parse_fault(request.body))
        return Reply(200, {"faults_left": self._faults.left()})

    def _set(self, request: Request) -> Reply:
        known = {f.name for f in fields(Settings)}
        if unknown := sorted(set(request.body) - known):
            raise BadRequest(f"unknown setting: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
        for name, value in request.body.items():
            setattr(self._world.settings, name, _number(name, value))
        return Reply(200, asdict(self._world.settings))

    def _release(self, request: Request) -> Reply:
        released = self._holds.release(request.body.get("path"), request.body.get("what"))
        return Reply(200, {"released": released})

    def _forget_keys(self, request: Request) -> Reply:
        key = request.body.get("key")
        forgotten = self._world.forget_keys(key)
        self._world.note("forgot", request, key=key)
        return Reply(200, {"forgotten": forgotten})

    def _begin_again(self, request: Request) -> Reply:
        if held := self._holds.count():
            raise BadRequest(f"{held} requests are held; release them first")
        self._faults.clear()
        self._world.forget_everything()
        self._world.note(BEGINNING, request)
        return Reply(200, {"faults_left": 0})

    def _clear(self, _: Request) -> Reply:
        self._faults.clear()
        return Reply(200, {"faults_left": 0})


def _fits(line: Line, wanted: dict[str, str]) -> bool:
    return all(str(line.get(name)) == value for name, value in wanted.items())


def _number(name: str, value: Any) -> float | int | None:
    if value is None and name == "key_ttl_seconds":
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise BadRequest(f"{name} must be a number that is not negative, not {value!r}")
    return value
