"""Which rule is followed, what it makes of a call, and what the story of it says."""

import pytest

from perdure.config.base_policy import base_policy
from perdure.core.classify import raised_by_name
from perdure.core.policy import evaluate
from perdure.model.policy import (
    NO_APPROVAL,
    Approval,
    ApprovalKind,
    Decision,
    ListEntry,
    Policy,
    Rule,
    RuleRef,
    ToolDeclaration,
)
from perdure.model.toolcall import Repeat, ReplayPolicy, SideEffectClass

EXTERNAL, MEMORY = SideEffectClass.EXTERNAL, SideEffectClass.MEMORY
LOCAL, READ_ONLY = SideEffectClass.LOCAL, SideEffectClass.READ_ONLY
ALWAYS = Approval(ApprovalKind.ALWAYS)


def rules(*given: Rule) -> Policy:
    return Policy(rules=given)


def decide(policy: Policy, name: str = "send_mail", **declared: object) -> Decision:
    return evaluate(policy, ToolDeclaration(name, **declared))  # type: ignore[arg-type]


# --- precedence (R050, R086, R089, R090) -----------------------------------------------------------

EXACT = Rule("p.yaml", 1, tool="send_mail", side_effect_class=EXTERNAL)
EXACT_HERE = Rule("p.yaml", 2, tool="send_mail", namespace="local", side_effect_class=MEMORY)
GLOB = Rule("p.yaml", 3, tool="send_*", side_effect_class=LOCAL)
GLOB_HERE = Rule("p.yaml", 4, tool="send_*", namespace="local", side_effect_class=MEMORY)
REGEX = Rule("p.yaml", 5, tool_name_regex="^send_.*$", side_effect_class=MEMORY)
REGEX_HERE = Rule("p.yaml", 6, tool_name_regex="^send_.*$", namespace="local", side_effect_class=EXTERNAL)
ELSEWHERE = Rule("p.yaml", 7, tool="send_mail", namespace="mcp", side_effect_class=READ_ONLY)
OTHER = Rule("p.yaml", 8, tool="send_mai", side_effect_class=READ_ONLY)
LATER_EXACT = Rule("q.yaml", 1, tool="send_mail", side_effect_class=LOCAL, file_index=1)
LATER_GLOB = Rule("q.yaml", 2, tool="*_mail", side_effect_class=EXTERNAL, file_index=1)
LATER_REGEX = Rule("q.yaml", 3, tool_name_regex="mail", side_effect_class=EXTERNAL, file_index=1)


@pytest.mark.parametrize(
    ("given", "winner"),
    [
        ((EXACT, GLOB), EXACT),
        ((GLOB, EXACT), EXACT),
        ((EXACT, REGEX), EXACT),
        ((GLOB, REGEX), GLOB),
        ((EXACT, EXACT_HERE), EXACT_HERE),
        ((EXACT_HERE, EXACT), EXACT_HERE),
        ((GLOB_HERE, GLOB), GLOB_HERE),
        ((REGEX_HERE, REGEX), REGEX_HERE),
        ((EXACT, GLOB_HERE), EXACT),
        ((GLOB, REGEX_HERE), GLOB),
        ((EXACT, LATER_EXACT), LATER_EXACT),
        ((LATER_EXACT, EXACT), LATER_EXACT),
        ((EXACT, LATER_GLOB), EXACT),
        ((GLOB, LATER_GLOB), LATER_GLOB),
        ((GLOB, LATER_REGEX), GLOB),
        ((REGEX, LATER_REGEX), LATER_REGEX),
        ((EXACT_HERE, LATER_EXACT), EXACT_HERE),
        ((ELSEWHERE, GLOB), GLOB),
        ((OTHER, REGEX), REGEX),
    ],
)
def test_the_most_exact_rule_is_followed_and_the_later_file_wins_a_tie(given: tuple[Rule, ...], winner: Rule) -> None:
    decision = decide(rules(*given))
    assert decision.rule == winner.ref
    expected = winner.side_effect_class
    assert expected is not None
    broad = winner.tool is None
    assert decision.side_effect_class is (raised_by_name(expected, "send_mail") if broad else expected)
    assert str(winner.ref) not in [lost.ref for lost in decision.losers if "raises" not in lost.reason]


def test_every_loser_is_named_with_its_reason() -> None:
    policy = rules(EXACT_HERE, EXACT, GLOB, REGEX, LATER_EXACT)
    decision = decide(policy)
    assert {lost.ref: lost.reason for lost in decision.losers} == {
        "p.yaml:1": "no namespace, and p.yaml:2 has one",
        "q.yaml:1": "no namespace, and p.yaml:2 has one",
        "p.yaml:3": "a glob, and p.yaml:2 matches by the exact name",
        "p.yaml:5": "a regex, and p.yaml:2 matches by the exact name",
    }
    assert all("side_effect_class=" in lost.what for lost in decision.losers)
    assert decision.why == "p.yaml:2 says memory"


def test_a_tie_says_which_was_loaded_later() -> None:
    assert decide(rules(EXACT, LATER_EXACT)).losers[0].reason == "as exact as q.yaml:1, which was loaded later"


def test_an_exact_rule_does_not_lift_a_restriction_by_silence() -> None:
    policy = rules(
        Rule("p.yaml", 1, tool="pay_*", approval=ALWAYS, allow_args={"to": ("*@example.org",)}, max_attempts=2),
        Rule("p.yaml", 5, tool="pay_invoice", side_effect_class=EXTERNAL, scope=("invoice",)),
    )
    decision = decide(policy, "pay_invoice")
    assert decision.rule == RuleRef("p.yaml", 5)
    assert (decision.approval, decision.max_attempts) == (ALWAYS, 2)
    assert decision.allow_args == {"to": ("*@example.org",)}
    assert "still gives approval, max_attempts, allow_args" in " ".join(lost.reason for lost in decision.losers)


def test_an_exact_rule_lifts_a_restriction_by_saying_so() -> None:
    policy = rules(
        Rule("p.yaml", 1, tool="pay_*", approval=ALWAYS),
        Rule("p.yaml", 5, tool="pay_small", approval=NO_APPROVAL),
    )
    assert decide(policy, "pay_small").approval == NO_APPROVAL
    assert decide(policy, "pay_large").approval == ALWAYS


# --- a rule and the tool's own declaration ---------------------------------------------------------


@pytest.mark.parametrize("pattern", ["send_mail", "send_*"])
def test_a_rule_that_names_the_tool_overrides_its_declaration_field_by_field(pattern: str) -> None:
    rule = Rule("p.yaml", 3, tool=pattern, side_effect_class=READ_ONLY, scope=("to",), timeout_seconds=30.0)
    decision = decide(
        rules(rule), side_effect_class="external", scope=("invoice",), key_ttl_seconds=60.0, volatile=("at",)
    )
    assert (decision.side_effect_class, decision.scope, decision.timeout_seconds) == (READ_ONLY, ("to",), 30.0)
    assert (decision.key_ttl_seconds, decision.volatile) == (60.0, ("at",))
    (lost,) = decision.losers
    assert lost.ref == "declaration"
    assert lost.reason.startswith("p.yaml:3 names the tool, and a rule overrides a declaration; still gives")


@pytest.mark.parametrize("broad", [{"tool_name_regex": "^send"}, {"tool": "*"}, {"tool": "??*"}])
def test_a_broad_rule_may_raise_a_declaration_but_never_lower_it(broad: dict[str, str]) -> None:
    raising = Rule("p.yaml", 1, **broad, side_effect_class=EXTERNAL, repeat=Repeat.ASK, approval=ALWAYS)  # type: ignore[arg-type]
    raised = decide(rules(raising), "send_mail", side_effect_class="read_only", repeat=Repeat.ALLOW)
    assert (raised.side_effect_class, raised.repeat, raised.approval) == (EXTERNAL, Repeat.ASK, ALWAYS)

    lowering = Rule(
        "p.yaml",
        1,
        **broad,  # type: ignore[arg-type]
        side_effect_class=READ_ONLY,
        repeat=Repeat.ALLOW,
        approval=NO_APPROVAL,
        scope=("to",),
        max_attempts=9,
    )
    kept = decide(
        rules(lowering),
        side_effect_class="external",
        repeat=Repeat.ASK,
        approval=ALWAYS,
        scope=("invoice",),
    )
    assert (kept.side_effect_class, kept.repeat, kept.approval) == (EXTERNAL, Repeat.ASK, ALWAYS)
    assert kept.scope == ("invoice",)
    assert kept.max_attempts == 9, "what the tool leaves open is filled"


def test_conditions_of_a_broad_rule_are_added_to_the_tools_own() -> None:
    own = Approval(ApprovalKind.WHEN, {"cents": (">10000",)})
    rule = Rule("p.yaml", 1, tool="*", approval=Approval(ApprovalKind.WHEN, {"cents": (">500",), "to": ("*@x",)}))
    decision = decide(rules(rule), side_effect_class="external", approval=own)
    assert decision.approval.conditions == {"cents": (">10000", ">500"), "to": ("*@x",)}


def test_a_shipped_rule_speaks_only_where_the_tool_is_silent() -> None:
    base = base_policy()
    assert decide(base, "read_local_file").side_effect_class is READ_ONLY
    declared = decide(base, "read_local_file", side_effect_class="external")
    assert declared.side_effect_class is EXTERNAL
    assert declared.rule is None
    assert "a shipped rule speaks only where the tool is silent" in declared.losers[0].reason
    own = decide(base, "upload_to_composio", side_effect_class="local")
    assert own.side_effect_class is LOCAL


def test_a_probe_lag_is_shortened_only_by_a_rule_that_names_the_tool() -> None:
    named = Rule("p.yaml", 1, tool="send_mail", probe_lag_seconds=1.0)
    broad = Rule("p.yaml", 1, tool="*", probe_lag_seconds=1.0)
    assert decide(rules(named)).probe_lag_seconds == 1.0
    assert decide(rules(broad)).probe_lag_seconds == 10.0
    assert decide(rules(broad), probe_lag_seconds=0.5).probe_lag_seconds == 1.0


# --- the two lists (document 000 §7.4) -------------------------------------------------------------


def listed(allow: tuple[str, ...] = (), deny: tuple[str, ...] = (), *given: Rule) -> Policy:
    return Policy(
        rules=given,
        read_only_allowlist=tuple(ListEntry("p.yaml", 20 + i, name) for i, name in enumerate(allow)),
        side_effect_denylist=tuple(ListEntry("p.yaml", 40 + i, name) for i, name in enumerate(deny)),
    )


def test_the_allowlist_flips_an_unknown_or_declared_tool() -> None:
    policy = listed(allow=("list_open_issues", "fetch_*"))
    for name, line in (("list_open_issues", 20), ("fetch_rates", 21)):
        for declared in (None, "external"):
            decision = decide(policy, name, side_effect_class=declared)
            assert decision.side_effect_class is READ_ONLY
            assert decision.rule == RuleRef("p.yaml", line)


def test_an_explicit_allowlist_entry_is_believed_against_the_name() -> None:
    assert decide(listed(allow=("get_and_archive_mail",)), "get_and_archive_mail").side_effect_class is READ_ONLY


def test_a_bare_wildcard_in_the_allowlist_does_not_disarm_names_or_declarations() -> None:
    policy = listed(allow=("*",))
    assert decide(policy, "send_mail").side_effect_class is EXTERNAL
    assert decide(policy, "weather", side_effect_class="external").side_effect_class is EXTERNAL
    assert decide(policy, "weather").side_effect_class is READ_ONLY


def test_the_allowlist_competes_by_exactness() -> None:
    glob = Rule("p.yaml", 1, tool="issue_*", side_effect_class=EXTERNAL)
    exact = Rule("p.yaml", 2, tool="issue_list", side_effect_class=EXTERNAL)
    assert decide(listed(("issue_list",), (), glob), "issue_list").side_effect_class is READ_ONLY
    later = Rule("q.yaml", 2, tool="issue_list", side_effect_class=EXTERNAL, file_index=1)
    assert decide(listed(("issue_list",), (), exact, later), "issue_list").side_effect_class is EXTERNAL


def test_the_denylist_forces_external_against_everybody() -> None:
    exact = Rule("p.yaml", 1, tool="get_mail", namespace="local", side_effect_class=READ_ONLY)
    policy = listed(("get_mail",), ("get_mail",), exact)
    decision = decide(policy, "get_mail", side_effect_class="read_only")
    assert (decision.side_effect_class, decision.replay_policy) == (EXTERNAL, ReplayPolicy.ASK)
    assert decision.rule == RuleRef("p.yaml", 40)
    assert "side_effect_denylist" in decision.why
    assert ("p.yaml:1", "the denylist wins") in [(lost.ref, lost.reason) for lost in decision.losers]


def test_a_rule_under_the_denylist_still_gives_what_else_it_says() -> None:
    exact = Rule("p.yaml", 1, tool="get_mail", side_effect_class=READ_ONLY, approval=ALWAYS)
    decision = decide(listed((), ("get_mail",), exact), "get_mail")
    assert (decision.approval, decision.rule) == (ALWAYS, RuleRef("p.yaml", 40))
    assert [(lost.ref, lost.what, lost.reason) for lost in decision.losers] == [
        ("p.yaml:1", "side_effect_class=read_only", "the denylist wins"),
        ("p.yaml:1", "approval=always", "p.yaml:40 decides the class; still gives approval"),
    ]


def test_the_denylist_keeps_the_means_of_the_tool() -> None:
    decision = decide(listed((), ("get_*",)), "get_mail", side_effect_class="read_only", key_ttl_seconds=86400.0)
    assert decision.guarantee == "keyed 24h"


# --- class of what nobody classified (R080, R082, R083, C10) ---------------------------------------


def test_nothing_declared_is_external_and_asks() -> None:
    decision = decide(Policy(), "mystery")
    assert (decision.side_effect_class, decision.replay_policy, decision.guarantee) == (
        EXTERNAL,
        ReplayPolicy.ASK,
        "ask",
    )
    assert decision.rule is None and not decision.invalid_class
    assert decision.warnings == ("tool 'mystery' has no side_effect_class; it is treated as external",)


@pytest.mark.parametrize("bad", ["", "extern", "EXTERNAL", "read-only", "none"])
def test_an_invalid_class_is_external_and_says_so(bad: str) -> None:
    decision = decide(Policy(), "mystery", side_effect_class=bad)
    assert (decision.side_effect_class, decision.replay_policy) == (EXTERNAL, ReplayPolicy.ASK)
    assert decision.invalid_class
    assert repr(bad) in decision.warnings[0]


def test_a_rule_mends_an_invalid_class_but_the_warning_stays() -> None:
    decision = decide(rules(Rule("p.yaml", 1, tool="x", side_effect_class=LOCAL)), "x", side_effect_class="lokal")
    assert decision.side_effect_class is LOCAL
    assert decision.invalid_class and "lokal" in decision.warnings[0]


@pytest.mark.parametrize("namespace", ["memo", "model", "agent"])
def test_what_only_contains_other_calls_is_local(namespace: str) -> None:
    decision = evaluate(Policy(), ToolDeclaration("draft", namespace))
    assert (decision.side_effect_class, decision.guarantee, decision.warnings) == (LOCAL, "rerun", ())


def test_the_same_question_has_the_same_answer() -> None:
    policy = rules(EXACT, GLOB, REGEX)
    assert decide(policy) == decide(policy)
