"""What an agent says it has used: tokens and money, reported by itself or read from a model's answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeGuard

from perdure.core.budget import Limit, in_units

_COUNTED = (
    *("prompt_tokens", "completion_tokens"),  # OpenAI chat completions
    *("input_tokens", "output_tokens"),  # OpenAI responses, Anthropic messages
    *("cache_creation_input_tokens", "cache_read_input_tokens"),  # Anthropic, beside its input_tokens
)


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens, and money in millionths of a US dollar."""

    tokens: int = 0
    usd_micros: int = 0

    def __bool__(self) -> bool:
        return self.tokens > 0 or self.usd_micros > 0


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """What a model's answer tells of itself: tokens read and written, and which model it was."""

    input: int | None = None
    output: int | None = None
    model: str | None = None


def checked(tokens: object, usd: object) -> Spent:
    """Return what a program reports.

    Raises:
        ValueError: it is no whole number of tokens, or no amount of money, from 0.
    """
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
        raise ValueError(f"tokens={tokens!r} is no whole number from 0")
    if isinstance(usd, bool) or not isinstance(usd, int | float | Decimal) or not _is_amount(usd):
        raise ValueError(f"usd={usd!r} is no amount from 0")
    return Spent(tokens, in_units(Limit.USD, usd))


def read_usage(answer: Any) -> Spent:
    """Return what a model's answer says it has cost; one that says nothing has cost nothing that is known.

    ``usage.total_tokens`` is taken where it stands, else what counts are there are added up. Money is ``usage.cost`` or
    the answer's ``total_cost_usd``, which few providers tell.
    """
    if not _is_object(answer):
        return Spent()
    told = answer.get("usage")
    usage: Mapping[str, Any] = told if _is_object(told) else {}
    total = _count(usage.get("total_tokens"))
    tokens = total if total else sum(_count(usage.get(name)) for name in _COUNTED)
    for usd in (usage.get("cost"), answer.get("total_cost_usd")):
        if isinstance(usd, int | float) and not isinstance(usd, bool) and _is_amount(usd):
            return Spent(tokens, in_units(Limit.USD, usd))
    return Spent(tokens)


def read_tokens(answer: Any) -> TokenCounts:
    """Return the tokens that a model's answer says it has read and written, for a trace; ``None`` where it does not."""
    if not _is_object(answer):
        return TokenCounts()
    told, model = answer.get("usage"), answer.get("model")
    usage: Mapping[str, Any] = told if _is_object(told) else {}
    read = [usage[name] for name in ("input_tokens", "prompt_tokens") if _count(usage.get(name))]
    written = [usage[name] for name in ("output_tokens", "completion_tokens") if _count(usage.get(name))]
    return TokenCounts(
        read[0] if read else None, written[0] if written else None, model if isinstance(model, str) else None
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _is_amount(value: float | Decimal) -> bool:
    return 0 <= value < 10**9


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)
