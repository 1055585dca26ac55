"""What a lost outcome leads to: replay policy, guarantee, and what the tool is warned about."""

import math

import pytest

from perdure.config.base_policy import base_policy
from perdure.core.classify import is_subagent
from perdure.core.policy import evaluate
from perdure.model.policy import Approval, ApprovalKind, Decision, Policy, Rule, ToolDeclaration
from perdure.model.toolcall import ReplayPolicy, SideEffectClass

EXTERNAL = SideEffectClass.EXTERNAL
ALWAYS = Approval(ApprovalKind.ALWAYS)


def rules(*given: Rule) -> Policy:
    return Policy(rules=given)


def decide(policy: Policy, name: str = "send_mail", **declared: object) -> Decision:
    return evaluate(policy, ToolDeclaration(name, **declared))  # type: ignore[arg-type]


# --- replay policy and guarantee (R081, R091, C11; design.md §2) ------------------------------------

KEYED, PROBED = {"key_ttl_seconds": 86400.0}, {"has_probe": True}


@pytest.mark.parametrize(
    ("declared", "replay", "guarantee"),
    [
        ({"side_effect_class": "external"}, "ASK", "ask"),
        ({"side_effect_class": "memory"}, "ASK", "ask"),
        ({"side_effect_class": "external", **PROBED}, "RECONCILE", "probe"),
        ({"side_effect_class": "external", **KEYED}, "REPLAY_IDEMPOTENT", "keyed 24h"),
        ({"side_effect_class": "external", "key_ttl_seconds": 604800.0}, "REPLAY_IDEMPOTENT", "keyed 7d"),
        ({"side_effect_class": "external", "key_ttl_seconds": 90.0}, "REPLAY_IDEMPOTENT", "keyed 90s"),
        ({"side_effect_class": "external", "key_ttl_seconds": math.inf}, "REPLAY_IDEMPOTENT", "create-if-absent"),
        ({"side_effect_class": "external", **KEYED, **PROBED}, "RECONCILE", "probe"),
        ({**KEYED}, "REPLAY_IDEMPOTENT", "keyed 24h"),
        ({"side_effect_class": "local", **PROBED}, "REPLAY_EXACT", "rerun"),
        ({"side_effect_class": "read_only"}, "REPLAY_EXACT", "rerun"),
        ({"side_effect_class": "external", **PROBED, "replay_policy": ReplayPolicy.ASK}, "ASK", "ask"),
        ({"side_effect_class": "local", "replay_policy": ReplayPolicy.ASK}, "ASK", "rerun"),
        ({"namespace": "agent"}, "RELAUNCH", "rerun"),
        ({"namespace": "agent", "replay_policy": ReplayPolicy.REPLAY_EXACT}, "RELAUNCH", "rerun"),
    ],
)
def test_what_a_lost_outcome_leads_to(declared: dict[str, object], replay: str, guarantee: str) -> None:
    decision = decide(Policy(), "tool", **declared)
    assert (decision.replay_policy, decision.guarantee) == (replay, guarantee)


@pytest.mark.parametrize(
    ("replay", "why"),
    [
        (ReplayPolicy.REPLAY_EXACT, "irreversible"),
        (ReplayPolicy.RELAUNCH, "irreversible"),
        (ReplayPolicy.RECONCILE, "needs a probe"),
        (ReplayPolicy.REPLAY_IDEMPOTENT, "needs key_ttl"),
    ],
)
@pytest.mark.parametrize("cls", ["external", "memory"])
def test_a_replay_policy_that_cannot_hold_asks_instead(cls: str, replay: ReplayPolicy, why: str) -> None:
    decision = decide(Policy(), "tool", side_effect_class=cls, replay_policy=replay)
    assert (decision.replay_policy, decision.guarantee) == (ReplayPolicy.ASK, "ask")
    assert any(why in warning for warning in decision.warnings)


def test_a_rule_that_raises_the_class_takes_the_blind_rerun_away() -> None:
    rule = Rule("p.yaml", 1, tool="tidy", side_effect_class=EXTERNAL)
    decision = decide(rules(rule), "tidy", side_effect_class="local", replay_policy=ReplayPolicy.REPLAY_EXACT)
    assert decision.replay_policy is ReplayPolicy.ASK


@pytest.mark.parametrize("name", ["Task", "Agent"])
def test_a_subagent_is_always_relaunched(name: str) -> None:
    exact = Rule("p.yaml", 1, tool=name, replay_policy=ReplayPolicy.REPLAY_EXACT)
    for policy in (base_policy(), rules(exact), Policy()):
        decision = evaluate(policy, ToolDeclaration(name, "claude_code"))
        assert decision.replay_policy is ReplayPolicy.RELAUNCH
    assert is_subagent("claude_code", name) and not is_subagent("local", name)


def test_a_rules_probe_serves_a_tool_without_one() -> None:
    rule = Rule("p.yaml", 1, tool="send_mail", probe="report:find_mail")
    decision = decide(rules(rule), side_effect_class="external")
    assert (decision.probe, decision.has_probe, decision.guarantee) == ("report:find_mail", True, "probe")
    broad = Rule("p.yaml", 1, tool="*", probe="report:find_mail")
    assert decide(rules(broad), side_effect_class="external").probe == "report:find_mail"


@pytest.mark.parametrize("name", ["subject", "body", "text", "title", "message", "Subject"])
def test_a_scope_of_wording_is_warned_about(name: str) -> None:
    decision = decide(Policy(), side_effect_class="external", scope=("to", name))
    assert decision.warnings == (f"tool 'send_mail': scope names {name}: wording may change per life, and is no scope",)


def test_an_empty_scope_is_a_statement() -> None:
    assert decide(Policy(), side_effect_class="external", scope=()).scope == ()
    assert decide(rules(Rule("p", 1, tool="send_mail", scope=())), scope=("to",)).scope == ()


def test_an_approval_that_means_nothing_asks_every_time() -> None:
    decision = decide(Policy(), side_effect_class="external", approval={"wen": {}})
    assert decision.approval == ALWAYS
    assert "a person is asked every time" in decision.warnings[0]
    readable = decide(Policy(), side_effect_class="external", approval={"when": {"cents": ">5"}})
    assert readable.approval.conditions == {"cents": (">5",)}
