"""`policy test`, `policy diff`, `policy check --tools` and `schema`, by what they print and how they exit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.cli.main import main

POLICY = """version: 1
side_effect_denylist: [get_and_archive_mail]
rules:
  - {tool: pay, scope: [to], approval: {when: {cents: ">10000"}}, allow_args: {to: ["*@example.org"]}}
  - {tool: "read_*", side_effect_class: read_only}
"""
TABLE = """- tool: pay
  args: {to: ann@example.org, cents: 5}
  expect: {side_effect_class: external, replay_policy: ASK, guarantee: ask, approval: false, denied: false}
- tool: pay
  args: {to: eve@example.com, cents: 20000}
  expect: {approval: true, denied: true, rule: "house.policy.yaml:4"}
- tool: read_mail
  expect: {side_effect_class: read_only, rule: house.policy.yaml}
- tool: get_and_archive_mail
  expect: {side_effect_class: external, rule: house.policy.yaml}
- tool: GMAIL_GET_MAIL
  namespace: composio
  expect: {side_effect_class: read_only, rule: base_policy.yaml}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "house.policy.yaml").write_text(POLICY, "utf-8")
    (tmp_path / "rules.test.yaml").write_text(TABLE, "utf-8")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = main([*words, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_table_that_holds_passes(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = told(capsys, "policy", "test", "rules.test.yaml", "--policy", "house.policy.yaml")
    assert (code, document["schema"], document["tests"], document["failed"]) == (0, "perdure.policy_test/v1", 5, 0)


def test_every_failure_is_told_at_once_with_its_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "house.policy.yaml").write_text(POLICY.replace(">10000", ">50000").replace("read_only}", "local}"))
    assert main(["policy", "test", "rules.test.yaml", "--policy", "house.policy.yaml"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "rules.test.yaml:6:22: pay (local): approval is no, not yes  (house.policy.yaml:4)",
        "rules.test.yaml:8:31: read_mail (local): side_effect_class is local, not read_only  (house.policy.yaml:5)",
        "5 tests, 2 failed",
    ]


def test_a_table_with_mistakes_is_refused_with_all_of_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "- {tool: a, expect: {side_effect_clas: local}}\n- {tool: b}\n- c\n- {tool: d, expect: {approval: 1}}\n"
    (folder / "rules.test.yaml").write_text(text, "utf-8")
    code, document = told(capsys, "policy", "test", "rules.test.yaml")
    assert (code, document["code"]) == (2, "PERDURE-201")
    for said in (
        "1:22: unknown key 'side_effect_clas'",
        "did you mean 'side_effect_class'",
        "2:3: ",
        "3:3: ",
        "4:32: ",
    ):
        assert said in document["message"], said


def test_a_table_is_answered_as_the_runtime_answers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For a corpus of names: what ``explain`` says, put into a table, passes."""
    names = ["SPREADSHEET_CLEAR", "BUDGET_TRANSFER", "THREAD_REPLY", "workbench_upload", "list_directory", "pay"]
    rows = []
    for name in names:
        _, found = told(capsys, "policy", "explain", name, "--policy", "house.policy.yaml")
        kept = ("side_effect_class", "replay_policy", "guarantee")
        rows.append({"tool": name, "namespace": found["namespace"], "expect": {key: found[key] for key in kept}})
    (folder / "names.json").write_text(json.dumps(rows), "utf-8")
    code, document = told(capsys, "policy", "test", "names.json", "--policy", "house.policy.yaml")
    assert (code, document["tests"]) == (0, len(names))


def test_a_diff_names_tools_and_past_calls_that_would_change(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bills_diff.py").write_text(
        "from perdure import tool\n\n@tool(side_effect_class='external')\ndef pay(to: str, cents: int) -> int:\n    return cents\n\n"
        "@tool\ndef read_mail(n: int) -> int:\n    return n\n\n"
        "def main(run):\n    return [pay('ann@example.org', 5), pay('ann@example.org', 600), read_mail(1)]\n",
        "utf-8",
    )
    assert main(["run", "bills_diff.py:main", "--run-id", "r1", "--policy", "house.policy.yaml"]) == 0
    capsys.readouterr()
    (folder / "new.policy.yaml").write_text(POLICY.replace(">10000", ">500"), "utf-8")
    code, document = told(capsys, "policy", "diff", "house.policy.yaml", "new.policy.yaml")
    assert (code, document["schema"], document["calls_looked_at"]) == (1, "perdure.policy_diff/v1", 3)
    approval = {"old": {"when": {"cents": [">10000"]}}, "new": {"when": {"cents": [">500"]}}}
    assert document["tools"] == [{"tool_name": "pay", "namespace": "local", "changes": {"approval": approval}}]
    changes = {"approval": {"old": False, "new": True}}
    assert document["calls"] == [{"tool_call_id": "r1.2", "tool_name": "pay", "changes": changes}]
    code, document = told(capsys, "policy", "diff", "house.policy.yaml", "house.policy.yaml")
    assert (code, document["tools"], document["calls"]) == (0, [], [])
    code, document = told(capsys, "policy", "diff", "house.policy.yaml", "-", "--run", "r1")
    assert {call["tool_call_id"] for call in document["calls"]} == {"r1.3"}  # read_mail is a read by a rule only


def test_a_diff_without_a_ledger_compares_the_names_in_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "diff", "-", "house.policy.yaml"]) == 1
    said = capsys.readouterr()
    assert "pay  (namespace local)\n  approval    never → when: cents: >10000\n" in said.out
    assert "only the names in the rules are compared" in said.err
    assert main(["policy", "diff", "-", "-"]) == 0


def test_a_check_with_tools_warns_of_rules_that_speak_of_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bills_check.py").write_text(
        "from perdure import tool\n\n@tool\ndef pya(to: str) -> str:\n    return to\n"
    )
    code, document = told(capsys, "policy", "check", "house.policy.yaml", "--tools", "bills_check")
    assert code == 0
    assert len(document["warnings"]) == 3
    assert (
        "house.policy.yaml:4: warning: 'pay' matches none of the 1 tools; did you mean 'pya'?" in document["warnings"]
    )


@pytest.mark.parametrize("kind", ["job", "policy"])
def test_the_schema_is_printed(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", kind]) == 0
    assert json.loads(capsys.readouterr().out)["$id"] == f"urn:perdure:schema:{kind}:v1"


def test_the_environment_names_overlays_and_a_flag_wins_a_tie(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, cls in (("env", "local"), ("flag", "memory")):
        (folder / f"{name}.yaml").write_text(
            f"version: 1\nrules:\n  - {{tool: t, side_effect_class: {cls}}}\n", "utf-8"
        )
    assert told(capsys, "policy", "explain", "t")[1]["side_effect_class"] == "external"
    monkeypatch.setenv("PERDURE_POLICIES_PATH", "env.yaml")
    assert told(capsys, "policy", "explain", "t")[1]["side_effect_class"] == "local"
    assert told(capsys, "policy", "explain", "t", "--policy", "flag.yaml")[1]["side_effect_class"] == "memory"


@pytest.mark.parametrize("named_by", ["flag", "environment", "job"])
@pytest.mark.parametrize("broken", [False, True])
def test_an_overlay_that_is_missing_or_broken_stops_everything_before_a_tool_runs(
    named_by: str, broken: bool, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = folder / "bad.yaml"
    if broken:
        bad.write_text("version: 1\nrules:\n  - {tool: t, aproval: always}\n", "utf-8")
    module = f"stopped_{named_by}_{broken}".lower()
    (folder / f"{module}.py").write_text(
        "from pathlib import Path\n\ndef main(run):\n    Path('entered').touch()\n", "utf-8"
    )
    job = folder / "j.job.yaml"
    policies = "policies: [bad.yaml]\n" if named_by == "job" else ""
    job.write_text(f"name: j\nagent: {{python: '{module}:main'}}\n{policies}", "utf-8")
    if named_by == "environment":
        monkeypatch.setenv("PERDURE_POLICIES_PATH", "bad.yaml")
    words = ["--policy", "bad.yaml"] if named_by == "flag" else []
    assert main(["run", str(job), *words]) == 2
    said = capsys.readouterr().err
    assert "bad.yaml" in said
    assert ("3:15" in said) is broken
    assert not (folder / "entered").exists()
