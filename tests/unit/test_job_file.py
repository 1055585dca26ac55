"""Job files: what they may say, and every error of a file at once, at its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.config.job_file import job_from_target, load_job, open_job
from perdure.model.errors import SpecError

# The example of the contract, word for word.
CONTRACT = """\
name: weekly-report
objective: Research the inputs, write report.pdf, mail it
agent: {python: "report:main", resume: reentry}   # or resume: session; later claude, pydantic_ai
tools: [report]                       # importable modules whose tools are registered
policies: [report.policy.yaml]        # overlays, relative to the job file
inputs: {urls: ["http://127.0.0.1:8001/a.html"], to: "boss@example.org"}
constraints: {forbidden_actions: [], allowed_domains: []}
budgets: {max_wallclock_minutes: 90, max_steps: 50, max_tool_calls: 250, max_retries_per_tool_call: 5, max_same_error_repeats: 3}
deadline: 2026-12-01T09:00:00Z        # optional, absolute
stop_conditions: [{artifact: report.pdf}, {effect: send_mail, times: 1}]   # or a name
escalation: {ask_human_on_repeated_failures: true}
artifacts: {expected_outputs: [report.pdf]}
"""

# The specification of document 000 §6 with a name and an agent.
DOCUMENT_000: dict[str, Any] = {
    "name": "report",
    "agent": {"python": "report.py:main"},
    "objective": "Create a research report from N URLs and email it to X",
    "constraints": {
        "must_cite_sources": True,
        "no_duplicate_external_actions": True,
        "allowed_domains": [],
        "forbidden_actions": [],
    },
    "budgets": {
        "max_wallclock_minutes": 90,
        "max_steps": 50,
        "max_tool_calls": 250,
        "max_retries_per_tool_call": 5,
        "max_same_error_repeats": 3,
    },
    "stop_conditions": ["report_pdf_created", "email_sent_once", "final_notification_sent"],
    "escalation": {
        "ask_human_on_ambiguous_recipient": True,
        "ask_human_on_auth_failure": True,
        "ask_human_on_repeated_failures": True,
    },
    "artifacts": {
        "workspace_dir": "AGENT_RUN_WORKSPACES/session_1/",
        "expected_outputs": ["report.html", "report.pdf", "transcript.md"],
    },
}


def write(folder: Path, text: str, name: str = "a.job.yaml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def problems(folder: Path, text: str, name: str = "a.job.yaml") -> list[str]:
    """Return the problems of a file as ``line:col: text``."""
    path = write(folder, text, name)
    with pytest.raises(SpecError) as caught:
        load_job(path)
    assert caught.value.exit_code == 2
    return [line.removeprefix(f"{path}:").strip() for line in caught.value.problems]


def test_the_contracts_example_is_a_job(tmp_path: Path) -> None:
    write(tmp_path, "version: 1\n", "report.policy.yaml")
    path = write(tmp_path, CONTRACT)
    job = load_job(path)
    assert (job.name, job.agent_kind, job.agent_target, job.resume) == (
        "weekly-report",
        "python",
        "report:main",
        "reentry",
    )
    assert (job.tools, job.policies) == (("report",), (tmp_path / "report.policy.yaml",))
    assert (job.path, job.folder) == (path, tmp_path)
    assert job.deadline == "2026-12-01T09:00:00.000000Z"
    assert job.stop_conditions == ({"artifact": "report.pdf"}, {"effect": "send_mail", "times": 1})
    assert job.inputs == {"urls": ["http://127.0.0.1:8001/a.html"], "to": "boss@example.org"}
    assert job.spec == job.run_spec().as_document()


def test_every_key_of_document_000_is_read_from_json(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, json.dumps(DOCUMENT_000, indent="\t"), "a.job.json"))
    for section in ("constraints", "budgets", "escalation", "artifacts", "objective"):
        assert job.spec[section] == DOCUMENT_000[section]
    assert job.spec["stop_conditions"] == DOCUMENT_000["stop_conditions"]


def test_one_deadline_has_one_spelling(tmp_path: Path) -> None:
    written = ["2026-12-01T09:00:00Z", "2026-12-01T10:00:00+01:00", "'2026-12-01 04:00:00.000-05:00'"]
    specs = [
        load_job(write(tmp_path, f"name: x\nagent: {{python: 'a:b'}}\ndeadline: {text}\n")).spec for text in written
    ]
    assert specs[0] == specs[1] == specs[2]


def test_the_same_job_in_yaml_and_json_has_the_same_specification(tmp_path: Path) -> None:
    as_json = load_job(write(tmp_path, json.dumps(DOCUMENT_000), "a.json"))
    as_yaml = load_job(write(tmp_path, json.dumps(DOCUMENT_000), "a.yaml"))
    assert as_json.spec == as_yaml.spec


def test_inputs_of_the_command_line_are_laid_over_those_of_the_file(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, "name: x\nagent: {python: 'a:b'}\ninputs: {a: 1, b: 2}\n"))
    assert job.with_inputs({"b": 3}).spec["inputs"] == {"a": 1, "b": 3}
    assert job.spec["inputs"] == {"a": 1, "b": 2}
    with pytest.raises(SpecError, match=r"the job has no input 'c' \(it has: a, b\)") as caught:
        job.with_inputs({"b": 3, "c": 4, "d": 5})
    assert len(caught.value.problems) == 2
    free = load_job(write(tmp_path, "name: x\nagent: {python: 'a:b'}\n"))
    assert free.with_inputs({"c": 4}).spec["inputs"] == {"c": 4}


def test_nothing_but_name_and_agent_is_needed(tmp_path: Path) -> None:
    job = load_job(write(tmp_path, "name: x\nagent: {python: 'pkg.mod:main', resume: session}\n"))
    assert (job.resume, job.tools, job.policies, job.inputs, job.deadline) == ("session", (), (), {}, None)
    assert (job.budgets, job.stop_conditions) == ({}, ())


HEAD = "name: x\nagent: {python: 'a:b'}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: the file is empty"),
        ("- name: x", "1:1: a job file is a mapping with at least name and agent"),
        ("agent: {python: 'a:b'}", "1:1: name is missing"),
        ("name: x", "1:1: agent is missing"),
        ("name:\nagent: {python: 'a:b'}", "1:1: name has no value: write one, or leave the key out"),
        ("name: ' x'\nagent: {python: 'a:b'}", "1:7: name: must be one line of at most 200 visible characters"),
        (f"name: {'x' * 201}\nagent: {{python: 'a:b'}}", "1:7: name: must be one line of at most 200"),
        ("name: 5\nagent: {python: 'a:b'}", "1:7: name: must be a string, not 5"),
        (HEAD + "nam: x", "3:1: unknown key 'nam'; did you mean 'name'?"),
        (HEAD + "name: y", "3:1: 'name' stands here twice; first at line 1"),
        (HEAD + "objective: [1]", "3:12: objective: must be a string, not a list"),
        # agent
        ("name: x\nagent: report:main", '2:8: agent is a mapping, such as {python: "report:main"}'),
        ("name: x\nagent: {}", "2:8: agent.python is missing"),
        ("name: x\nagent: {python: main}", "2:17: agent.python: 'main' is neither module:function nor file.py:funct"),
        ("name: x\nagent: {python: 'a:b c'}", "2:17: agent.python: 'a:b c' is neither"),
        ("name: x\nagent: {python: ':main'}", "2:17: agent.python: ':main' is neither"),
        ("name: x\nagent: {python: 'a..b:main'}", "2:17: agent.python: 'a..b:main' is neither"),
        ("name: x\nagent: {python: 'a:b', resume: later}", "2:32: agent.resume: 'later' is none of reentry, session"),
        ("name: x\nagent: {python: 'a:b', rsume: x}", "2:24: unknown key 'rsume'; did you mean 'resume'?"),
        ("name: x\nagent: {claude: {}}", "2:9: agent kind 'claude' is not in this version; it has: python"),
        ("name: x\nagent: {python: 'a:b', command: [x]}", "2:24: agent kind 'command' is not in this version"),
        ("name: x\nagent: {langgraph: x}", "2:9: agent kind 'langgraph' is not in this version"),
        ("name: x\nagent: {openai_agents: x}", "2:9: agent kind 'openai_agents' is not in this version"),
        ("name: x\nagent: {pydantic_ai: x}", "2:9: agent kind 'pydantic_ai' is not in this version"),
        # tools, policies, inputs
        (HEAD + "tools: report", "3:8: tools: must be a list, not 'report'"),
        (HEAD + "tools: [report.py]", "3:9: tools.0: 'report.py' is no importable module name; write report"),
        (HEAD + "tools: [a-b]", "3:9: tools.0: 'a-b' is no importable module name"),
        (HEAD + "policies: [nope.yaml]", "3:12: policies.0: no such file: nope.yaml"),
        (HEAD + "policies: [5]", "3:12: policies.0: must be a string, not 5"),
        (HEAD + "inputs: [1]", "3:9: inputs: must be a mapping, not a list"),
        (HEAD + "budgets: {'': }", "3:11: unknown key ''; known are max_retries_per_tool_call"),
        (HEAD + "inputs: {1: x}", "3:10: the key 1 must be text: put it in quotes"),
        # sections
        (HEAD + "constraints: x", "3:14: constraints must be a mapping"),
        (HEAD + "constraints: {allowed_domain: []}", "3:15: unknown key 'allowed_domain'; did you mean 'allowed_dom"),
        (HEAD + "constraints: {must_cite_sources: yes}", "3:34: constraints.must_cite_sources: must be a boolean, no"),
        (HEAD + "constraints: {forbidden_actions: send}", "3:34: constraints.forbidden_actions: must be a list, not "),
        (HEAD + "budgets: {max_steps: 0}", "3:22: budgets.max_steps: must be greater than or equal to 1, not 0"),
        (HEAD + "budgets: {max_steps: 1.5}", "3:22: budgets.max_steps: must be an integer, not 1.5"),
        (HEAD + "budgets: {max_steps: true}", "3:22: budgets.max_steps: must be an integer, not True"),
        (HEAD + "budgets: {max_steps: }", "3:11: max_steps has no value: write one, or leave the key out"),
        (HEAD + "budgets: {max_wallclock_minutes: -1}", "3:34: budgets.max_wallclock_minutes: must be a number great"),
        (HEAD + "budgets: {max_wallclock_minutes: '90'}", "3:34: budgets.max_wallclock_minutes: must be a number gr"),
        (HEAD + "budgets: {max_toolcalls: 3}", "3:11: unknown key 'max_toolcalls'; did you mean 'max_tool_calls'?"),
        (HEAD + "escalation: {ask_human: true}", "3:14: unknown key 'ask_human'"),
        (HEAD + "escalation: yes", "3:13: escalation must be a mapping"),
        (HEAD + "artifacts: {expected_outputs: [/etc/passwd]}", "3:32: artifacts.expected_outputs.0: '/etc/passwd'"),
        (HEAD + "artifacts: {expected_outputs: [a/../../b]}", "3:32: artifacts.expected_outputs.0: 'a/../../b' must"),
        # deadline
        (HEAD + "deadline: 2026-12-01", "3:11: deadline: '2026-12-01' is no absolute time with a zone"),
        (HEAD + "deadline: 2026-12-01T09:00:00", "3:11: deadline: '2026-12-01T09:00:00' is no absolute time"),
        (HEAD + "deadline: tomorrow at nine", "3:11: deadline: 'tomorrow at nine' is no absolute time"),
        (HEAD + "deadline: 90m", "3:11: deadline: '90m' is no absolute time with a zone"),
        (HEAD + "deadline: 1764579600", "3:11: deadline: 1764579600 is no absolute time with a zone"),
        (HEAD + "deadline: '0001-01-01T00:00:00+14:00'", "3:11: deadline: '0001-01-01T00:00:00+14:00' is no absolu"),
        # stop conditions
        (HEAD + "stop_conditions: done", "3:18: stop_conditions: must be a list, not 'done'"),
        (HEAD + "stop_conditions: ['']", "3:19: a stop condition is a name, {artifact: FILE} or {effect: TOOL"),
        (HEAD + "stop_conditions: [5]", "3:19: a stop condition is a name"),
        (HEAD + "stop_conditions: [{efect: x}]", "3:19: a stop condition is a name, {artifact: FILE} or {effect: T"),
        (HEAD + "stop_conditions: [{effect: x, times: 0}]", "3:38: times: must be greater than or equal to 1, not"),
        (HEAD + "stop_conditions: [{artifact: ../x}]", "3:30: artifact: '../x' must be a path inside the workspa"),
        (HEAD + "stop_conditions: [{artifact: x, times: 2}]", "3:33: unknown key 'times'; known are artifact"),
    ],
)
def test_each_error_has_its_place(tmp_path: Path, text: str, expected: str) -> None:
    found = problems(tmp_path, text)
    assert len(found) == 1, found
    assert found[0].startswith(expected)


def test_all_errors_come_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "nam: x\nagent: {pyton: 'a:b'}\ntools: [7]\nbudgets: {max_steps: x, max_stps: 1}\ndeadline: soon\n",
    )
    assert [line.split(": ")[0] for line in found] == ["1:1", "1:1", "2:8", "2:9", "3:9", "4:22", "4:25", "5:11"]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"nope\.job\.yaml: no such file"):
        load_job(tmp_path / "nope.job.yaml")


# --- bare targets ----------------------------------------------------------------------------------


def test_a_bare_target_is_a_job_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, "def main(run): return 1\n", "report.py")
    for job in (job_from_target(f"{path}:main"), open_job(f"{path}:main")):
        assert (job.name, job.agent_target, job.folder) == ("report", "report.py:main", tmp_path)
        assert job.spec["inputs"] == {}


def test_the_folder_is_not_part_of_a_bare_targets_specification(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    first = write(tmp_path, "", "report.py")
    second = write(tmp_path / "one", "", "report.py")
    assert job_from_target(f"{first}:main").spec == job_from_target(f"{second}:main").spec


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nope.py:main", "nope.py: no such file"),
        ("report.py:", "'' is no function name"),
        ("report.py:a b", "'a b' is no function name"),
        ("report.py:a.b", "'a.b' is no function name"),
        ("report.py", "which function? Write report.py:main"),
        ("a-b.py:main", "is not FILE.py:function"),
        ("report:main", "report:main: no such file"),
        ("", "the name of the job is empty"),
        ("a\0.py:main", "is not FILE.py:function"),
    ],
)
def test_what_is_no_target_is_refused(text: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        open_job(text)
    assert said in str(caught.value)
