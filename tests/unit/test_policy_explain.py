"""``policy explain`` and ``policy check`` say what the runtime does."""

import json
from pathlib import Path

import pytest

from perdure.cli.policy_cmd import check, explain, namespace_of, render_check, render_explain
from perdure.config.base_policy import base_policy
from perdure.config.policy_file import load_policy
from perdure.core.policy import evaluate
from perdure.model.errors import PolicyError
from perdure.model.policy import Policy, ToolDeclaration

OVERLAY = """\
version: 1
rules:
  - tool: send_mail
    side_effect_class: external
    scope: [to]
    key_ttl: 24h
    repeat: ask
    approval: {when: {cents: ">100"}}
    allow_args: {to: ["*@example.org"]}
  - {tool: "send_*", approval: always}
"""
CONTRACT_KEYS = {"schema", "tool_name", "side_effect_class", "replay_policy", "guarantee", "repeat", "rule", "why"}
NAMES = ["send_mail", "send_fax", "upload_to_composio", "crawl_parallel", "Task", "SPREADSHEET_CLEAR", "", "日本"]


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(OVERLAY, "utf-8")
    return path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("namespace", ["local", "mcp", "claude_code", "agent"])
@pytest.mark.parametrize("declared", [None, "read_only", "external", "nonsense"])
def test_the_answer_is_the_runtimes_own(overlay: Path, name: str, namespace: str, declared: str | None) -> None:
    policy = load_policy([overlay])
    tool = ToolDeclaration(name, namespace, side_effect_class=declared)
    document = explain(name, policy=policy, namespace=namespace, declarations=[tool])
    decision = evaluate(policy, tool)
    assert (document["side_effect_class"], document["replay_policy"]) == (
        decision.side_effect_class,
        decision.replay_policy,
    )
    assert (document["guarantee"], document["why"]) == (decision.guarantee, decision.why)
    ref = None if decision.rule is None else {"file": decision.rule.file, "line": decision.rule.line}
    assert document["rule"] == ref
    assert set(document) >= CONTRACT_KEYS and document["schema"] == "perdure.policy/v1"
    assert json.loads(json.dumps(document)) == document


def test_the_document_shows_what_a_call_would_meet(overlay: Path) -> None:
    policy = load_policy([overlay])
    allowed = explain("send_mail", policy=policy, args={"to": "a@example.org", "cents": 5})
    assert allowed["call"] == {"refused": [], "approval_needed": False}
    asked = explain("send_mail", policy=policy, args={"to": "a@example.org", "cents": 500})
    assert asked["call"]["approval_needed"] is True
    refused = explain("send_mail", policy=policy, args={"to": "a@evil.test"})
    assert refused["call"]["refused"] == ["to: 'a@evil.test' is not allowed, only *@example.org"]
    assert "call" not in explain("send_mail", policy=policy)


def test_a_person_reads_the_winner_with_its_line_and_every_loser(overlay: Path) -> None:
    document = explain("send_mail", policy=load_policy([overlay]), args={"to": "x@evil.test"})
    text = render_explain(document)
    assert f"rule          {overlay}:3\n" in text
    assert f"  {overlay}:10  approval=always  (a glob, and {overlay}:3 matches by the exact name)" in text
    assert "guarantee     keyed 24h" in text
    assert "approval      when: cents: >100" in text
    assert "this call     refused: to: 'x@evil.test' is not allowed" in text


def test_every_guarantee_can_be_shown() -> None:
    shown = {
        "ask": ToolDeclaration("a", side_effect_class="external"),
        "probe": ToolDeclaration("b", side_effect_class="external", has_probe=True),
        "keyed 24h": ToolDeclaration("c", side_effect_class="external", key_ttl_seconds=86400.0),
        "create-if-absent": ToolDeclaration("d", side_effect_class="memory", key_ttl_seconds=float("inf")),
        "rerun": ToolDeclaration("e", side_effect_class="read_only"),
    }
    for guarantee, tool in shown.items():
        document = explain(tool.name, policy=Policy(), declarations=[tool])
        assert document["declared"] is True
        assert f"guarantee     {guarantee}\n" in render_explain(document)


def test_warnings_are_shown() -> None:
    text = render_explain(explain("mystery", policy=Policy()))
    assert "warning: tool 'mystery' has no side_effect_class; it is treated as external" in text
    assert "rule          none" in text


def test_a_namespace_is_guessed_only_where_it_is_plain() -> None:
    base = base_policy()
    assert namespace_of("Task", base, []) == "claude_code"
    assert namespace_of("upload_to_composio", base, []) == "local"
    assert namespace_of("unheard_of", base, []) == "local"
    assert namespace_of("Task", base, [ToolDeclaration("Task", "mcp")]) == "mcp"
    assert explain("Task", policy=base)["replay_policy"] == "RELAUNCH"


def test_check_counts_valid_files_and_refuses_others(overlay: Path, tmp_path: Path) -> None:
    document = check([overlay])
    assert (document["files"], document["rules"], document["warnings"]) == ([str(overlay)], 2, [])
    assert render_check(document) == "1 file(s), 2 rule(s): valid\n"
    (tmp_path / "bad.yaml").write_text("version: 1\nrules: [{tool: a, scope: [body]}, {tol: b}]", "utf-8")
    with pytest.raises(PolicyError, match=r"bad\.yaml:2:36: PERDURE-204 unknown key 'tol'"):
        check([overlay, tmp_path / "bad.yaml"])


def test_check_shows_warnings(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("version: 1\nrules: [{tool: a, scope: [body]}]", "utf-8")
    assert render_check(check([path])).startswith(f"{path}:2:27: warning: scope names body")
