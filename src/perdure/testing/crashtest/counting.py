"""What happened, read from the provider's log, and what should have: pure, lines in, counts out."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ARGUMENTS, SCOPE, TOOL = "arguments", "scope", "tool"
LONGEST_VALUE = 80
LEVELS = (ARGUMENTS, SCOPE, TOOL)
"""How exactly effects can be told apart: a job whose arguments differ from run to run is compared by less of them."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect, or with ``--live`` one entry into a tool's body.

    Args:
        key: the idempotency key of its call.
        arguments: canonical text.
        scope: the declared scope's values; None where no scope is declared.
        is_entry: counted before the body was entered; what it did then is not known here.
        left: the body was left with a value; None for effects that happened at the provider.
    """

    tool: str
    key: str
    arguments: str
    scope: str | None = None
    is_entry: bool = False
    left: bool | None = None

    def identity(self, level: str) -> str:
        """Return what this effect is compared by, for a person to read."""
        if level == ARGUMENTS:
            return f"{self.tool}{self.arguments}"
        return f"{self.tool}{self.scope}" if level == SCOPE else self.tool


@dataclass(frozen=True, slots=True)
class Expected:
    """What every run of the job must have done at its end.

    Args:
        counts: how often, by identity.
        levels: by what the effects of each tool are compared.
        unsteady: tools that two clean runs did not call equally often; only doubles of one call are found there.
    """

    counts: Mapping[str, int]
    levels: Mapping[str, str]
    unsteady: tuple[str, ...] = ()

    def identity(self, effect: Effect) -> str:
        """Return what an effect is compared by."""
        return effect.identity(self.levels.get(effect.tool, TOOL))


@dataclass(frozen=True, slots=True)
class Difference:
    """What happened too often, and too seldom: identity to how often, and how often it should have."""

    repeated: Mapping[str, tuple[int, int]]
    lost: Mapping[str, tuple[int, int]]


def effects_of(lines: Iterable[Mapping[str, Any]], run: str) -> list[Effect]:
    """Return the effects of one run, in order, from the lines of the provider's log."""
    found: list[Effect] = []
    for line in lines:
        body: Mapping[str, Any] = line.get("body") or {}
        if line["event"] != "effect" or body.get("run") != run:
            continue
        effect = Effect(body["tool"], body["key"], body["arguments"], body["scope"], body["event"] == "entered")
        if body["event"] == "left":
            _leave(found, effect)
        else:
            found.append(effect)
    return found


def _leave(found: list[Effect], leaving: Effect) -> None:
    for at in range(len(found) - 1, -1, -1):
        if found[at].key == leaving.key and found[at].left is None:
            entry = found[at]
            found[at] = Effect(entry.tool, entry.key, entry.arguments, entry.scope, is_entry=True, left=True)
            return


def physical(effects: Sequence[Effect], keyed: frozenset[str]) -> Counter[tuple[str, Effect]]:
    """Return how often each call had its effect, by key, with one of its effects to name it by.

    An entry into a body counts again only after one that was left with a value: before that, nobody knows that
    anything was sent. A tool whose provider knows the key may be entered any number of times.

    Args:
        keyed: the tools whose provider must make one of equal keys.
    """
    counts: dict[str, int] = {}
    first: dict[str, Effect] = {}
    for effect in effects:
        first.setdefault(effect.key, effect)
        if not effect.is_entry:
            counts[effect.key] = counts.get(effect.key, 0) + 1
        elif effect.tool in keyed:
            counts[effect.key] = 1
        else:
            counts[effect.key] = max(1, counts.get(effect.key, 0))
            counts[effect.key] += _entered_after_it_was_left(effects, effect)
    return Counter({(key, first[key]): number for key, number in counts.items()})


def _entered_after_it_was_left(effects: Sequence[Effect], entry: Effect) -> int:
    """Return 1 if an earlier entry of the same call was left with a value."""
    for effect in effects:
        if effect is entry:
            return 0
        if effect.key == entry.key and effect.left:
            return 1
    return 0


def expect(runs: Sequence[Sequence[Effect]], keyed: frozenset[str] = frozenset()) -> Expected:
    """Return what clean runs did alike, told apart as exactly as they agree.

    Args:
        runs: the effects of each clean run.
        keyed: as for ``physical``.
    """
    tools = sorted({effect.tool for effects in runs for effect in effects})
    counts: dict[str, int] = {}
    levels: dict[str, str] = {}
    unsteady: list[str] = []
    for tool in tools:
        found = {level: [_count(effects, tool, level, keyed) for effects in runs] for level in LEVELS}
        agreed = [level for level in LEVELS if all(one == found[level][0] for one in found[level])]
        if not agreed:
            unsteady.append(tool)
            continue
        levels[tool] = agreed[0]
        counts.update(found[agreed[0]][0])
    return Expected(counts, levels, tuple(unsteady))


def _count(effects: Sequence[Effect], tool: str, level: str, keyed: frozenset[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, effect), number in physical([one for one in effects if one.tool == tool], keyed).items():
        found[effect.identity(level)] += number
    return found


def compare(effects: Sequence[Effect], expected: Expected, keyed: frozenset[str] = frozenset()) -> Difference:
    """Return what happened too often or too seldom; a call whose own effect happened twice is always too often."""
    seen: Counter[str] = Counter()
    repeated: dict[str, tuple[int, int]] = {}
    for (_, effect), number in physical(effects, keyed).items():
        identity = expected.identity(effect)
        seen[identity] += number
        if number > 1:
            repeated[identity] = (number, 1)
    steady = {expected.identity(effect) for effect in effects if effect.tool not in expected.unsteady}
    for identity in steady:
        if seen[identity] > expected.counts.get(identity, 0):
            repeated[identity] = (seen[identity], expected.counts.get(identity, 0))
    lost = {name: (seen[name], times) for name, times in expected.counts.items() if seen[name] < times}
    return Difference(repeated, lost)


def texts(
    arguments: Mapping[str, Any], scope: Sequence[str] | None, volatile: Sequence[str] = ()
) -> tuple[str, str | None]:
    """Return what a call's arguments, and those of its scope, are compared by and shown as.

    Args:
        arguments: as JSON data.
        scope: the names of the declared scope.
        volatile: names that do not belong to a call's identity.
    """
    kept = {name: value for name, value in arguments.items() if name not in volatile}
    return _text(kept), None if scope is None else _text({name: kept.get(name) for name in scope})


def _text(arguments: Mapping[str, Any]) -> str:
    return "(" + ", ".join(f"{name}={_short(arguments[name])}" for name in sorted(arguments)) + ")"


def _short(value: Any) -> str:
    """Return a value as JSON; of a long one its beginning and a hash, which tell it from others as well."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(text) <= LONGEST_VALUE:
        return text
    return f"{text[: LONGEST_VALUE // 2]}…#{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"
