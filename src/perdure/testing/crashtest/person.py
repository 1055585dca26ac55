"""Somebody who answers what a killed run waits for, after a look into the provider's log; everything else is a lie."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure.core.codec import decode, from_tagged
from perdure.core.policy import evaluate
from perdure.engine import Engine
from perdure.model.errors import VerdictRefused
from perdure.model.policy import Policy
from perdure.model.run import Waiting
from perdure.ports.tool import CallContext, made
from perdure.runtime.registry import Registry
from perdure.testing.crashtest.counting import Effect, Expected, effects_of, texts
from perdure.testing.crashtest.order import RUN_ID, UNANSWERED, Order
from perdure.testing.crashtest.stand_ins import AnyTool, Values
from perdure.testing.provider.effect_log import read_lines

WHO = "crashtest"


class Person:
    """Answers the questions of one run.

    Args:
        order: where the provider's log is, and what a clean run does.
        values: what a call gets of which is said that it happened.
        tools, policy: those of the job.
    """

    def __init__(self, order: Order, values: Values, tools: Registry, policy: Policy, engine: Engine) -> None:
        self._order = order
        self._values = values
        self._tools = tools
        self._policy = policy
        self._engine = engine
        self._lines = read_lines(Path(order.provider_log))
        self._effects = effects_of(self._lines, order.mark)

    def answer(self) -> list[dict[str, str]]:
        """Answer everything that can be answered truly, and return what was asked and said."""
        answers = {"approval": self._approve, "in_doubt": self._tell, "challenge": self._compare}
        found: list[dict[str, str]] = []
        for run_id, item in self._engine.inbox():
            if run_id == RUN_ID:
                said = answers[item.kind](item) if item.kind in answers else UNANSWERED
                tool = item.tool_name or ""
                found.append({"kind": item.kind, "tool": tool, "summary": item.summary, "answer": said})
        return found

    def _approve(self, item: Waiting) -> str:
        self._engine.approve(item.id, actor=WHO)
        return "approved"

    def _tell(self, item: Waiting) -> str:
        call = self._engine.call(item.tool_call_id or "")
        mine = [effect for effect in self._effects if effect.key == call["idempotency_key"]]
        if not mine:
            return self._resolve(item, "did_not_happen")
        if mine[-1].is_entry and not mine[-1].left:
            return UNANSWERED  # the body was entered, and what it did then nobody but its provider knows
        result = self._left_with(mine[-1]) if mine[-1].is_entry else self._value(call)
        return self._resolve(item, "happened", result=result)

    def _left_with(self, effect: Effect) -> Any:
        bodies = [line["body"] for line in self._lines if line["event"] == "effect" and "body" in line]
        values = [b["value"] for b in bodies if b.get("event") == "left" and b.get("key") == effect.key]
        return from_tagged(values[-1]) if values else None

    def _value(self, call: Mapping[str, Any]) -> Any:
        tool = self._tool(call)
        if tool is None:
            return None
        value = self._values.value(tool, _context(tool, call))
        return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value

    def _compare(self, item: Waiting) -> str:
        """It is the same if the provider has as many effects of that kind already as a clean run has."""
        call = self._engine.call(item.tool_call_id or "")
        name = str(call["tool_name"])
        expected = Expected(self._order.counts, self._order.levels)
        wanted = expected.identity(self._as_effect(name, call))
        like = [one for one in self._effects if one.tool == name and expected.identity(one) == wanted]
        if len({effect.key for effect in like}) < self._order.counts.get(wanted, 0) or not like:
            return self._resolve(item, "another")
        kin = [row for row in self._engine.calls(RUN_ID) if row["idempotency_key"] == like[-1].key]
        return self._resolve(item, "same", same_as=kin[0]["tool_call_id"] if kin else None)

    def _as_effect(self, name: str, call: Mapping[str, Any]) -> Effect:
        tool = self._tool(call)
        decision = None if tool is None else evaluate(self._policy, tool.declaration)
        scope, volatile = (None, ()) if decision is None else (decision.scope, decision.volatile)
        return Effect(name, str(call["idempotency_key"]), *texts(json.loads(call["request"]), scope, volatile))

    def _tool(self, call: Mapping[str, Any]) -> AnyTool | None:
        name = str(call["tool_name"])
        return self._tools.by_name(name) or made(str(call["tool_namespace"]), name)

    def _resolve(self, item: Waiting, says: str, **more: Any) -> str:
        try:
            self._engine.resolve(item.tool_call_id or "", says, actor=WHO, **more)
        except VerdictRefused:
            if "same_as" not in more:
                return UNANSWERED
            self._engine.resolve(item.tool_call_id or "", says, actor=WHO)
        return says


async def _awaited(value: Any) -> Any:
    return await value


def _context(tool: AnyTool, call: Mapping[str, Any]) -> CallContext:
    return CallContext(
        idempotency_key=str(call["idempotency_key"]),
        tool_call_id=str(call["tool_call_id"]),
        run_id=str(call["run_id"]),
        step_id=str(call["step_id"]),
        attempt=int(call["attempt"]),
        args=decode(call["request"]),
        workspace=Path(),
        handle=call["handle"],
        recorder=lambda _ref: None,
    )
