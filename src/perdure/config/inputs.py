"""``-i key=value`` of the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from perdure.model.errors import SpecError


def parse_inputs(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the inputs that ``key=value`` arguments mean.

    A value that is JSON (a number, ``true``, ``null``, an object, an array, a quoted string) is that; else it
    is the text itself, so ``-i zip='"10115"'`` is how digits stay text.

    Raises:
        SpecError: an argument has no ``=``, no key, a key that came before, or a value that cannot be stored.
    """
    found: dict[str, Any] = {}
    problems: list[str] = []
    for pair in pairs:
        key, equals, text = pair.partition("=")
        problem = _problem(key, equals, text, found)
        if problem is None:
            found[key], problem = _value(text)
        if problem is not None:
            problems.append(f"-i {_printable(pair)}: {problem}")
    if problems:
        raise SpecError(problems)
    return found


def _problem(key: str, equals: str, text: str, found: dict[str, Any]) -> str | None:
    if not equals:
        return "has no '=': write key=value"
    if not key or not key.isprintable() or key != key.strip():
        return "has no usable key before '='"
    if key in found:
        return f"{key!r} is given twice"
    return None if _storable(text) else "is not valid UTF-8"


def _value(text: str) -> tuple[Any, str | None]:
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique)
    except _Refused as refused:
        return None, str(refused)
    except (ValueError, RecursionError):
        return text, None
    return (value, None) if _storable(json.dumps(value, ensure_ascii=False)) else (None, "has a lone surrogate")


class _Refused(Exception):
    """The text is JSON, but not a value that can be stored unchanged."""


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Refused(f"{text} is too large for a number")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        raise _Refused("an object has the same key twice")
    return built


def _storable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
