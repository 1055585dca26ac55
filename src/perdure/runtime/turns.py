"""``run.turn``: one answer of a model and the calls that it asks for, stored together (semantics F2, #17).

The answer's receipt and the rows of all its calls are one transaction. Each call has an exact handle, the turn and its
place in it: nothing is counted and nothing is compared, whatever the model writes next time.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perdure.core.answers import Answer, Form, Told, plain, read_answer, result_messages
from perdure.core.codec import encode, encode_or_repr
from perdure.core.policy import evaluate
from perdure.core.usage import read_usage
from perdure.model.errors import CallError, UsageError
from perdure.model.toolcall import MODEL_NAMESPACE, CallRow, CallStatus
from perdure.ports.tool import CallContext, Tool, ToolFailed, declare
from perdure.runtime import adopting, limits, starting
from perdure.runtime.conversations import Conversation
from perdure.runtime.door import Door
from perdure.runtime.frame import Frame, frame_here
from perdure.runtime.life import Life
from perdure.runtime.registry import AnyTool
from perdure.runtime.request import CallOptions, CallRequest, build_request, memo_request
from perdure.runtime.tool_schema import checked_arguments
from perdure.store.sql_store import SqlStore

ReadCalls = Callable[[Any], Iterable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class TurnCall:
    """One call that the model asks for: ``id`` is the model's own where it gives one, ``args`` are as it wrote them."""

    index: int
    id: str
    name: str
    args: Mapping[str, Any]
    repeat_of: str | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What became of one call of a turn.

    Args:
        call: which one.
        tool_call_id: its row in the ledger; the receipt a model may cite.
        text: what the model is told, the same in every life.
        is_error: the call did not succeed.
        value: what the tool returned; ``None`` for an error.
    """

    call: TurnCall
    tool_call_id: str
    text: str
    is_error: bool
    value: Any = None


class _TurnBase:
    """An answer of the model, as it stands in the ledger."""

    def __init__(self, asker: Asker, stored: Mapping[str, Any]) -> None:
        self._asker = asker
        self._form = Form(stored["form"])
        self.tool_call_id = str(stored["turn"])
        self.answer = stored["answer"]
        self.text = str(stored["text"])
        self.messages: list[Any] = list(stored["messages"])
        self.calls = tuple(asker.calls_of(stored))

    def _request(self, call: TurnCall) -> CallRequest:
        if call not in self.calls:
            raise UsageError("this call belongs to another turn")
        self._asker.door.life.check_open()
        return self._asker.request(self.tool_call_id, call)

    def _result(self, request: CallRequest, call: TurnCall, value: Any, error: CallError | None) -> ToolResult:
        row = request.row
        if row is None:
            raise error or UsageError(f"{call.name} was not answered")
        self._asker.conversation.tell(call.id, row.call_no, request.listed)
        if error is not None:
            told = row.error_detail if row.status is CallStatus.FAILED else None
            return ToolResult(call, row.tool_call_id, told or str(error), True)
        text = value if isinstance(value, str) else encode_or_repr(value)[0]
        return ToolResult(call, row.tool_call_id, _done_before(row, request) + text, False, value)

    def result_messages(self, results: Iterable[ToolResult]) -> list[Any]:
        """Return the messages that tell the model these results, in the form in which it answered."""
        told = [Told(item.call.id, item.call.name, item.text, item.is_error) for item in results]
        return result_messages(self._form, told)


class Turn(_TurnBase):
    """One answer of a model and its calls, in ``def main``.

    ``text`` is what it says, ``messages`` are to be appended to the conversation, ``calls`` are what it asks for, and
    ``answer`` is the provider's own data.
    """

    def call(self, call: TurnCall) -> ToolResult:
        """Make one of the calls, and return what the model is to be told; a call that fails is told, not raised."""
        request = self._request(call)
        try:
            return self._result(request, call, self._asker.door.serve_sync(request), None)
        except CallError as error:
            return self._result(request, call, None, error)

    def results(self) -> list[Any]:
        """Make all calls in their order and return the messages that tell the model their results."""
        return self.result_messages([self.call(call) for call in self.calls])


class AsyncTurn(_TurnBase):
    """One answer of a model and its calls, in ``async def main``; as ``Turn``, awaited."""

    async def call(self, call: TurnCall) -> ToolResult:
        """Make one of the calls, and return what the model is to be told; a call that fails is told, not raised."""
        request = self._request(call)
        try:
            return self._result(request, call, await self._asker.door.serve_async(request), None)
        except CallError as error:
            return self._result(request, call, None, error)

    async def results(self) -> list[Any]:
        """Make all calls in their order and return the messages that tell the model their results."""
        return self.result_messages([await self.call(call) for call in self.calls])


def _done_before(row: CallRow, request: CallRequest) -> str:
    if not request.adopted:
        return ""
    return f"[{row.tool_name} was done at {row.finished_at}, receipt {row.tool_call_id}; nothing was done now]\n"


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks in a turn: its conversation, its place in the program, and the tools it was offered."""

    door: Door
    conversation: Conversation
    frame: Frame
    offered: frozenset[str] | None

    def calls_of(self, stored: Mapping[str, Any]) -> Iterable[TurnCall]:
        """Yield the calls that a stored answer asks for."""
        for index, item in enumerate(stored["calls"]):
            call_id = item["id"] or f"{stored['turn']}-{index}"
            yield TurnCall(index, call_id, item["name"], item["args"], item["repeat_of"], item["problem"])

    def request(self, turn_id: str, call: TurnCall) -> CallRequest:
        """Return the request of one call of a turn, by its exact handle."""
        life, folder = self.door.life, self.door.life.workspace
        tool = life.registry.by_spelling(call.name)
        decision = life.decision(tool) if tool is not None else None
        options, digest = CallOptions(repeat_of=call.repeat_of), life.vault.digest
        frame = replace(self.frame, parent_call_id=turn_id)
        problem = call.problem or self._not_offered(call, tool)
        given, request = call.args, None
        if tool is not None and problem is None:
            given, problem = checked_arguments(tool, call.args)
        if tool is not None and decision is not None and problem is None:
            try:
                request = build_request(tool, decision, (), given, frame, options, workspace=folder, digest=digest)
            except TypeError as wrong:
                problem = f"{call.name}: {wrong}"
        if request is None:
            absent = _absent(call.name, problem or "")
            decision = decision or evaluate(life.around.policy, absent.declaration)
            request = build_request(absent, decision, (), call.args, frame, options, workspace=folder, digest=digest)
        request.raw_name = call.name
        request.handle, request.reader, request.refused = (turn_id, call.index), self.conversation.reader, problem
        return request

    def _not_offered(self, call: TurnCall, tool: AnyTool | None) -> str | None:
        if tool is not None and (self.offered is None or tool.name in self.offered):
            return None
        names = self.door.life.registry.names() if self.offered is None else sorted(self.offered)
        return f"there is no tool {call.name!r} here; the tools are: {', '.join(names) or 'none'}"

    def journal(self, stored: Mapping[str, Any]) -> Callable[[SqlStore], None]:
        """Return what is stored in the transaction of the answer's receipt: its calls' rows and handles, its usage."""
        requests = [self.request(str(stored["turn"]), call) for call in self.calls_of(stored)]
        for request in requests:
            request.freeze(copy=True)
        spent, life = read_usage(stored["answer"]), self.door.life

        def keep(store: SqlStore) -> None:
            _journal(life, store, requests)
            if spent:
                limits.charge_usage(life, store, spent.tokens, spent.usd_micros)

        return keep


def _journal(life: Life, store: SqlStore, requests: Sequence[CallRequest]) -> None:
    number = life.next_call_number
    for request in requests:
        free = starting.find_free(life, store, request)
        done = starting.find_done(life, store, request) if free is None else None
        if free is not None:
            adopting.adopt_by_handle(life, store, request, free)
            life.context.reserve(free.call_no)
        elif done is not None:
            adopting.bind(life, store, request, done, adopted=True)
        else:
            status, refused = starting.first_status(life, request)
            row = starting.insert(life, store, request, status, refused, number)
            adopting.bind(life, store, request, row, adopted=False)
            number += 1
    life.next_call_number = number


def _absent(name: str, problem: str) -> AnyTool:
    """Return what stands for a tool that cannot be called: nothing happens, and the model is told why."""

    def absent(**arguments: Any) -> None:
        raise ToolFailed(problem or f"this program has no tool {name!r} any more", retry=False)

    return Tool(absent, declare(name), listed=False)


def turn_request(
    door: Door,
    name: str,
    call_model: Callable[[Any], Any],
    messages: Sequence[Any],
    *,
    tools: Iterable[AnyTool | str] | None,
    read: ReadCalls | None,
    key: Any,
) -> tuple[CallRequest, Asker]:
    """Return the request of a turn made here and now, and who asks in it.

    Raises:
        UnstorableValue: a message or the key has no JSON form.
    """
    life = door.life
    life.check_open()
    life.vault.refuse_in_name("turn", name)
    given: Any = messages
    if isinstance(given, str) or not hasattr(given, "__getitem__"):
        raise UsageError("run.turn needs the list of messages that the model is given")
    frame = frame_here(life.root)
    conversation, fresh = life.ledger.read(lambda store: life.conversations.enter(store, name, frame.branch, messages))
    offered = None if tools is None else frozenset(door.find_tool(item).name for item in tools)
    asker = Asker(door, conversation, frame, offered)

    def ask(call: CallContext) -> Any:
        answer = call_model(messages)
        if inspect.isawaitable(answer):
            return _read_later(call.tool_call_id, answer, read)
        return _stored(call.tool_call_id, answer, read)

    async def ask_async(call: CallContext) -> Any:
        return _stored(call.tool_call_id, await call_model(messages), read)

    body = ask_async if inspect.iscoroutinefunction(call_model) else ask
    declared = declare(name, side_effect_class="local", namespace=MODEL_NAMESPACE)
    model: AnyTool = Tool(body, declared)
    request = memo_request(model, life.decision(model), {"messages": conversation.digest, "key": key}, frame)
    request.stored = encode(
        {"messages": len(messages), "sha256": conversation.digest, "new": [plain(item) for item in fresh]}
    )
    request.journal = asker.journal
    return request, asker


async def _read_later(turn_id: str, answer: Awaitable[Any], read: ReadCalls | None) -> dict[str, Any]:
    return _stored(turn_id, await answer, read)


def _stored(turn_id: str, answer: Any, read: ReadCalls | None) -> dict[str, Any]:
    data = plain(answer)
    found = read_answer(data) if read is None else _read_by(read, answer, data)
    return {
        "turn": turn_id,
        "form": str(found.form),
        "answer": data,
        "text": found.text,
        "messages": list(found.messages),
        "calls": [
            {
                "id": asked.call_id,
                "name": asked.name,
                "args": dict(asked.arguments),
                "repeat_of": asked.repeat_of,
                "problem": asked.problem,
            }
            for asked in found.calls
        ],
    }


def _read_by(read: ReadCalls, answer: Any, data: Any) -> Answer:
    """Read an answer by the program's own function, which yields ``{"name": …, "args": …}`` with or without ``id``."""
    found = read_answer({"content": "", "tool_calls": [dict(item) for item in read(answer)]})
    return replace(found, form=Form.PLAIN, messages=(data,))
