"""A model's answer as plain data: which tool calls it asks for, and how their results are told to it.

Four forms are read: OpenAI chat completions, OpenAI responses, Anthropic messages, and a plain one,
``{"content": "…", "tool_calls": [{"name": "…", "args": {…}}]}``. An answer that is none of them is refused: taken for a
final answer, it could hide calls that the model has asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeGuard

REPEAT_OF = "repeat_of"


class Form(StrEnum):
    """How a provider writes answers and wants results told."""

    PLAIN = "plain"
    CHAT = "openai_chat"
    RESPONSES = "openai_responses"
    ANTHROPIC = "anthropic"


class UnreadableAnswer(ValueError):
    """Nobody can tell which calls an answer asks for."""


@dataclass(frozen=True, slots=True)
class AskedCall:
    """One call that an answer asks for.

    Args:
        call_id: the model's own id of it, where it gives one.
        name: of the tool.
        arguments: as the model wrote them, ``repeat_of`` taken out.
        repeat_of: the receipt of which the model asks for a deliberate second one.
        problem: why the arguments cannot be used.
    """

    call_id: str | None
    name: str
    arguments: Mapping[str, Any]
    repeat_of: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read: what it says, what it asks for, and the messages by which the model remembers it."""

    form: Form
    text: str
    calls: tuple[AskedCall, ...]
    messages: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """The result of one call, as it is told to the model."""

    call_id: str
    name: str
    text: str
    is_error: bool


def plain(answer: Any) -> Any:
    """Return an answer as JSON data: an SDK's pydantic object is dumped, nested ones too."""
    dump = getattr(answer, "model_dump", None)
    if callable(dump):
        return dump(mode="json", exclude_none=True)
    if _is_list(answer):
        return [plain(item) for item in answer]
    if _is_object(answer):
        return {key: plain(item) for key, item in answer.items()}
    return answer


def read_answer(answer: Any) -> Answer:
    """Read an answer that ``plain`` has made data of.

    Raises:
        UnreadableAnswer: it has none of the four forms.
    """
    if isinstance(answer, str):
        return Answer(Form.PLAIN, answer, (), ({"role": "assistant", "content": answer},))
    if _is_object(answer):
        for mark, read in _READERS:
            if mark in answer:
                return read(answer)
        if isinstance(answer.get("content"), str):
            return Answer(Form.PLAIN, answer["content"], (), ({"role": "assistant", **answer},))
    elif _is_list(answer) and answer and all(_is_object(item) and "type" in item for item in answer):
        return _responses(answer)
    raise UnreadableAnswer(
        f"an answer of the model is of type {type(answer).__name__}, which is no known form; "
        "return the provider's message, a text, or {'content': …, 'tool_calls': [{'name': …, 'args': {…}}]}"
    )


def _chat_completion(answer: Mapping[str, Any]) -> Answer:
    choices = answer["choices"]
    if not _is_list(choices) or not choices or not _is_object(choices[0].get("message")):
        raise UnreadableAnswer("an answer with 'choices' has no message in the first of them")
    return read_answer(choices[0]["message"])


def _tool_calls(answer: Mapping[str, Any]) -> Answer:
    asked: Any = answer["tool_calls"] or ()
    if not _is_list(asked) or not all(map(_is_object, asked)):
        raise UnreadableAnswer("'tool_calls' of an answer is no list of objects")
    chat = any("function" in item for item in asked)
    calls = tuple(
        _asked(item.get("id"), item["function"].get("name"), item["function"].get("arguments"))
        if _is_object(item.get("function"))
        else _asked(item.get("id"), item.get("name"), item.get("args", item.get("arguments")))
        for item in asked
    )
    message = {"role": "assistant", **answer}
    return Answer(Form.CHAT if chat else Form.PLAIN, _text_of(answer.get("content")), calls, (message,))


def _response(answer: Mapping[str, Any]) -> Answer:
    if not _is_list(answer["output"]):
        raise UnreadableAnswer("'output' of an answer is no list")
    return _responses(answer["output"])


def _responses(items: Sequence[Any]) -> Answer:
    calls = tuple(
        _asked(item.get("call_id"), item.get("name"), item.get("arguments"))
        for item in items
        if item.get("type") == "function_call"
    )
    text = "".join(_text_of(item.get("content")) for item in items if item.get("type") == "message")
    return Answer(Form.RESPONSES, text, calls, tuple(items))


def _anthropic(blocks: Sequence[Any]) -> Answer:
    calls = tuple(
        _asked(block.get("id"), block.get("name"), block.get("input"))
        for block in blocks
        if block.get("type") == "tool_use"
    )
    return Answer(Form.ANTHROPIC, _text_of(blocks), calls, ({"role": "assistant", "content": blocks},))


def _content(answer: Mapping[str, Any]) -> Answer:
    blocks = answer["content"]
    if _is_list(blocks) and all(_is_object(block) and "type" in block for block in blocks):
        return _anthropic(blocks)
    if isinstance(blocks, str):
        return Answer(Form.PLAIN, blocks, (), ({"role": "assistant", **answer},))
    raise UnreadableAnswer("'content' of an answer is neither a text nor a list of blocks")


_READERS: tuple[tuple[str, Callable[[Mapping[str, Any]], Answer]], ...] = (
    ("choices", _chat_completion),
    ("tool_calls", _tool_calls),
    ("output", _response),
    ("content", _content),
)


def _asked(call_id: Any, name: Any, arguments: Any) -> AskedCall:
    problem = None
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError as wrong:
            arguments, problem = {"arguments": arguments}, f"its arguments are no JSON: {wrong}"
    if arguments is None:
        arguments = {}
    if not _is_object(arguments):
        arguments, problem = {"arguments": arguments}, "its arguments are no JSON object"
    if not isinstance(name, str) or not name:
        raise UnreadableAnswer("an answer asks for a call without the name of a tool")
    given = dict(arguments)
    cited = given.pop(REPEAT_OF, None)
    return AskedCall(
        str(call_id) if call_id is not None else None, name, given, None if cited is None else str(cited), problem
    )


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not _is_list(content):
        return ""
    return "".join(str(block.get("text") or "") for block in content if _is_object(block))


def result_messages(form: Form, results: Iterable[Told]) -> list[Any]:
    """Return the messages that tell a model the results of its calls, in its provider's form."""
    if form is Form.ANTHROPIC:
        blocks = [
            {"type": "tool_result", "tool_use_id": told.call_id, "content": told.text}
            | ({"is_error": True} if told.is_error else {})
            for told in results
        ]
        return [{"role": "user", "content": blocks}] if blocks else []
    if form is Form.RESPONSES:
        return [{"type": "function_call_output", "call_id": told.call_id, "output": told.text} for told in results]
    return [{"role": "tool", "tool_call_id": told.call_id, "content": told.text} for told in results]


def result_ids(message: Any) -> list[str]:
    """Return the ids of the calls whose results stand in a message, in any of the forms."""
    if not _is_object(message):
        return []
    if message.get("role") == "tool":
        return [str(message["tool_call_id"])] if "tool_call_id" in message else []
    if message.get("type") == "function_call_output":
        return [str(message["call_id"])] if "call_id" in message else []
    content = message.get("content")
    if not _is_list(content):
        return []
    return [
        str(block["tool_use_id"])
        for block in content
        if _is_object(block) and block.get("type") == "tool_result" and "tool_use_id" in block
    ]


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (list, tuple))
