"""Whatever the rules and names are: risk is never lowered by a name, and every question has an answer."""

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.config.base_policy import base_policy
from perdure.core.classify import RISK, raised_by_name, tokens
from perdure.core.policy import evaluate, replay_problem
from perdure.model.policy import Approval, ApprovalKind, ListEntry, Policy, Rule, ToolDeclaration
from perdure.model.toolcall import Repeat, ReplayPolicy, SideEffectClass

QUICK = settings(max_examples=150, deadline=None, database=None)

WORDS = st.sampled_from(
    ["get", "list", "read", "send", "delete", "thread", "playlist", "target", "spread", "mail", "x", "Post", "URL", "2"]
)
NAMES = st.one_of(
    st.text(max_size=20),
    st.lists(WORDS, max_size=4).flatmap(
        lambda words: st.sampled_from(["_", "-", ".", "__", ""]).map(lambda joint: joint.join(words))
    ),
    st.lists(WORDS, max_size=4).map(lambda words: "".join(word.capitalize() for word in words)),
    st.lists(WORDS, max_size=4).map(lambda words: "_".join(words).upper()),
)
CLASSES = st.sampled_from(SideEffectClass)
NAMESPACES = st.sampled_from(["local", "mcp", "composio", "claude_code", "agent", "memo"])
APPROVALS = st.one_of(
    st.sampled_from([Approval(ApprovalKind.NEVER), Approval(ApprovalKind.ALWAYS)]),
    st.just(Approval(ApprovalKind.WHEN, {"cents": (">5",)})),
)
TTLS = st.sampled_from([None, 60.0, float("inf")])
TARGETS = st.one_of(
    st.builds(lambda name: {"tool": name}, NAMES.filter(bool)),
    st.sampled_from([{"tool": "*"}, {"tool": "send_*"}, {"tool": "*list*"}, {"tool_name_regex": "(?i)list|get"}]),
)


@st.composite
def some_rules(draw: st.DrawFn) -> Rule:
    return Rule(
        file=draw(st.sampled_from(["a.yaml", "b.yaml"])),
        line=draw(st.integers(1, 99)),
        **draw(TARGETS),
        namespace=draw(st.none() | NAMESPACES),
        side_effect_class=draw(st.none() | CLASSES),
        replay_policy=draw(st.none() | st.sampled_from(ReplayPolicy)),
        key_ttl_seconds=draw(TTLS),
        probe=draw(st.none() | st.just("m:f")),
        repeat=draw(st.none() | st.sampled_from(Repeat)),
        approval=draw(st.none() | APPROVALS),
        file_index=draw(st.integers(0, 2)),
        shipped=draw(st.booleans()),
    )


@st.composite
def some_tools(draw: st.DrawFn) -> ToolDeclaration:
    return ToolDeclaration(
        name=draw(NAMES),
        namespace=draw(NAMESPACES),
        side_effect_class=draw(st.none() | st.sampled_from(["external", "memory", "local", "read_only", "odd", ""])),
        replay_policy=draw(st.none() | st.sampled_from(ReplayPolicy)),
        key_ttl_seconds=draw(TTLS),
        repeat=draw(st.none() | st.sampled_from(Repeat)),
        approval=draw(st.none() | APPROVALS),
        has_probe=draw(st.booleans()),
    )


ENTRIES = st.lists(st.builds(lambda name: ListEntry("a.yaml", 5, name), NAMES.filter(bool) | st.just("*")), max_size=2)
POLICIES = st.builds(
    lambda rules, allow, deny: Policy(tuple(rules), tuple(allow), tuple(deny)),
    st.lists(some_rules(), max_size=5),
    ENTRIES,
    ENTRIES,
)


@QUICK
@given(CLASSES, NAMES)
def test_a_name_never_lowers_a_risk(cls: SideEffectClass, name: str) -> None:
    assert RISK[raised_by_name(cls, name)] >= RISK[cls]


@QUICK
@given(NAMES)
def test_words_are_letters_of_one_case(name: str) -> None:
    for word in tokens(name):
        assert word and word.isalpha() and word == word.casefold()


@QUICK
@given(NAMES, NAMESPACES)
def test_a_name_alone_never_makes_a_tool_harmless(name: str, namespace: str) -> None:
    decision = evaluate(Policy(), ToolDeclaration(name, namespace))
    inner = namespace in ("agent", "memo") or (namespace == "claude_code" and name in ("Task", "Agent"))
    assert decision.side_effect_class is (SideEffectClass.LOCAL if inner else SideEffectClass.EXTERNAL)


@QUICK
@given(POLICIES, some_tools())
def test_every_question_has_a_sound_answer(policy: Policy, tool: ToolDeclaration) -> None:
    decision = evaluate(policy, tool)
    assert decision == evaluate(policy, tool)
    cls, replay = decision.side_effect_class, decision.replay_policy
    subagent = replay is ReplayPolicy.RELAUNCH and tool.namespace in ("agent", "claude_code")
    assert (
        replay_problem(
            cls,
            replay,
            has_probe=decision.has_probe,
            has_key_ttl=decision.key_ttl_seconds is not None,
            subagent=subagent,
        )
        is None
    )
    if cls.effectful and not subagent:
        assert decision.guarantee != "rerun"
    if not cls.effectful:
        assert decision.guarantee == "rerun"
    assert decision.why
    if tool.namespace == "agent":
        assert replay is ReplayPolicy.RELAUNCH


@QUICK
@given(POLICIES, some_tools())
def test_the_denylist_always_wins(policy: Policy, tool: ToolDeclaration) -> None:
    denied = Policy(policy.rules, policy.read_only_allowlist, (ListEntry("z.yaml", 1, "*"),))
    decision = evaluate(denied, tool)
    assert decision.side_effect_class is SideEffectClass.EXTERNAL
    assert decision.rule == ListEntry("z.yaml", 1, "*").ref


@QUICK
@given(some_tools(), CLASSES, APPROVALS, st.sampled_from(Repeat), st.sampled_from([".*", "*"]))
def test_a_broad_rule_never_lowers_what_a_tool_declares(
    tool: ToolDeclaration, cls: SideEffectClass, approval: Approval, repeat: Repeat, pattern: str
) -> None:
    target = {"tool": "*"} if pattern == "*" else {"tool_name_regex": pattern}
    broad = Rule("a.yaml", 1, **target, side_effect_class=cls, approval=approval, repeat=repeat)
    without, under = evaluate(Policy(), tool), evaluate(Policy((broad,)), tool)
    if tool.side_effect_class in tuple(SideEffectClass):
        assert RISK[under.side_effect_class] >= RISK[without.side_effect_class]
    if tool.approval is not None:
        order = [ApprovalKind.NEVER, ApprovalKind.WHEN, ApprovalKind.ALWAYS]
        assert order.index(under.approval.kind) >= order.index(without.approval.kind)
    if without.repeat is not None and under.repeat is not None:
        order_of_repeat = [Repeat.ALLOW, Repeat.CHALLENGE, Repeat.ASK]
        assert order_of_repeat.index(under.repeat) >= order_of_repeat.index(without.repeat)


@QUICK
@given(some_tools())
def test_the_shipped_policy_changes_nothing_that_a_tool_declares(tool: ToolDeclaration) -> None:
    if tool.side_effect_class in tuple(SideEffectClass):
        alone, shipped = evaluate(Policy(), tool), evaluate(base_policy(), tool)
        assert alone.side_effect_class is shipped.side_effect_class


@QUICK
@given(POLICIES, some_tools())
def test_every_rule_that_speaks_is_followed_or_told_why_not(policy: Policy, tool: ToolDeclaration) -> None:
    decision = evaluate(policy, tool)
    told = {lost.ref for lost in decision.losers} | {str(decision.rule)}
    for rule in policy.rules:
        speaks = rule.side_effect_class or rule.replay_policy or rule.approval or rule.repeat
        if rule.tool == tool.name and rule.namespace in (None, tool.namespace) and speaks:
            assert str(rule.ref) in told
    assert all(lost.reason and lost.what for lost in decision.losers)
