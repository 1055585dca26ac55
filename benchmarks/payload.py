"""The call that everything here makes: about 290 bytes of arguments and 199 bytes of result, as JSON."""

import json
from typing import Any

ARGS_BYTES = 290
RESULT_BYTES = 199


def dumps(value: object) -> str:
    """Encode as compactly as JSON allows, so that sizes mean the same everywhere."""
    return json.dumps(value, separators=(",", ":"))


def _padded(value: dict[str, Any], field: str, size_bytes: int) -> dict[str, Any]:
    return {**value, field: "x" * (size_bytes - len(dumps({**value, field: ""})))}


_TEMPLATE = _padded({"number": 1000, "url": "http://127.0.0.1/orders"}, "body", ARGS_BYTES)
RESULT: dict[str, Any] = _padded({"ok": True, "status": 200}, "body", RESULT_BYTES)


def args_for(number: int) -> dict[str, Any]:
    """The arguments of one call; every call of a run has other ones."""
    return {**_TEMPLATE, "number": number}
