"""The published JSON Schemas: valid in themselves, true of every file here, and of one mind with the loader."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from perdure.config.job_file import load_job
from perdure.config.policy_file import load_policy
from perdure.config.schemas import KINDS, schema_of_file
from perdure.model.errors import PolicyError, SpecError
from tests.docs.markdown import PAGES, blocks

ROOT = Path(__file__).resolve().parents[2]
GOOD_JOB = """
name: weekly-report
agent: {python: "report:main"}
inputs: {to: boss@example.org}
budgets: {max_tool_calls: 250, max_wallclock_minutes: 0.5}
deadline: 2026-12-01T09:00:00Z
stop_conditions: [done, {artifact: report.pdf}, {effect: send_mail, times: 1}]
"""
GOOD_POLICY = """
version: 1
read_only_allowlist: [list_open_issues]
rules:
  - {tool: send, approval: {when: {cents: ">10"}}, approval_expires: 24h, key_ttl: forever, probe_lag: 0}
"""


def loads(kind: str, text: str, folder: Path) -> bool:
    path = folder / f"x.{kind}.yaml"
    path.write_text(text, "utf-8")
    try:
        load_job(path) if kind == "job" else load_policy([path], base=False)
    except (SpecError, PolicyError):
        return False
    return True


def validates(kind: str, text: str) -> bool:
    document = YAML(typ="safe", pure=True).load(text)
    return Draft202012Validator(schema_of_file(kind)).is_valid(_as_json(document))


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else value.isoformat()


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_one_and_says_something_about_every_key(kind: str) -> None:
    schema = schema_of_file(kind)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:perdure:schema:{kind}:v1"
    closed = list(_closed(schema))
    assert len(closed) > 2
    assert all(part["additionalProperties"] is False for part in closed)
    named = [entry for part in closed for name, entry in part["properties"].items() if name != "when"]
    assert all(entry["description"].endswith((".", "COMMAND.")) for entry in named)


def _closed(part: Any) -> Any:
    if isinstance(part, dict):
        if "properties" in part:
            yield part
        for inner in part.values():
            yield from _closed(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _closed(inner)


def _files() -> list[tuple[str, str]]:
    """Every job and policy file that stands in a page or in a folder of this repository, and is meant to be right."""
    found = [
        (kind, block.body)
        for page in PAGES
        for block in blocks(page)
        for kind in KINDS
        if block.file is not None and block.file.endswith(f".{kind}.yaml") and not block.file.startswith("wrong")
    ]
    skipped = {".venv", "node_modules"}
    for kind in KINDS:
        paths = (path for path in ROOT.rglob(f"*.{kind}.yaml") if not skipped & set(path.parts))
        found += [(kind, path.read_text("utf-8")) for path in paths]
    found.append(("policy", (ROOT / "src/perdure/config/base_policy.yaml").read_text("utf-8")))
    return found


def test_every_file_of_the_repository_is_valid() -> None:
    files = _files()
    assert {kind for kind, _ in files} == set(KINDS)
    wrong = [(kind, text) for kind, text in files if not validates(kind, text)]
    assert wrong == []


BROKEN = {
    "job": [
        ("name: weekly-report\n", ""),
        ("name: weekly-report", "name: ''"),
        ("name: weekly-report", "name: 5"),
        ("name: weekly-report", "nam: weekly-report"),
        ('agent: {python: "report:main"}', "agent: report:main"),
        ('agent: {python: "report:main"}', "agent: {python: 'report:main', resum: reentry}"),
        ('agent: {python: "report:main"}', "agent: {python: 'report:main', resume: later}"),
        ('agent: {python: "report:main"}', "agent:"),
        ("max_tool_calls: 250", "max_tool_calls: 0"),
        ("max_tool_calls: 250", "max_tool_calls: '250'"),
        ("max_tool_calls: 250", "max_tool_calls: true"),
        ("max_tool_calls: 250", "max_toolcalls: 250"),
        ("max_wallclock_minutes: 0.5", "max_wallclock_minutes: 0"),
        ("max_wallclock_minutes: 0.5", "max_wallclock_minutes: soon"),
        ("max_wallclock_minutes: 0.5", "max_wallclock_minutes:"),
        ("artifact: report.pdf", "artifact: ../report.pdf"),
        ("artifact: report.pdf", "artefact: report.pdf"),
        ("artifact: report.pdf", "artifact: /etc/passwd"),
        ("times: 1", "times: -1"),
        ("done, ", "'  ', "),
        ("inputs: {to: boss@example.org}", "inputs: [1]"),
        ("inputs: {to: boss@example.org}", "constraints: {must_cite_sources: 'yes'}"),
        ("inputs: {to: boss@example.org}", "constraints: {forbidden_actions: send}"),
        ("inputs: {to: boss@example.org}", "escalation: {ask_human: true}"),
        ("inputs: {to: boss@example.org}", "artifacts: {expected_outputs: ['']}"),
        ("inputs: {to: boss@example.org}", "tools: report"),
        ("inputs: {to: boss@example.org}", "secrets: {SMTP: hunter2}"),
    ],
    "policy": [
        ("version: 1", "version: 2"),
        ("version: 1", "version: true"),
        ("version: 1", ""),
        ("version: 1", "version: 1\nrule: []"),
        ("[list_open_issues]", "list_open_issues"),
        ("[list_open_issues]", "[5]"),
        ("[list_open_issues]", "['']"),
        ("tool: send", "tool: send, tool_name_regex: '^send'"),
        ("tool: send, ", ""),
        ("tool: send", "tool: ''"),
        ("tool: send", "tool: send, aproval: always"),
        ("tool: send", "tool: send, side_effect_class: harmless"),
        ("tool: send", "tool: send, replay_policy: RETRY"),
        ("tool: send", "tool: send, max_attempts: 0"),
        ("tool: send", "tool: send, scope: to"),
        ("tool: send", "tool: send, timeout: 0"),
        ("tool: send", "tool: send, timeout: forever"),
        ("tool: send", "tool: send, valid_for: soon"),
        ("tool: send", "tool: send, allow_args: {to: x}"),
        ("approval_expires: 24h", "approval_expires: -1"),
        ("approval_expires: 24h", "approval_expires: 0s"),
        ("key_ttl: forever", "key_ttl: 0"),
        ("probe_lag: 0", "probe_lag: forever"),
        ("{when: {cents: \">10\"}}", "sometimes"),
        ("{when: {cents: \">10\"}}", "{when: {}}"),
        ("{when: {cents: \">10\"}}", "{when: {cents: 10}}"),
        ("{when: {cents: \">10\"}}", "{when: {cents: []}}"),
        ("{when: {cents: \">10\"}}", "{when: {cents: '>1'}, unless: {}}"),
        ("  - {tool: send", "  - send\n  - {tool: send"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "old", "new"), [(kind, *pair) for kind in KINDS for pair in BROKEN[kind]], ids=lambda text: str(text)[:40]
)
def test_schema_and_loader_refuse_the_same_files(kind: str, old: str, new: str, tmp_path: Path) -> None:
    good = GOOD_JOB if kind == "job" else GOOD_POLICY
    broken = good.replace(old, new)
    assert broken != good
    assert (loads(kind, broken, tmp_path), validates(kind, broken)) == (False, False)


@pytest.mark.parametrize("kind", KINDS)
def test_schema_and_loader_take_the_same_file_with_the_line_for_editors(kind: str, tmp_path: Path) -> None:
    text = "# yaml-language-server: $schema=./perdure.schema.json\n" + (GOOD_JOB if kind == "job" else GOOD_POLICY)
    assert (loads(kind, text, tmp_path), validates(kind, text)) == (True, True)


def test_every_duration_is_judged_alike(tmp_path: Path) -> None:
    spellings = ["250ms", "10s", "5m", "24h", "7d", "1.5h", "0", "0ms", "0.0s", "-1", "10", "1 h", "h", "''", "forever"]
    for field in ("timeout", "probe_lag", "key_ttl", "valid_for", "approval_expires"):
        for spelling in spellings:
            text = f"version: 1\nrules:\n  - {{tool: send, {field}: {spelling}}}\n"
            assert loads("policy", text, tmp_path) is validates("policy", text), text


def test_the_page_shows_the_line_for_editors() -> None:
    page = (ROOT / "docs/policy.md").read_text("utf-8")
    assert re.search(r"^# yaml-language-server: \$schema=", page, re.MULTILINE)
