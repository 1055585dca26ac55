"""Who speaks about a tool, whom to follow on each field, and how to tell the others why not.

What a rule, a list entry or a declaration says is brought into one form, a *voice*; ``core.policy`` asks
``choose`` for each field and makes the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from perdure.core import classify
from perdure.core.conditions import parse_approval
from perdure.core.duration import format_duration
from perdure.model.policy import Approval, ApprovalKind, Loser, Policy, Rule, RuleRef, ToolDeclaration
from perdure.model.toolcall import Repeat, SideEffectClass

DECLARATION = "declaration"
_WHERE = frozenset({"file", "line", "tool", "tool_name_regex", "namespace", "file_index", "shipped"})
RULE_FIELDS = tuple(f.name for f in fields(Rule) if f.name not in _WHERE)
# Class and approval are checked before they count; probe_lag has a default, which looks like silence.
_CHECKED = frozenset({"approval", "side_effect_class", "probe_lag_seconds"})
_DECLARED_FIELDS = tuple(f.name for f in fields(ToolDeclaration) if f.name in RULE_FIELDS and f.name not in _CHECKED)
_REPEAT_ORDER = (Repeat.ALLOW, Repeat.CHALLENGE, Repeat.ASK)
_APPROVAL_ORDER = (ApprovalKind.NEVER, ApprovalKind.WHEN, ApprovalKind.ALWAYS)
_REGEX, _GLOB, _EXACT = 1, 2, 3
_LISTED = frozenset({"scope", "volatile", "allow_args"})
_KINDS = {_REGEX: "a regex", _GLOB: "a glob", _EXACT: "the exact name"}


class Rank(NamedTuple):
    """How exactly a rule speaks of the tool; the greatest is followed."""

    kind: int
    has_namespace: bool
    file_index: int
    line: int


NO_RANK = Rank(0, False, 0, 0)


@dataclass(frozen=True, slots=True)
class Voice:
    """Somebody who says something about the tool.

    Args:
        ref: ``file:line`` or ``declaration``.
        said: the fields it speaks of.
        broad: a regex or a bare wildcard, which names no tool.
        shipped: from the base policy, which speaks only where the tool is silent.
    """

    ref: str
    said: Mapping[str, Any]
    rank: Rank = NO_RANK
    place: RuleRef | None = None
    broad: bool = False
    shipped: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A field's value and whose word it is."""

    value: Any = None
    voices: tuple[Voice, ...] = ()


def rule_voices(policy: Policy, tool: ToolDeclaration) -> list[Voice]:
    """Return every rule and allowlist entry that matches the tool, the one to follow first."""
    allowed = [
        Rule(e.file, e.line, tool=e.tool, side_effect_class=SideEffectClass.READ_ONLY, file_index=e.file_index)
        for e in policy.read_only_allowlist
    ]
    found = [
        Voice(
            ref=str(rule.ref),
            said=_said(rule, RULE_FIELDS),
            rank=Rank(kind, rule.namespace is not None, rule.file_index, rule.line),
            place=rule.ref,
            broad=rule.tool is None or classify.is_bare_wildcard(rule.tool),
            shipped=rule.shipped,
        )
        for rule in (*policy.rules, *allowed)
        if (kind := match(rule, tool))
    ]
    return sorted(found, key=lambda voice: voice.rank, reverse=True)


def match(rule: Rule, tool: ToolDeclaration) -> int:
    """Return how exactly a rule names the tool: 3 by its name, 2 by a glob, 1 by a regex, 0 not at all."""
    if rule.namespace is not None and rule.namespace != tool.namespace:
        return 0
    if rule.tool is None:
        return _REGEX if classify.regex_matches(rule.tool_name_regex or "", tool.name) else 0
    if classify.is_glob(rule.tool):
        return _GLOB if classify.glob_matches(rule.tool, tool.name) else 0
    return _EXACT if rule.tool == tool.name else 0


def own_voice(tool: ToolDeclaration) -> tuple[Voice, list[str], str | None]:
    """Return the declaration as a voice, what is wrong with it, and its class if that is no known word."""
    said = _said(tool, _DECLARED_FIELDS)
    warnings: list[str] = []
    invalid = None
    if tool.side_effect_class in tuple(SideEffectClass):
        said["side_effect_class"] = SideEffectClass(tool.side_effect_class)
    elif tool.side_effect_class is not None:
        invalid = str(tool.side_effect_class)
    if tool.approval is not None:
        try:
            said["approval"] = parse_approval(tool.approval)
        except ValueError as problem:
            said["approval"] = Approval(ApprovalKind.ALWAYS)
            warnings.append(f"tool {tool.name!r}: {problem}; a person is asked every time")
    return Voice(DECLARATION, said), warnings, invalid


def _said(spoken: Rule | ToolDeclaration, names: Iterable[str]) -> dict[str, Any]:
    given = ((name, getattr(spoken, name)) for name in names)
    # An empty volatile list is silence; an empty scope is a statement (one effect, whatever the arguments).
    return {name: value for name, value in given if value is not None and not (name == "volatile" and value == ())}


def choose(ranked: Sequence[Voice], own: Voice, name: str) -> Choice:
    """Return whose word holds for one field.

    Where the tool is silent, the first rule. Where it speaks, the operator's first rule that names the tool;
    else the tool itself, except that a broad operator's rule may raise class, approval and repeat.
    """
    speaking = [voice for voice in ranked if name in voice.said]
    if name not in own.said:
        return Choice(speaking[0].said[name], (speaking[0],)) if speaking else Choice()
    operators = [voice for voice in speaking if not voice.shipped]
    naming = next((voice for voice in operators if not voice.broad), None)
    if naming is not None:
        return Choice(naming.said[name], (naming,))
    stricter = _STRICTER.get(name)
    if not operators or stricter is None:
        return Choice(own.said[name], (own,))
    return _raised(own, operators[0], name, stricter)


def _raised(own: Voice, broad: Voice, name: str, stricter: Callable[[Any, Any], Any]) -> Choice:
    value = stricter(own.said[name], broad.said[name])
    if value == own.said[name]:
        return Choice(value, (own,))
    return Choice(value, (broad,) if value == broad.said[name] else (broad, own))


def _stricter_repeat(one: Repeat, other: Repeat) -> Repeat:
    return max(one, other, key=_REPEAT_ORDER.index)


def _stricter_approval(one: Approval, other: Approval) -> Approval:
    if one.kind is other.kind is ApprovalKind.WHEN:
        names = {**one.conditions, **other.conditions}
        both = {n: tuple(dict.fromkeys((*one.conditions.get(n, ()), *other.conditions.get(n, ())))) for n in names}
        return Approval(ApprovalKind.WHEN, both)
    return max(one, other, key=lambda approval: _APPROVAL_ORDER.index(approval.kind))


_STRICTER: Mapping[str, Callable[[Any, Any], Any]] = {
    "side_effect_class": classify.riskier,
    "repeat": _stricter_repeat,
    "approval": _stricter_approval,
}


def probe_lag_seconds(ranked: Sequence[Voice], tool: ToolDeclaration) -> float:
    """Return how long a probe's "no" may be wrong: a rule that names the tool, else the longest."""
    for voice in ranked:
        if "probe_lag_seconds" in voice.said:
            lag = float(voice.said["probe_lag_seconds"])
            return max(lag, tool.probe_lag_seconds) if voice.broad or voice.shipped else lag
    return tool.probe_lag_seconds


def followed_rule(ranked: Sequence[Voice], chosen: Mapping[str, Choice]) -> Voice | None:
    """Return the most exact rule whose word holds for at least one field."""
    return next((voice for voice in ranked if any(voice in choice.voices for choice in chosen.values())), None)


def losers(
    ranked: Sequence[Voice],
    own: Voice,
    chosen: Mapping[str, Choice],
    *,
    forced_by: RuleRef | None = None,
    told: Sequence[str] = (),
) -> list[Loser]:
    """Return everybody who spoke and is not, or not wholly, followed, with the reason.

    Args:
        ranked, own, chosen: who spoke, and who is followed on each field.
        forced_by: the list entry that is shown in place of the first rule.
        told: fields whose losers the caller names itself.
    """
    winner = followed_rule(ranked, chosen)
    found: list[Loser] = []
    for voice in (*ranked, own):
        said = {name: value for name, value in voice.said.items() if name not in told}
        followed = [name for name in said if voice in chosen[name].voices]
        shown = voice is winner and forced_by is None
        if shown or not said or (voice is own and len(followed) == len(said)):
            continue
        reason = f"{forced_by} decides the class" if voice is winner else _reason(voice, winner, chosen)
        if followed:
            reason += f"; still gives {', '.join(_label(name) for name in followed)}"
        found.append(Loser(voice.ref, _spell(said), reason))
    return found


def _reason(voice: Voice, winner: Voice | None, chosen: Mapping[str, Choice]) -> str:
    if voice.ref == DECLARATION:
        return _overruled_declaration(voice, chosen)
    if winner is None or winner.rank < voice.rank:
        return "the tool declares it itself, and " + (
            "a shipped rule speaks only where the tool is silent" if voice.shipped else "a broad rule may only raise it"
        )
    if voice.rank.kind != winner.rank.kind:
        return f"{_KINDS[voice.rank.kind]}, and {winner.ref} matches by {_KINDS[winner.rank.kind]}"
    if voice.rank.has_namespace != winner.rank.has_namespace:
        return f"no namespace, and {winner.ref} has one"
    return f"as exact as {winner.ref}, which was loaded later"


def _overruled_declaration(own: Voice, chosen: Mapping[str, Choice]) -> str:
    above = next(v for name in own.said for v in chosen[name].voices if v is not own)
    if above.broad:
        return f"{above.ref} is stricter, and a broad rule may raise a declaration"
    return f"{above.ref} names the tool, and a rule overrides a declaration"


def _spell(said: Mapping[str, Any]) -> str:
    return ", ".join(f"{_label(name)}={_text(name, value)}" for name, value in said.items())


def _label(name: str) -> str:
    return name.removesuffix("_seconds")


def _text(name: str, value: Any) -> str:
    if name.endswith("_seconds"):
        return format_duration(value)
    if isinstance(value, Approval):
        return str(value.kind)
    return f"[{', '.join(value)}]" if name in _LISTED else str(value)
