"""JSON that stands on the command line."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from perdure.core.codec import Unstorable, from_tagged, to_tagged
from perdure.model.errors import UsageError


def value_of(text: str, flag: str) -> Any:
    """Return the value of a JSON argument; the ledger's own tags (``{"$bytes": …}``) are understood.

    Args:
        flag: where it stands, for the error.

    Raises:
        UsageError: it is no JSON, or cannot be stored unchanged.
    """
    try:
        found = from_tagged(json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique))
        to_tagged(found, at=flag)
    except (ValueError, TypeError, ArithmeticError, RecursionError, Unstorable) as problem:
        hint = "; text is written as '\"text\"'" if isinstance(problem, json.JSONDecodeError) else ""
        raise UsageError(f"{flag}: {text!r} is no JSON value: {problem}{hint}") from None
    return found


def mapping_of(text: str, flag: str) -> dict[str, Any]:
    """Return the value of an argument that must be a JSON object.

    Raises:
        UsageError: it is none.
    """
    found = value_of(text, flag)
    if not isinstance(found, dict):
        raise UsageError(f"{flag}: {text!r} is no JSON object")
    return cast("dict[str, Any]", found)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return built


def duration_of(text: str) -> str | float:
    """Return a duration as it was typed; a bare number is a number of seconds, as it is in a file."""
    return float(text) if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,12})?", text) else text
