"""What ``perdure policy explain`` and ``policy check`` say; the answer is the runtime's own (R087)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from perdure.config.policy_file import load_policy
from perdure.core.duration import format_duration
from perdure.core.policy import approval_needed, check_args, evaluate
from perdure.core.policy_changes import approval_text
from perdure.core.voices import match
from perdure.model.policy import Decision, Policy, Rule, ToolDeclaration
from perdure.model.toolcall import LOCAL_NAMESPACE

EXPLAIN_SCHEMA = "perdure.policy/v1"
CHECK_SCHEMA = "perdure.policy_check/v1"
_LABEL_WIDTH = 12


def explain(
    name: str,
    *,
    policy: Policy,
    namespace: str | None = None,
    args: Mapping[str, Any] | None = None,
    declarations: Iterable[ToolDeclaration] = (),
) -> dict[str, Any]:
    """Return the ``perdure.policy/v1`` document for one tool.

    Args:
        name: the tool's name, known or not.
        policy: the rules that the runtime would use.
        namespace: where the tool lives; guessed as :func:`namespace_of` says when left out.
        args: arguments of one call, to show what would be refused or asked about.
        declarations: the tools that are registered.
    """
    known = list(declarations)
    where = namespace or namespace_of(name, policy, known)
    tool = next((t for t in known if t.name == name and t.namespace == where), ToolDeclaration(name, where))
    decision = evaluate(policy, tool)
    document = {
        "schema": EXPLAIN_SCHEMA,
        "tool_name": name,
        "namespace": where,
        "declared": tool in known,
        **_as_document(decision),
    }
    if args is not None:
        document["call"] = {
            "refused": check_args(decision, args),
            "approval_needed": approval_needed(decision, args),
        }
    return document


def namespace_of(name: str, policy: Policy, declarations: Iterable[ToolDeclaration]) -> str:
    """Return a registered tool's namespace, else the only one in which rules name it exactly, else local."""
    for tool in declarations:
        if tool.name == name:
            return tool.namespace
    named = {rule.namespace for rule in policy.rules if rule.tool == name}
    only = named.pop() if len(named) == 1 else None
    return only or LOCAL_NAMESPACE


def _as_document(decision: Decision) -> dict[str, Any]:
    rule = decision.rule
    return {
        "side_effect_class": str(decision.side_effect_class),
        "replay_policy": str(decision.replay_policy),
        "guarantee": decision.guarantee,
        "repeat": None if decision.repeat is None else str(decision.repeat),
        "rule": None if rule is None else {"file": rule.file, "line": rule.line},
        "why": decision.why,
        "scope": None if decision.scope is None else list(decision.scope),
        "volatile": list(decision.volatile),
        "key_ttl": _duration(decision.key_ttl_seconds),
        "probe": decision.probe or ("the tool's own" if decision.has_probe else None),
        "probe_lag": _duration(decision.probe_lag_seconds),
        "approval": approval_text(decision.approval),
        "approval_expires": _duration(decision.approval_expires_seconds),
        "max_attempts": decision.max_attempts,
        "timeout": _duration(decision.timeout_seconds),
        "valid_for": _duration(decision.valid_for_seconds),
        "allow_args": {field: list(patterns) for field, patterns in decision.allow_args.items()},
        "losers": [{"ref": lost.ref, "said": lost.what, "reason": lost.reason} for lost in decision.losers],
        "warnings": list(decision.warnings),
    }


def _duration(seconds: float | None) -> str | None:
    return None if seconds is None else format_duration(seconds)


def render_explain(document: Mapping[str, Any]) -> str:
    """Return the document as text for a person: what holds, by which line, and everybody who lost."""
    rule = document["rule"]
    lines = [f"{document['tool_name']}  (namespace {document['namespace']})", ""]
    lines += _line("class", document["side_effect_class"])
    lines += _line("lost outcome", f"{document['replay_policy']}: {_GUARANTEES[document['guarantee'].split()[0]]}")
    lines += _line("guarantee", document["guarantee"])
    lines += _line("rule", "none" if rule is None else f"{rule['file']}:{rule['line']}")
    lines += _line("why", document["why"])
    if document["side_effect_class"] in ("external", "memory"):
        lines += _line("scope", _scope(document["scope"]))
        lines += _line("repeat", document["repeat"] or "by caller")
    for name in (
        "volatile",
        "key_ttl",
        "approval",
        "approval_expires",
        "max_attempts",
        "timeout",
        "valid_for",
        "allow_args",
    ):
        lines += _line(name, _plain(document[name]))
    if document["probe"] is not None:
        lines += _line("probe", f"{document['probe']}, a no counts after {document['probe_lag']}")
    lines += _call_lines(document.get("call"))
    if document["losers"]:
        lines += ["", "not followed:"]
        lines += [f"  {lost['ref']}  {lost['said']}  ({lost['reason']})" for lost in document["losers"]]
    lines += [f"warning: {warning}" for warning in document["warnings"]]
    return "\n".join(lines) + "\n"


_GUARANTEES = {
    "create-if-absent": "the same request again, the target refuses a second one",
    "keyed": "the same key again while the provider remembers it, then a person",
    "probe": "the provider is asked what happened, then a person",
    "ask": "a person is asked",
    "rerun": "it is run again",
}


def _line(label: str, value: object) -> list[str]:
    return [] if value is None else [f"  {label:<{_LABEL_WIDTH}}  {value}"]


def _scope(scope: Sequence[str] | None) -> str:
    if scope is None:
        return "not declared: any earlier effect of this tool may be the same one"
    return ", ".join(scope) or "one effect, whatever the arguments"


def _plain(value: Any) -> str | None:
    if not value:
        return None
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return "; ".join(f"{key}: {_plain(inner)}" for key, inner in named.items())
    return str(value) if isinstance(value, str | int) else ", ".join(map(str, value))


def _call_lines(call: Mapping[str, Any] | None) -> list[str]:
    if call is None:
        return []
    said = "refused: " + "; ".join(call["refused"]) if call["refused"] else "allowed"
    asked = ", and a person must agree first" if call["approval_needed"] and not call["refused"] else ""
    return _line("this call", said + asked)


def check(paths: Sequence[Path], declarations: Sequence[ToolDeclaration] = ()) -> dict[str, Any]:
    """Return the ``perdure.policy_check/v1`` document for policy files that are valid.

    Args:
        declarations: registered tools; with some, a rule or an entry that names none of them is warned about.

    Raises:
        PolicyError: a file is not; all errors of all files are in it.
    """
    policy = load_policy(paths, base=False)
    return {
        "schema": CHECK_SCHEMA,
        "files": list(policy.files),
        "rules": len(policy.rules),
        "read_only_allowlist": len(policy.read_only_allowlist),
        "side_effect_denylist": len(policy.side_effect_denylist),
        "warnings": [*policy.warnings, *(_idle(policy, declarations) if declarations else ())],
    }


def _idle(policy: Policy, declarations: Sequence[ToolDeclaration]) -> Iterator[str]:
    """Yield a warning for each rule and entry that speaks of none of the tools: maybe a name is misspelt."""
    from perdure.config.checked import suggestion  # pydantic: only where there was a file to check

    names = [tool.name for tool in declarations]
    entries = [Rule(e.file, e.line, tool=e.tool) for e in (*policy.read_only_allowlist, *policy.side_effect_denylist)]
    for rule in (*policy.rules, *entries):
        if not any(match(rule, tool) for tool in declarations):
            said = rule.tool or rule.tool_name_regex or ""
            yield f"{rule.ref}: warning: {said!r} matches none of the {len(names)} tools{suggestion(said, names)}"


def render_test(document: Mapping[str, Any]) -> str:
    """Return what became of the tests as text for a person: every failure with its place."""
    lines = [
        f"{item['place']}: {row['tool_name']} ({row['namespace']}): {item['field']} is {_spoken(item['got'])}, "
        f"not {_spoken(item['expected'])}" + (f"  ({item['rule']})" if item["rule"] else "")
        for row in document["results"]
        for item in row["failures"]
    ]
    return "\n".join([*lines, f"{document['tests']} tests, {document['failed']} failed"]) + "\n"


def render_diff(document: Mapping[str, Any]) -> str:
    """Return what another policy would change as text for a person."""
    lines: list[str] = []
    for item in document["tools"]:
        lines.append(f"{item['tool_name']}  (namespace {item['namespace']})")
        lines += _changed(item["changes"])
    if document["calls"]:
        lines.append(f"{len(document['calls'])} of {document['calls_looked_at']} past calls:")
    for item in document["calls"]:
        lines.append(f"{item['tool_call_id']}  {item['tool_name']}")
        lines += _changed(item["changes"])
    if not lines:
        lines = [f"no change, for the tools named and {document['calls_looked_at']} past calls"]
    return "\n".join(lines) + "\n"


def _changed(changes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    width = max(map(len, changes))
    return [f"  {name:<{width}}  {_spoken(both['old'])} → {_spoken(both['new'])}" for name, both in changes.items()]


def _spoken(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value in (None, [], {}) else _plain(value) or "none"


def render_check(document: Mapping[str, Any]) -> str:
    """Return the document as text for a person."""
    counted = f"{len(document['files'])} file(s), {document['rules']} rule(s): valid"
    return "\n".join([*document["warnings"], counted]) + "\n"
