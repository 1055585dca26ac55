"""What another policy would answer differently: about a tool, and about one call of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.core.conditions import approval_needed, check_args
from perdure.core.policy import evaluate
from perdure.model.policy import Approval, ApprovalKind, Decision, Policy, ToolDeclaration

Change = dict[str, Any]
Changes = dict[str, Change]


def tool_changes(old: Policy, new: Policy, tool: ToolDeclaration) -> Changes:
    """Return what two policies say differently of a tool, by field."""
    return _differences(_of_tool(evaluate(old, tool)), _of_tool(evaluate(new, tool)))


def call_changes(old: Policy, new: Policy, tool: ToolDeclaration, args: Mapping[str, Any]) -> Changes:
    """Return what two policies say differently of one call with these arguments, by field."""
    before, after = evaluate(old, tool), evaluate(new, tool)
    return _differences(_of_call(before, args), _of_call(after, args))


def depends_on_arguments(policy: Policy, tool: ToolDeclaration) -> bool:
    """Return whether a policy answers differently for different arguments of a tool."""
    decision = evaluate(policy, tool)
    return decision.approval.kind is ApprovalKind.WHEN or bool(decision.allow_args)


def named_tools(policy: Policy) -> set[tuple[str | None, str]]:
    """Return the exact names that a policy's rules and lists speak of, each with its namespace if it has one."""
    rules = {(rule.namespace, rule.tool) for rule in policy.rules if rule.tool is not None}
    entries = {(None, entry.tool) for entry in (*policy.read_only_allowlist, *policy.side_effect_denylist)}
    return {(namespace, name) for namespace, name in (*rules, *entries) if not set(name) & set("*?[")}


def _of_tool(decision: Decision) -> dict[str, Any]:
    return {
        "side_effect_class": str(decision.side_effect_class),
        "replay_policy": str(decision.replay_policy),
        "guarantee": decision.guarantee,
        "approval": approval_text(decision.approval),
        "repeat": None if decision.repeat is None else str(decision.repeat),
        "scope": None if decision.scope is None else list(decision.scope),
        "allow_args": {name: list(patterns) for name, patterns in decision.allow_args.items()},
    }


def _of_call(decision: Decision, args: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "side_effect_class": str(decision.side_effect_class),
        "replay_policy": str(decision.replay_policy),
        "guarantee": decision.guarantee,
        "approval": approval_needed(decision, args),
        "denied": bool(check_args(decision, args)),
    }


def approval_text(approval: Approval) -> Any:
    """Return an approval as it is written in a policy file."""
    if approval.kind is not ApprovalKind.WHEN:
        return str(approval.kind)
    return {"when": {name: list(conditions) for name, conditions in approval.conditions.items()}}


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    return {name: {"old": before[name], "new": after[name]} for name in before if before[name] != after[name]}
