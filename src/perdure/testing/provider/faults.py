"""What a test tells the provider to do wrong, and to how many of the coming requests."""

import asyncio
from dataclasses import dataclass, fields
from typing import Any

from perdure.testing.provider.wire import BadRequest, Request

EFFECT_PATHS = ("/create", "/keyed", "/searchable", "/plain")
READ_PATHS = ("/search", "/read")
COUNT_FIELDS = ("skip", "next")
STATUS_FIELDS = ("status_after_effect", "reject_before_effect")
SECONDS_FIELDS = ("delay_before_effect_seconds", "delay_after_effect_seconds", "land_late_seconds")
TEXT_FIELDS = ("path", "method", "what")
SELECTORS = TEXT_FIELDS + COUNT_FIELDS


@dataclass(frozen=True, slots=True)
class Fault:
    """One instruction of the control door; the fields are the JSON members of `POST /control`.

    `next` is the number of requests it is for (None: all from now on), `skip` how many matching ones pass
    before. A rejection excludes the rest: nothing happens then.
    """

    path: str
    method: str
    what: str | None = None
    skip: int = 0
    next: int | None = 1
    reject_before_effect: int | None = None
    delay_before_effect_seconds: float = 0.0
    hold_before_effect: bool = False
    land_late_seconds: float | None = None
    land_late_on_release: bool = False
    hold: bool = False
    delay_after_effect_seconds: float = 0.0
    drop_reply_after_effect: bool = False
    cut_reply_after_effect: bool = False
    status_after_effect: int | None = None
    status_is_stored: bool = False

    @property
    def lands_late(self) -> bool:
        """Whether the client is answered before the effect happens."""
        return self.land_late_on_release or self.land_late_seconds is not None


NO_FAULT = Fault(path="", method="")


def parse_fault(body: dict[str, Any]) -> Fault:
    """Check an instruction as a whole: a mistyped one must fail the test that sent it, not be ignored."""
    known = {f.name for f in fields(Fault)}
    if unknown := sorted(set(body) - known):
        raise BadRequest(f"unknown fault: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    for name, value in body.items():
        if not _fits(name, value):
            raise BadRequest(f"{name} has a value of the wrong kind: {value!r}")
    path = body.get("path")
    if path not in EFFECT_PATHS + READ_PATHS:
        raise BadRequest(f"path is {path!r}; known: {', '.join(EFFECT_PATHS + READ_PATHS)}")
    members: dict[str, Any] = {"method": "GET" if path in READ_PATHS else "POST", **body}
    fault = Fault(**members)
    chosen = [f.name for f in fields(Fault) if f.name not in SELECTORS and getattr(fault, f.name) != f.default]
    if not chosen:
        raise BadRequest("the fault does nothing")
    if fault.reject_before_effect is not None and len(chosen) > 1:
        raise BadRequest("reject_before_effect excludes every other fault")
    if fault.lands_late and fault.method == "GET":
        raise BadRequest("only an effect can land late")
    return fault


def _fits(name: str, value: object) -> bool:
    if name in TEXT_FIELDS:
        return isinstance(value, str)
    if name not in COUNT_FIELDS + STATUS_FIELDS + SECONDS_FIELDS:
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if name in COUNT_FIELDS:
        least = 1 if name == "next" else 0
        return (value is None and name == "next") or (isinstance(value, int) and value >= least)
    if name in STATUS_FIELDS:
        return isinstance(value, int) and 100 <= value <= 599
    return isinstance(value, int | float) and value >= 0


@dataclass(slots=True)
class _Armed:
    fault: Fault
    to_skip: int
    left: int | None


class FaultBook:
    """Holds the instructions that are still to be carried out, oldest first."""

    def __init__(self) -> None:
        self._armed: list[_Armed] = []

    def arm(self, fault: Fault) -> None:
        """Add an instruction behind those already given."""
        self._armed.append(_Armed(fault, fault.skip, fault.next))

    def clear(self) -> None:
        """Forget all instructions that were not used up."""
        self._armed.clear()

    def left(self) -> int:
        """How many instructions still wait for a request."""
        return len(self._armed)

    def take(self, request: Request, what: str) -> Fault:
        """Use up one request's worth of the oldest instruction that fits, if there is one."""
        for armed in self._armed:
            fault = armed.fault
            if (fault.path, fault.method) != (request.path, request.method) or fault.what not in (None, what):
                continue
            if armed.to_skip:
                armed.to_skip -= 1
                continue
            if armed.left is not None:
                armed.left -= 1
                if armed.left <= 0:
                    self._armed.remove(armed)
            return fault
        return NO_FAULT


class Holds:
    """Requests that stand still until a test lets them go."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, str, asyncio.Event]] = []

    async def wait(self, path: str, what: str) -> None:
        """Stand still until `release` names this path and this `what`, or names neither."""
        entry = (path, what, asyncio.Event())
        self._waiting.append(entry)
        await entry[2].wait()

    def release(self, path: str | None, what: str | None) -> int:
        """Let the fitting requests go and say how many they were."""
        fitting = [e for e in self._waiting if path in (None, e[0]) and what in (None, e[1])]
        self._waiting = [e for e in self._waiting if e not in fitting]
        for _, _, event in fitting:
            event.set()
        return len(fitting)

    def count(self) -> int:
        """How many stand still now."""
        return len(self._waiting)
