"""``-i key=value`` of the command line."""

from __future__ import annotations

import difflib
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.model.errors import SpecError


def parse_inputs(pairs: Sequence[str], declared: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the inputs that ``key=value`` arguments mean.

    A value is of the kind that the job declares: text is taken as it stands (or as a quoted JSON string); a number, a
    list, an object, true or false is JSON or YAML of that kind. Where nothing is declared, or null, a value that is
    JSON is that, and else it is the text itself, so ``-i zip='"10115"'`` is how digits stay text.

    Args:
        declared: the inputs that the job has; a job that has none takes any.

    Raises:
        SpecError: an argument has no ``=``, no key, a key that came before or that the job does not have, or a value
            that cannot be stored or is of another kind.
    """
    known = declared or {}
    found: dict[str, Any] = {}
    problems: list[str] = []
    for pair in pairs:
        key, equals, text = pair.partition("=")
        problem = _problem(key, equals, text, found) or unknown_input(key, known)
        if problem is None:
            found[key], problem = _of_kind(key, text, known.get(key))
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


def unknown_input(key: str, declared: Mapping[str, Any]) -> str | None:
    """Return what is wrong with an input's name, or ``None``: a job that declares inputs has no others."""
    if not declared or key in declared:
        return None
    near = difflib.get_close_matches(key, declared, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"the job has no input {key!r}{hint} (it has: {', '.join(sorted(declared))})"


_KINDS: tuple[tuple[type | tuple[type, ...], str, str], ...] = (
    (bool, "true or false", "true"),
    ((int, float), "a number", "5"),
    (list, "a list", '["…", "…"]'),
    (dict, "an object", '{"…": "…"}'),
)
_LONGEST_EXAMPLE = 60


def _of_kind(key: str, text: str, declared: Any) -> tuple[Any, str | None]:
    value, problem = _value(text)
    if problem is not None or declared is None:
        return value, problem
    if isinstance(declared, str):
        return (value if isinstance(value, str) else text), None
    for kind, name, usual in _KINDS:
        if isinstance(declared, kind):
            for found in (value, _yaml(text)):
                if isinstance(found, kind) and isinstance(found, bool) is (kind is bool):
                    return found, None
            said = json.dumps(declared, ensure_ascii=False)
            example = shlex.quote(f"{key}={said if len(said) <= _LONGEST_EXAMPLE else usual}")
            return None, f"{key!r} is declared as {name}, such as: -i {example}"
    return value, None


def _yaml(text: str) -> Any:
    """Return the value of a text as a job file has it, or ``None``."""
    from perdure.config.source import SourceError, parse_document  # ruamel: only where JSON does not do

    try:
        return parse_document(text, "-i").value
    except SourceError:
        return None


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
