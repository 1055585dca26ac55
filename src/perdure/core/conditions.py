"""Conditions on the arguments of a call: when a person is asked, and which values are allowed at all.

Everything here fails closed: a field that is missing, or a value that cannot be compared, asks or is refused.
A condition is ``>10000``, ``>=``, ``<``, ``<=``, ``==x``, ``!=x``, a glob, or ``!`` and a glob (asks where it
does *not* match). Any condition that holds, of any field, asks.
"""

from __future__ import annotations

import fnmatch
import operator
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from perdure.core.codec import encode
from perdure.core.constraints import constraint_problems
from perdure.model.policy import Approval, ApprovalKind, Decision

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_MISSING = object()
_LAYOUT = {ord(char): None for char in "\n\r\t"}
_SEPARATORS = frozenset(",;<>()\"'\\:")


def parse_approval(value: object) -> Approval:
    """Return the approval that ``never``, ``always`` or ``{"when": {field: condition}}`` means.

    Raises:
        ValueError: it is none of these, or a condition has no meaning.
    """
    if isinstance(value, Approval):
        return value
    if isinstance(value, str) and value in (ApprovalKind.NEVER, ApprovalKind.ALWAYS):
        return Approval(ApprovalKind(value))
    given = _mapping(value)
    if given is None or set(given) != {"when"}:
        raise ValueError("approval is never, always, or {when: {field: condition}}")
    when = _mapping(given["when"])
    if not when:
        raise ValueError("when is a mapping of at least one field to a condition")
    return Approval(ApprovalKind.WHEN, {name: _conditions(name, listed) for name, listed in when.items()})


def _conditions(name: str, given: object) -> tuple[str, ...]:
    listed = _elements(given)
    if not listed:
        raise ValueError(f"when.{name}: an empty list asks about nothing")
    for condition in listed:
        problem = condition_problem(condition)
        if problem is not None:
            raise ValueError(f"when.{name}: {problem}")
    return tuple(str(condition) for condition in listed)


def condition_problem(condition: object) -> str | None:
    """Return what is wrong with a condition, or ``None``."""
    if not isinstance(condition, str):
        return f'{condition!r} is no condition: write it as text, such as ">10000" or "==x"'
    sign, wanted = _split(condition)
    if not wanted.strip("!"):
        return f"{condition!r} compares with nothing"
    if sign in _ORDER and _number_in(wanted) is None:
        return f"{wanted!r} is no number, and {sign} compares numbers"
    return None


def approval_needed(decision: Decision, args: Mapping[str, Any]) -> bool:
    """Return whether a person must agree before a call with these arguments is sent."""
    kind = decision.approval.kind
    if kind is not ApprovalKind.WHEN:
        return kind is ApprovalKind.ALWAYS
    return any(_asks(args, name, conditions) for name, conditions in decision.approval.conditions.items())


def _asks(args: Mapping[str, Any], name: str, conditions: tuple[str, ...]) -> bool:
    value = _look_up(args, name)
    elements = _elements(value)
    if value is _MISSING or not elements:
        return True
    return any(_holds(condition, element) is not False for condition in conditions for element in elements)


def check_args(decision: Decision, args: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each field of ``allow_args`` whose value is not allowed."""
    refused: list[str] = []
    for name, patterns in decision.allow_args.items():
        problem = _refusal(_look_up(args, name), patterns)
        if problem is not None:
            refused.append(f"{name}: {problem}")
    return refused


def refusal(
    spec: Mapping[str, Any], decision: Decision, namespace: str, tool_name: str, arguments: Mapping[str, Any]
) -> str | None:
    """Return why a call may not be made at all, or ``None``.

    Args:
        spec: of the run, whose ``constraints`` may forbid the tool, or where its arguments lead.
        arguments: what would be sent, defaults included.
    """
    rules: Mapping[str, Any] = spec.get("constraints") or {}
    found = constraint_problems(rules, namespace, tool_name, lambda: encode(arguments)) if rules else []
    return "; ".join([*check_args(decision, arguments), *found]) or None


def _refusal(value: object, patterns: tuple[str, ...]) -> str | None:
    wanted = " or ".join(patterns) or "nothing"
    if value is _MISSING:
        return f"missing, and only {wanted} is allowed"
    elements = _elements(value)
    if not elements:
        return f"empty, and only {wanted} is allowed"
    for element in elements:
        if not isinstance(element, str):
            return f"{element!r} is no text, and only {wanted} is allowed"
        if not any(value_matches(pattern, element) for pattern in patterns):
            return f"{element!r} is not allowed, only {wanted}"
    return None


def value_matches(pattern: str, value: str) -> bool:
    """Return whether a glob allows the whole of ``value``.

    ``*`` alone allows any text. Otherwise a value with a control character never matches, and where the
    pattern names an address (it has an ``@``) the value must be one bare address: ``*@example.org`` must not
    let ``x@evil.test, boss@example.org`` through.
    """
    if pattern.strip("*") == "" != pattern:
        return True
    if _has_hidden(value):
        return False
    if "@" in pattern and value != pattern and not _one_address(value):
        return False
    return fnmatch.fnmatchcase(value, pattern)


def _has_hidden(value: str) -> bool:
    return any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in value)


def _one_address(value: str) -> bool:
    return value.count("@") == 1 and not any(char.isspace() or char in _SEPARATORS for char in value)


def _elements(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)


def _mapping(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def _look_up(args: Mapping[str, Any], name: str) -> object:
    """Return the argument of this name, or the one that a dotted name leads to."""
    if name in args:
        return args[name]
    here: object = args
    for part in name.split("."):
        inner = _mapping(here)
        if inner is None or part not in inner:
            return _MISSING
        here = inner[part]
    return here


def _holds(condition: str, value: object) -> bool | None:
    """Return whether a condition holds, or ``None`` where the two cannot be compared."""
    sign, wanted = _split(condition)
    if sign in _ORDER:
        left, right = _number_of(value), _number_in(wanted)
        return None if left is None or right is None else _ORDER[sign](left, right)
    if sign:
        same = _same(wanted, value)
        return same if same is None or sign == "==" else not same
    return _globbed(condition, value) if isinstance(value, str) else None


def _globbed(condition: str, value: str) -> bool | None:
    if condition.startswith("!"):
        return not value_matches(condition[1:], value)
    if fnmatch.fnmatchcase(value, condition):
        return True
    return None if _has_hidden(value.translate(_LAYOUT)) else False  # what nobody sees could be why the glob missed


def _split(condition: str) -> tuple[str, str]:
    for sign in ("==", "!=", ">=", "<=", ">", "<"):
        if condition.startswith(sign):
            return sign, condition[len(sign) :].strip()
    return "", condition


def _same(wanted: str, value: object) -> bool | None:
    if isinstance(value, str):
        return value == wanted
    if isinstance(value, bool):
        return wanted == ("true" if value else "false")
    if value is None:
        return wanted == "null"
    left, right = _number_of(value), _number_in(wanted)
    if left is None:
        return None
    return right is not None and left == right


def _number_of(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    number = Decimal(value)
    return None if number.is_nan() else number


def _number_in(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
