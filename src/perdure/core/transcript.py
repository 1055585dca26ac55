"""One entry of ``transcript.md``: a call, a memo or a model's turn, as a person reads it."""

from __future__ import annotations

import json
from typing import Any, TypeGuard

from perdure.core.summary import coded, inline, shorten
from perdure.model.toolcall import MEMO_NAMESPACE, MODEL_NAMESPACE, CallRow

MOST_CHARACTERS = 4000
_SHOWN_ELSEWHERE = ("role", "type", "content")


def entry(row: CallRow, request: str, response: str | None, *, again: bool = False) -> str:
    """Return the entry of a row.

    Args:
        request: the stored request, as JSON.
        response: the stored receipt, as JSON, if there is one.
        again: it was told before, when it had no outcome yet.
    """
    if row.tool_namespace == MODEL_NAMESPACE:
        body = _turn(request, response)
    elif again:
        body = _value("result", response)
    else:
        body = [*_value("arguments", None if row.tool_namespace == MEMO_NAMESPACE else request)]
        body += _value("result", response)
    error = [coded(row.error_code, inline(row.error_detail) if row.error_detail else None)] if row.error_code else []
    return "\n\n".join([_heading(row, again), *body, *error]) + "\n\n"


def _heading(row: CallRow, again: bool) -> str:
    kind = {MODEL_NAMESPACE: "turn of ", MEMO_NAMESPACE: "memo "}.get(row.tool_namespace, "")
    at = row.finished_at or row.started_at or row.prepared_at or ""
    words = (f"`{row.tool_call_id}`", f"{kind}{inline(row.tool_name)}", str(row.status), at)
    return f"### {' · '.join(word for word in words if word)}" + (" (of above)" if again else "")


def _turn(request: str, response: str | None) -> list[str]:
    asked, answered = _read(request), _read(response)
    parts = [part for message in _listed(asked, "new") for part in _message(message)]
    text = answered.get("text")
    parts += [f"**model:** {_quoted(str(text))}"] if text else []
    for call in _listed(answered, "calls"):
        if _is_object(call):
            parts.append(f"asks for {inline(str(call.get('name')))} {inline(_short(call.get('args')))}")
    return parts


def _message(message: Any) -> list[str]:
    if not _is_object(message):
        return [_quoted(_short(message))]
    role, content = str(message.get("role") or message.get("type") or "message"), message.get("content")
    if content is None:  # a message that holds no text of its own: calls that a model asks for, or a result
        content = {name: item for name, item in message.items() if name not in _SHOWN_ELSEWHERE and item is not None}
        if not content:
            return []
    return [f"**{' '.join(role.split())}:** {_quoted(content if isinstance(content, str) else _short(content))}"]


def _value(title: str, stored: str | None) -> list[str]:
    if stored is None:
        return []
    text = shorten(json.dumps(json.loads(stored), indent=1, ensure_ascii=False), MOST_CHARACTERS)
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{title}:\n{fence}json\n{text}\n{fence}"]


def _quoted(text: str) -> str:
    """Return a text as a quotation, so that no line of it is taken for a heading."""
    lines = shorten(text, MOST_CHARACTERS).splitlines() or [""]
    return lines[0] if len(lines) == 1 else "\n\n" + "\n".join(f"> {line}" for line in lines)


def _short(value: Any) -> str:
    return value if isinstance(value, str) else shorten(json.dumps(value, ensure_ascii=False), MOST_CHARACTERS)


def _read(stored: str | None) -> dict[str, Any]:
    found: Any = json.loads(stored) if stored is not None else None
    return found if _is_object(found) else {}


def _listed(found: dict[str, Any], name: str) -> list[Any]:
    value: Any = found.get(name)
    return value if _is_list(value) else []


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
