"""Durations as people write them: a number of seconds, or ``250ms 10s 5m 24h 7d forever``."""

from __future__ import annotations

import math
import re
from decimal import Decimal

LONGEST_SECONDS = 36_500 * 86_400.0  # a century; anything longer overflows calendars and means "forever"

_TEXT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,12})?)(ms|s|m|h|d)")
_UNIT = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}
_HINT = "write a number of seconds or something like 250ms, 10s, 5m, 24h, 7d"


def parse_duration(value: object) -> float:
    """Return the seconds that ``value`` means; ``"forever"`` is infinity.

    Raises:
        ValueError: it is no duration, is negative, or is longer than a century.
    """
    seconds = _from_text(value) if isinstance(value, str) else _from_number(value)
    if math.isinf(seconds) and seconds > 0:
        return seconds
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise ValueError(f"{value!r} is not between 0 and 36500d")
    return seconds


def _from_text(text: str) -> float:
    if text == "forever":
        return math.inf
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration: {_HINT}")
    return float(Decimal(found[1]) * _UNIT[found[2]])


def _from_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is no duration: {_HINT}")
    try:
        seconds = float(value)
    except OverflowError:
        raise ValueError("the number is not between 0 and 36500d") from None
    if math.isnan(seconds):
        raise ValueError(f"nan is no duration: {_HINT}")
    return seconds


def format_duration(seconds: float) -> str:
    """Return the shortest usual spelling of ``seconds``; ``parse_duration`` reads it back unchanged."""
    if math.isinf(seconds):
        return "forever"
    exact = Decimal(repr(float(seconds)))
    if exact == 0:
        return "0s"
    if exact > _UNIT["d"] and exact % _UNIT["d"] == 0:
        return f"{int(exact / _UNIT['d'])}d"
    for unit in ("h", "m", "s"):
        if exact % _UNIT[unit] == 0:
            return f"{int(exact / _UNIT[unit])}{unit}"
    if exact < 1 and exact % _UNIT["ms"] == 0:
        return f"{int(exact / _UNIT['ms'])}ms"
    return f"{exact:f}s"
