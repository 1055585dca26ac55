"""One pure function from rules and a tool's own declaration to what holds for its calls, with the reasons.

Precedence, field by field (R050, R081, R086, R090, C10, C11):

1. ``side_effect_denylist`` forces external.
2. Among rules: exact name before glob before regex, with a namespace before without, then the later file,
   then the later line. A field that the first one leaves out is taken from the next, so that no rule lifts a
   restriction by silence. A ``read_only_allowlist`` entry is a rule that says read_only.
3. An operator's rule that names the tool, exactly or by a glob, overrides what the tool declares of itself. A
   regex or a bare ``*`` is too broad for that: it fills what is open, and may raise class, approval and
   repeat, never lower them. The shipped base policy speaks only where the tool is silent.
4. A name can only raise a class that a regex or a bare ``*`` gave. Nothing known is external, and a lost
   outcome asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perdure.core import classify
from perdure.core.conditions import approval_needed, check_args
from perdure.core.duration import format_duration
from perdure.core.voices import (
    DECLARATION,
    RULE_FIELDS,
    Choice,
    choose,
    followed_rule,
    losers,
    match,
    own_voice,
    probe_lag_seconds,
    rule_voices,
)
from perdure.model.policy import (
    NO_APPROVAL,
    Decision,
    ListEntry,
    Loser,
    Policy,
    Rule,
    RuleRef,
    ToolDeclaration,
)
from perdure.model.toolcall import INNER_NAMESPACES, ReplayPolicy, SideEffectClass

__all__ = ["approval_needed", "check_args", "evaluate", "replay_problem"]


@dataclass(frozen=True, slots=True)
class _Class:
    """The class, and why."""

    value: SideEffectClass
    why: str
    losers: tuple[Loser, ...] = ()
    warnings: tuple[str, ...] = ()
    forced_by: RuleRef | None = None


def evaluate(policy: Policy, tool: ToolDeclaration) -> Decision:
    """Return what holds for the calls of ``tool`` under ``policy``: same input, same answer.

    Args:
        policy: all loaded rules.
        tool: what is known of the tool; for a name nobody declared, a declaration of the bare name.
    """
    own, own_warnings, invalid = own_voice(tool)
    ranked = rule_voices(policy, tool)
    chosen = {name: choose(ranked, own, name) for name in RULE_FIELDS}
    cls = _decide_class(policy, tool, chosen["side_effect_class"], invalid)
    has_probe = tool.has_probe or chosen["probe"].value is not None
    replay, replay_warnings = _decide_replay(tool, cls.value, chosen, has_probe)
    key_ttl = chosen["key_ttl_seconds"].value
    first = followed_rule(ranked, chosen)
    told = ("side_effect_class",) if cls.losers else ()
    return Decision(
        side_effect_class=cls.value,
        replay_policy=replay,
        guarantee=_guarantee(cls.value, replay, key_ttl),
        scope=chosen["scope"].value,
        volatile=chosen["volatile"].value or (),
        key_ttl_seconds=key_ttl,
        probe=chosen["probe"].value,
        has_probe=has_probe,
        probe_lag_seconds=probe_lag_seconds(ranked, tool),
        repeat=chosen["repeat"].value,
        approval=chosen["approval"].value or NO_APPROVAL,
        approval_expires_seconds=chosen["approval_expires_seconds"].value,
        max_attempts=chosen["max_attempts"].value,
        timeout_seconds=chosen["timeout_seconds"].value,
        valid_for_seconds=chosen["valid_for_seconds"].value,
        allow_args=chosen["allow_args"].value or {},
        rule=cls.forced_by or (None if first is None else first.place),
        why=cls.why,
        losers=(*cls.losers, *losers(ranked, own, chosen, forced_by=cls.forced_by, told=told)),
        warnings=(*own_warnings, *cls.warnings, *replay_warnings, *_scope_warnings(tool, chosen["scope"])),
        invalid_class=invalid is not None,
    )


def _decide_class(policy: Policy, tool: ToolDeclaration, choice: Choice, invalid: str | None) -> _Class:
    denied = _entry_for(policy.side_effect_denylist, tool)
    if denied is not None:
        spoken = tuple(Loser(v.ref, f"side_effect_class={choice.value}", "the denylist wins") for v in choice.voices)
        return _Class(
            SideEffectClass.EXTERNAL,
            f"{denied.ref} lists {tool.name} in side_effect_denylist, which forces external",
            losers=spoken if choice.value is not SideEffectClass.EXTERNAL else (),
            forced_by=denied.ref,
        )
    if choice.value is None:
        return _unclassified(tool, invalid)
    voice = choice.voices[0]
    said = "the tool declares" if voice.ref == DECLARATION else f"{voice.ref} says"
    raised = classify.raised_by_name(choice.value, tool.name)
    if voice.broad and raised is not choice.value:
        word = classify.writing_token(tool.name)
        why = f"{said} {choice.value}, but by a broad pattern, and {word!r} in the name means a change"
        return _Class(
            raised,
            why,
            losers=(Loser(voice.ref, f"side_effect_class={choice.value}", f"{word!r} raises it"),),
        )
    return _Class(choice.value, f"{said} {choice.value}", warnings=_invalid_warning(tool, invalid))


def _unclassified(tool: ToolDeclaration, invalid: str | None) -> _Class:
    if invalid is not None:
        why = f"{invalid!r} is no side-effect class, so the tool is treated as external"
        return _Class(SideEffectClass.EXTERNAL, why, warnings=_invalid_warning(tool, invalid))
    if tool.namespace in INNER_NAMESPACES or classify.is_subagent(tool.namespace, tool.name):
        why = "what it does outside is done by calls of its own, so it is local"
        return _Class(SideEffectClass.LOCAL, why)
    hint: tuple[Loser, ...] = ()
    word = classify.reading_token(tool.name)
    if word is not None:
        hint = (Loser("name", f"{word!r} speaks of reading", "a name may raise a risk, never lower it"),)
    return _Class(
        SideEffectClass.EXTERNAL,
        "nothing classifies it, so it is treated as external",
        losers=hint,
        warnings=(f"tool {tool.name!r} has no side_effect_class; it is treated as external",),
    )


def _invalid_warning(tool: ToolDeclaration, invalid: str | None) -> tuple[str, ...]:
    if invalid is None:
        return ()
    return (f"invalid side_effect_class {invalid!r} for tool {tool.name!r}; without a rule it is external",)


def _entry_for(entries: Sequence[ListEntry], tool: ToolDeclaration) -> ListEntry | None:
    found = [entry for entry in entries if match(Rule(entry.file, entry.line, tool=entry.tool), tool)]
    return max(found, key=lambda entry: (entry.tool == tool.name, entry.file_index, entry.line), default=None)


def replay_problem(
    cls: SideEffectClass, replay: ReplayPolicy, *, has_probe: bool, has_key_ttl: bool, subagent: bool = False
) -> str | None:
    """Return why a replay policy cannot hold for a call of this class, or ``None`` (C11, R091)."""
    if subagent:
        return None if replay is ReplayPolicy.RELAUNCH else f"a subagent is always RELAUNCH, never {replay}"
    if not cls.effectful:
        return None
    if replay in (ReplayPolicy.REPLAY_EXACT, ReplayPolicy.RELAUNCH):
        return f"{replay} would do an irreversible {cls} effect again"
    if replay is ReplayPolicy.RECONCILE and not has_probe:
        return "RECONCILE needs a probe to ask"
    if replay is ReplayPolicy.REPLAY_IDEMPOTENT and not has_key_ttl:
        return "REPLAY_IDEMPOTENT needs key_ttl: how long the provider remembers the key"
    return None


def _decide_replay(
    tool: ToolDeclaration, cls: SideEffectClass, chosen: Mapping[str, Choice], has_probe: bool
) -> tuple[ReplayPolicy, tuple[str, ...]]:
    subagent = classify.is_subagent(tool.namespace, tool.name)
    has_key_ttl = chosen["key_ttl_seconds"].value is not None
    inferred = _infer(cls, has_probe=has_probe, has_key_ttl=has_key_ttl, subagent=subagent)
    given = chosen["replay_policy"].value
    if given is None:
        return inferred, ()
    problem = replay_problem(cls, given, has_probe=has_probe, has_key_ttl=has_key_ttl, subagent=subagent)
    if problem is not None:
        return inferred, (f"tool {tool.name!r}: {problem}; {inferred} holds instead",)
    return given, ()


def _infer(cls: SideEffectClass, *, has_probe: bool, has_key_ttl: bool, subagent: bool) -> ReplayPolicy:
    if subagent:
        return ReplayPolicy.RELAUNCH
    if not cls.effectful:
        return ReplayPolicy.REPLAY_EXACT
    if has_probe:
        return ReplayPolicy.RECONCILE
    return ReplayPolicy.REPLAY_IDEMPOTENT if has_key_ttl else ReplayPolicy.ASK


def _guarantee(cls: SideEffectClass, replay: ReplayPolicy, key_ttl_seconds: float | None) -> str:
    """Return the one phrase for what happens to a call whose outcome was lost (design.md §2)."""
    if not cls.effectful or replay in (ReplayPolicy.REPLAY_EXACT, ReplayPolicy.RELAUNCH):
        return "rerun"
    if replay is ReplayPolicy.RECONCILE:
        return "probe"
    if replay is ReplayPolicy.REPLAY_IDEMPOTENT and key_ttl_seconds is not None:
        lasting = format_duration(key_ttl_seconds)
        return "create-if-absent" if lasting == "forever" else f"keyed {lasting}"
    return "ask"


def _scope_warnings(tool: ToolDeclaration, choice: Choice) -> tuple[str, ...]:
    wording = [name for name in choice.value or () if name.lower() in classify.WORDING_FIELDS]
    if not wording:
        return ()
    named = ", ".join(wording)
    return (f"tool {tool.name!r}: scope names {named}: wording may change per life, and is no scope",)
