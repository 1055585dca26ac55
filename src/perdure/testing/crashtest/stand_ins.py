"""Called in place of the job's tools: the effect happens at the provider process, under the tool's own guarantee."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import quote

from perdure.core.codec import from_tagged, to_tagged
from perdure.model.policy import Decision
from perdure.model.toolcall import INNER_NAMESPACES, MEMO_NAMESPACE, ReplayPolicy
from perdure.ports.tool import CallContext, Probe, Tool, ToolFailed, current_call
from perdure.runtime.request import positional_and_keywords
from perdure.testing.crashtest.advice import ToolFacts
from perdure.testing.crashtest.counting import texts
from perdure.testing.crashtest.order import Order
from perdure.testing.provider.request import get, post

AnyTool = Tool[Any, Any]
MISSING_EXIT = 2


class Values:
    """What stand-ins give back.

    Args:
        members: ``returns`` by name, and ``stored`` calls of an earlier run.
    """

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._returns: Mapping[str, Any] = members["returns"]
        self._stored: list[Mapping[str, Any]] = members["stored"]

    def source(self, called: AnyTool) -> str | None:
        """Return in one word where a tool's value comes from, or ``None`` where there is none."""
        label = label_of(called)
        if label in self._returns:
            return "--returns"
        if called.simulate_function is not None:
            return "simulate"
        if any(call["tool"] == label for call in self._stored):
            return "--from-run"
        if "*" in self._returns and called.declaration.namespace not in INNER_NAMESPACES:
            return "--returns"
        return "-> None" if called.signature.return_annotation in (None, "None") else None

    def is_named(self, called: AnyTool) -> bool:
        """Return whether ``--returns`` names this very tool."""
        return label_of(called) in self._returns

    def value(self, called: AnyTool, call: CallContext) -> Any:
        """Return what a call gets, or an awaitable of it where ``simulate`` is async."""
        source, label = self.source(called), label_of(called)
        if source == "simulate" and called.simulate_function is not None:
            return _simulated(called, called.simulate_function, call)
        if source == "--returns":
            return from_tagged(self._returns.get(label, self._returns.get("*")))
        return from_tagged(self._receipt(label, to_tagged(dict(call.args)))) if source == "--from-run" else None

    def _receipt(self, label: str, arguments: Any) -> Any:
        """Return the receipt of the equal call of the earlier run, else the last one of that tool."""
        of_tool = [call for call in self._stored if call["tool"] == label]
        equal = [call for call in of_tool if call["request"] == arguments]
        return (equal or of_tool)[-1]["response"]


def label_of(called: AnyTool) -> str:
    """Return a tool's name as it is typed; those of memos begin with ``memo:``, as in the crash knobs."""
    namespace = called.declaration.namespace
    return f"{namespace}:{called.name}" if namespace in INNER_NAMESPACES else called.name


def _simulated(called: AnyTool, simulate: Callable[..., Any], call: CallContext) -> Any:
    args, kwargs = positional_and_keywords(called.signature, call.args)
    if called.takes_context and "call" in inspect.signature(simulate).parameters:
        kwargs["call"] = call
    try:
        return simulate(*args, **kwargs)
    except Exception as problem:
        raise ToolFailed(f"its simulate raised {type(problem).__name__}: {problem}", retry=False) from problem


class CrashTestStandIns:
    """What is called in place of tools and probes in the child processes of a crash test.

    Args:
        order: whether real bodies are entered, and where the provider is.
        values: what stand-ins give back.
        missing: ends the process, for a tool that has no value.
    """

    def __init__(self, order: Order, values: Values, missing: Callable[[str], NoReturn]) -> None:
        self._order = order
        self._values = values
        self._missing = missing
        self.seen: dict[tuple[str, str], ToolFacts] = {}

    def body(self, called: AnyTool, decision: Decision) -> Callable[..., Any] | None:
        """Return what is called with a tool's arguments; ``None``: the tool itself."""
        declared = called.declaration
        if declared.namespace not in INNER_NAMESPACES:
            self.seen[(declared.namespace, declared.name)] = facts_of(called, decision, self._values)
        effectful = decision.side_effect_class.effectful
        if self._order.live:
            return _Entered(self._order, called, decision).body() if effectful else None
        if not (effectful or self._values.is_named(called) or self._stubbed(called, decision)):
            return None
        if self._values.source(called) is None:
            self._missing(label_of(called))
        return _Stood(self._order, called, decision, self._values).body()

    def _stubbed(self, called: AnyTool, decision: Decision) -> bool:
        namespace = called.declaration.namespace
        if not self._order.stub_reads or (namespace in INNER_NAMESPACES and namespace != MEMO_NAMESPACE):
            return False
        return decision.side_effect_class == "read_only" or self._values.source(called) not in (None, "-> None")

    def probe(self, called: AnyTool, decision: Decision) -> Callable[[CallContext], Any] | None:
        """Return what is asked in place of a tool's probe; ``None``: the probe itself."""
        if self._order.live:
            return None
        return _Stood(self._order, called, decision, self._values).ask


class _Stood:
    """One tool's stand-in."""

    def __init__(self, order: Order, called: AnyTool, decision: Decision, values: Values) -> None:
        self._order = order
        self._called = called
        self._decision = decision
        self._values = values

    def body(self) -> Callable[..., Any]:
        """Return what is called in place of the tool's body."""
        return self._act_async if self._called.is_async else self._act

    def _act(self, *_: Any, **__: Any) -> Any:
        call = current_call()
        value = self._values.value(self._called, call)
        if inspect.isawaitable(value):
            return self._finish(value, call)
        self._happen(call)
        return value

    async def _act_async(self, *_: Any, **__: Any) -> Any:
        call = current_call()
        value = self._values.value(self._called, call)
        value = await value if inspect.isawaitable(value) else value
        await asyncio.to_thread(self._happen, call)
        return value

    async def _finish(self, value: Awaitable[Any], call: CallContext) -> Any:
        found = await value
        await asyncio.to_thread(self._happen, call)
        return found

    def _happen(self, call: CallContext) -> None:
        """Do the effect at the provider: it knows keys, can be searched, or neither, as the guarantee says."""
        if not self._decision.side_effect_class.effectful:
            return
        facts = facts_of(self._called, self._decision, self._values)
        body = {**told(self._order, self._called, self._decision, call), "event": "effect"}
        path, headers = "/plain", dict[str, str]()
        if facts.keyed and facts.key_is_sent:
            seconds = self._decision.key_ttl_seconds
            lasting = "" if seconds is None or math.isinf(seconds) else f"?ttl={seconds}"
            path, headers = f"/keyed{lasting}", {"Idempotency-Key": call.idempotency_key}
        elif facts.guarantee == "probe":
            path, body = "/searchable", {**body, "marker": call.idempotency_key}
        status, answer = post(f"{self._order.provider_url}{path}", body, headers)
        if status != 201:
            raise RuntimeError(f"the provider answered {status}: {answer}")

    def ask(self, call: CallContext) -> Any:
        """Search the provider for the effect of a call, as the tool's probe would search the real one."""
        if self._decision.replay_policy is not ReplayPolicy.RECONCILE:
            return Probe.unknown("the stand-in of a keyed tool cannot be searched")
        status, body = get(f"{self._order.provider_url}/search?marker={quote(call.idempotency_key)}")
        if status != 200:
            return Probe.unknown(f"the provider answered {status}")
        if not body["items"]:
            return Probe.not_happened(complete=True)
        ref = str(body["items"][0]["id"])
        value = self._values.value(self._called, call)
        return _happened(value, ref) if inspect.isawaitable(value) else Probe.happened(value, ref=ref)


async def _happened(value: Awaitable[Any], ref: str) -> Probe:
    return Probe.happened(await value, ref=ref)


class _Entered:
    """A real body, with a line in the provider's log before it is entered and after it was left with a value."""

    def __init__(self, order: Order, called: AnyTool, decision: Decision) -> None:
        self._order = order
        self._called = called
        self._decision = decision

    def body(self) -> Callable[..., Any]:
        """Return what is called in place of the tool's body, and calls it."""
        return self._enter_async if self._called.is_async else self._enter

    def _enter(self, *args: Any, **kwargs: Any) -> Any:
        call = current_call()
        self._note(call, "entered")
        value = self._called.plain(*args, **kwargs)
        if inspect.isawaitable(value):
            return self._finish(value, call)
        self._note(call, "left", value)
        return value

    async def _enter_async(self, *args: Any, **kwargs: Any) -> Any:
        call = current_call()
        await asyncio.to_thread(self._note, call, "entered")
        return await self._finish(self._called.plain(*args, **kwargs), call)

    async def _finish(self, value: Awaitable[Any], call: CallContext) -> Any:
        found = await value
        await asyncio.to_thread(self._note, call, "left", found)
        return found

    def _note(self, call: CallContext, event: str, value: Any = None) -> None:
        body = {**told(self._order, self._called, self._decision, call), "event": event}
        if event == "left":
            body["value"] = _as_json(value)
        status, _ = post(f"{self._order.provider_url}/plain", body)
        if status != 201 and event == "entered":
            raise ToolFailed("the entry could not be counted, so the tool was not entered", retry=False)


def _as_json(value: Any) -> Any:
    try:
        return to_tagged(value)
    except Exception:
        return repr(value)


def told(order: Order, called: AnyTool, decision: Decision, call: CallContext) -> dict[str, Any]:
    """Return what the provider's log is told of a call."""
    arguments, scope = texts(to_tagged(dict(call.args)), decision.scope, decision.volatile)
    return {
        "what": f"{order.mark}:{called.name}",
        "run": order.mark,
        "tool": called.name,
        "key": call.idempotency_key,
        "arguments": arguments,
        "scope": scope,
    }


def facts_of(called: AnyTool, decision: Decision, values: Values) -> ToolFacts:
    """Return a tool as the policy sees it."""
    declared = called.declaration
    names = getattr(getattr(called.plain, "__code__", None), "co_names", ("current_call",))
    return ToolFacts(
        name=declared.name,
        namespace=declared.namespace,
        side_effect_class=str(decision.side_effect_class),
        replay_policy=str(decision.replay_policy),
        guarantee=decision.guarantee,
        scope=decision.scope,
        declared=not decision.why.startswith("nothing classifies it"),
        gets_key=called.takes_context or "current_call" in names,
        probe_lag_seconds=decision.probe_lag_seconds,
        warnings=decision.warnings,
        value_from=values.source(called),
    )


def leave_with_missing(report: str) -> Callable[[str], NoReturn]:
    """Return what ends this process at once when a tool has no value, and says so in the report."""

    def leave(label: str) -> NoReturn:
        write_report(report, {"missing": [label]})
        os._exit(MISSING_EXIT)

    return leave


def write_report(path: str, members: Mapping[str, Any]) -> None:
    """Write what a process has to tell, whole or not at all."""
    new = f"{path}.new"
    with open(new, "w", encoding="utf-8") as file:
        json.dump(members, file)
    os.replace(new, path)
