"""``run.sleep`` and ``run.ask``: calls that only the time, or a person, can move; rows of the same machine as a memo.

A timer is a prepared row with its absolute moment in it, so that no restart begins it anew. A question is a row that
awaits a person, and its answer is the receipt that every life meets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from perdure.core.codec import encode
from perdure.core.duration import parse_duration
from perdure.core.identity import args_hash
from perdure.core.policy import evaluate
from perdure.model.errors import UsageError
from perdure.model.policy import Policy
from perdure.model.toolcall import ASK_NAMESPACE, TIMER_NAMESPACE, CallKey
from perdure.ports.clock import after, format_time, parse_time
from perdure.ports.tool import Tool, declare
from perdure.runtime.door import Door
from perdure.runtime.frame import frame_here
from perdure.runtime.request import PLAIN_OPTIONS, Asked, CallRequest

PLAIN_RULES = Policy()
"""No rule of a policy file turns a timer or a question into something that has an effect."""


def sleep_request(door: Door, seconds: float | str | None, until: str | datetime | None) -> CallRequest:
    """Return the request of a timer set here and now; an equal one of an earlier life keeps its moment.

    Raises:
        UsageError: it is not exactly one of a duration and a moment with a time zone.
    """
    door.life.check_open()
    if (seconds is None) == (until is None):
        raise UsageError("run.sleep wants a duration in seconds, or until= a moment")
    if until is not None:
        moment = format_time(_moment(until))
        identity: dict[str, Any] = {"until": moment}
    else:
        length = _length(seconds)
        identity, moment = {"seconds": length}, after(door.life.now(), length)

    def wake(until: str) -> None:
        """What a timer does when its time has come: nothing; its receipt says that it came."""

    request = _request(door, TIMER_NAMESPACE, "sleep", wake, identity)
    request.complete = {"until": moment}
    request.stored = encode(request.complete)
    request.not_before = moment
    return request


def _length(seconds: Any) -> float:
    try:
        length = float(parse_duration(seconds))
    except ValueError as problem:
        raise UsageError(f"run.sleep: {problem}") from None
    if length == float("inf"):
        raise UsageError("run.sleep: for ever is too long")
    return length


def _moment(until: str | datetime) -> datetime:
    try:
        found = until if isinstance(until, datetime) else parse_time(until)
    except ValueError:
        raise UsageError(f"run.sleep: until={until!r} is no moment in ISO-8601") from None
    if found.tzinfo is None:
        raise UsageError(f"run.sleep: until={until!s} has no time zone; write 2026-12-01T09:00:00Z")
    return found


def ask_request(door: Door, question: str, options: Sequence[str] | None) -> CallRequest:
    """Return the request of a question asked here and now; one that was answered in an earlier life keeps its answer.

    Raises:
        UsageError: the question is empty, or the options are no list of different texts.
    """
    door.life.check_open()
    chosen = list(options or ())
    if not question.strip():
        raise UsageError("run.ask wants a question")
    if isinstance(options, str) or not all(_is_text(item) for item in chosen):
        raise UsageError("run.ask: options= is a list of texts")
    if len(set(chosen)) != len(chosen):
        raise UsageError("run.ask: two options are the same")

    def never(question: str, options: list[str]) -> None:
        raise AssertionError(f"a question has no body: {question}")

    identity = {"question": question, "options": chosen}
    request = _request(door, ASK_NAMESPACE, "ask", never, identity)
    request.complete = identity
    request.stored = encode(identity)
    request.asked = Asked(question, tuple(chosen))
    return request


def _is_text(item: object) -> bool:
    return isinstance(item, str) and bool(item)


def _request(door: Door, namespace: str, name: str, body: Callable[..., Any], identity: dict[str, Any]) -> CallRequest:
    declared = declare(name, side_effect_class="local", namespace=namespace)
    tool: Tool[Any, Any] = Tool(body, declared)
    key = CallKey(namespace, name, args_hash(identity))
    request = CallRequest(tool, evaluate(PLAIN_RULES, declared), key, {}, frame_here(door.life.root), PLAIN_OPTIONS)
    request.unlimited = True
    return request
