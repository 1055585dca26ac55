"""Everything that can be typed or written wrongly: one clear error, the right exit code, no row and no effect."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.acceptance.cli_support import REPORT, TO_BOSS, Desk

JOB = 'name: weekly\nagent: {python: "report:main"}\ninputs: {topic: SQLite, to: boss@example.org}\n'
RULE = "version: 1\nrules:\n  - tool: send_mail\n    side_effect_class: external\n"
RUN = ("run", "report.py:main", *TO_BOSS)


@dataclass(frozen=True, slots=True)
class Bad:
    """One mistake.

    Args:
        typed: what stands behind ``perdure``; ``QUESTION`` is replaced by the id of the open approval.
        says: must stand in the message.
        files: written before, by name.
        ledger: whether the folder holds the ledger with runs in every state.
    """

    typed: tuple[str, ...]
    says: str
    exit_code: int = 2
    code: str = "PERDURE-140"
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    ledger: bool = True


def job(text: str, says: str, **options: object) -> Bad:
    """A job file with a mistake in it."""
    files = {"bad.job.yaml": text, **options.pop("files", {})}  # type: ignore[dict-item]
    given = {"code": "PERDURE-131", **options}
    return Bad(("run", "bad.job.yaml"), says, files=files, **given)  # type: ignore[arg-type]


def declared(pair: str, says: str) -> Bad:
    """Return the mistake of an input that is not as the job file declares it."""
    files = {"d.job.yaml": 'name: d\nagent: {python: "report:main"}\ninputs: {urls: [a], topic: b}\n'}
    return Bad(("run", "d.job.yaml", "-i", pair), says, code="PERDURE-131", files=files)


def knob(name: str, value: str) -> Bad:
    """A crash knob with a value of the wrong form, or one that there is not."""
    return Bad(RUN, name, env={f"PERDURE_TEST_CRASH_{name}": value})


WORDS = (
    Bad((), "which command"),
    Bad(("fetch", "done"), "no such command 'fetch'"),
    Bad(("runz", "ls"), "no such command 'runz'; did you mean 'run"),
    Bad(("runs",), "which command of 'runs'"),
    Bad(("runs", "stop", "done"), "no such command 'runs stop'"),
    Bad(("calls", "shw", "done.2"), "did you mean 'calls show'"),
    Bad(("db", "vacuum"), "no such command 'db vacuum'"),
    Bad(("run",), "JOB"),
    Bad((*RUN, "extra"), "extra"),
    Bad((*RUN, "--no-such-flag"), "--no-such-flag"),
    Bad(("-o", "xml", "runs", "ls"), "xml"),
    Bad(("runs", "ls", "--limit", "-1"), "--limit"),
    Bad(("runs", "ls", "--limit", "many"), "'many' is not a number"),
    Bad(("runs", "ls", "--status", "asleep"), "asleep"),
    Bad(("resume",), "which run? an id, or --all"),
    Bad(("demo", "--no-such-flag"), "--no-such-flag"),
)
PLACES = (
    Bad(("--state-dir", "", *RUN), "--state-dir"),
    Bad(("--store", "postgresql://h/db", *RUN), "PostgreSQL", 4, "PERDURE-401"),
    Bad(("--store", "mysql://h/db", *RUN), "is no store"),
    Bad(("--store", "sqlite:///:memory:", *RUN), "forgotten"),
    Bad(RUN, "is no store", env={"PERDURE_STORE": "nonsense"}),
    Bad(("--state-dir", "report.py", *RUN), "report.py", 4, "PERDURE-401"),
    Bad(
        ("--state-dir", "old", "runs", "ls"), "ledger", 4, "PERDURE-405", {"old/runtime_state.db": b"no database" * 99}
    ),
    Bad(("resume", "@last"), "there is no ledger", 3, "PERDURE-141", ledger=False),
    Bad(("calls", "ls", "done"), "there is no ledger", 3, "PERDURE-141", ledger=False),
    Bad(("resolve", "done.2", "--abandon"), "there is no ledger", 3, "PERDURE-141", ledger=False),
    Bad(("--policy", "missing.yaml", *RUN), "missing.yaml", code="PERDURE-201"),
    Bad(RUN, "gone.yaml", code="PERDURE-201", env={"PERDURE_POLICIES_PATH": "gone.yaml"}),
)
KNOBS = (
    knob("AT_POINT", "0"),
    knob("AT_POINT", "three"),
    knob("AFTER_TOOL", "send mail"),
    knob("AFTER_TOOL_CALL_ID", "w47"),
    knob("AFTER_PHASE", " "),
    knob("AFTER_STEP", " x "),
    knob("ON_FRIDAY", "1"),
    Bad((*RUN, "-i", "novalue"), "has no '='", code="PERDURE-131"),
    Bad((*RUN, "-i", "=x"), "no usable key", code="PERDURE-131"),
    Bad((*RUN, "-i", "topic=2"), "twice", code="PERDURE-131"),
    Bad((*RUN, "-i", "n=1e999"), "too large", code="PERDURE-131"),
    declared("urls=http://127.0.0.1/", "'urls' is declared as a list, such as: -i 'urls=[\"a\"]'"),
    declared("topcs=x", "the job has no input 'topcs'; did you mean 'topic'? (it has: topic, urls)"),
    Bad(("fork", "done", "-i", "tpic=x"), "did you mean 'topic'? (it has: to, topic)", code="PERDURE-131"),
    Bad((*RUN, "--run-id", "a b"), "run id 'a b'", code="PERDURE-131"),
    Bad((*RUN, "--run-id", "../x"), "run id", code="PERDURE-131"),
    Bad((*RUN, "--run-id", ""), "run id ''", code="PERDURE-131"),
    Bad((*RUN, "--run-id", "x" * 101), "at most 100", code="PERDURE-131"),
    Bad((*RUN, "-i", "more=1", "--run-id", "done"), "another specification", code="PERDURE-130"),
)
JOBS = (
    Bad(("run", "missing.yaml"), "missing.yaml: no such file", code="PERDURE-131"),
    Bad(("run", "."), "is a folder", code="PERDURE-131"),
    Bad(("run", "report.py"), "which function", code="PERDURE-131"),
    Bad(("run", "report.py:nobody"), "no function 'nobody'", code="PERDURE-131"),
    Bad(("run", "report.py:main()"), "no function name", code="PERDURE-131"),
    Bad(("run", "missing.py:main"), "missing.py: no such file", code="PERDURE-131"),
    Bad(("run", "b.py:main"), "SyntaxError", code="PERDURE-131", files={"b.py": "def main(run:\n"}),
    Bad(("run", "b.py:main"), "ModuleNotFoundError", code="PERDURE-131", files={"b.py": "import nowhere\n"}),
    Bad(("run", "b.py:main"), "sys.exit(3)", 1, "PERDURE-100", {"b.py": "import sys\nsys.exit(3)\n"}),
    Bad(("run", "bad.json"), "bad.json:1", code="PERDURE-131", files={"bad.json": '{"name": }'}),
    job("- a list\n", "a job file is a mapping"),
    job(JOB + "budget: {}\n", "bad.job.yaml:4:1: unknown key 'budget'; did you mean 'budgets'"),
    job(JOB + "budgets: {max_steps: -1, max_tool_cals: 3}\n", "did you mean 'max_tool_calls'"),
    job(JOB + "name: twice\n", "name"),
    job(JOB + "deadline: tomorrow\n", "'tomorrow' is no absolute time"),
    job("name: x\nagent: {claude: hi}\n", "agent kind 'claude' is not in this version"),
    job('name: x\nagent: {python: "report:main", resume: session}\n', "session"),
    job('name: x\nagent: {python: "nowhere:main"}\n', "nowhere"),
    job("name: x\nagent: {python: main}\n", "neither module:function nor file.py:function"),
    job(JOB + "tools: [nowhere]\n", "cannot import 'nowhere'"),
    job(JOB + "tools: [empty]\n", "has no @tool", files={"empty.py": ""}),
    job(JOB + "tools: [report.py]\n", "write report"),
    job(JOB + "policies: [gone.yaml]\n", "no such file: gone.yaml"),
    job(JOB + "policies: [p.yaml]\n", "p.yaml:2", code="PERDURE-201", files={"p.yaml": "version: 1\nruless: []\n"}),
    job(JOB + "stop_conditions: [{effekt: send_mail}]\n", "stop condition"),
    job(JOB + "artifacts: {expected_outputs: [../out.pdf]}\n", "inside the workspace"),
    job("name: [\n", "bad.job.yaml:"),
    Bad(("run", "bad.job.yaml"), "not UTF-8", code="PERDURE-131", files={"bad.job.yaml": b"name: \xff\n"}),
)
IDS = (
    Bad(("resume", "nobody"), "no run begins with 'nobody'", 3, "PERDURE-141"),
    Bad(("resume", ""), "the id of a run is empty", 3, "PERDURE-141"),
    Bad(("runs", "show", "do"), "several runs begin with 'do'", 3, "PERDURE-141"),
    Bad(("calls", "ls", "nobody"), "nobody", 3, "PERDURE-141"),
    Bad(("calls", "show", "done.99"), "there is no call 'done.99'", 3, "PERDURE-141"),
    Bad(("calls", "explain", "done"), "'done' is a run", 3, "PERDURE-141"),
    Bad(("resolve", "done.99", "--happened"), "there is no call", 3, "PERDURE-141"),
    Bad(("approve", "nothing"), "there is no question 'nothing'", 3, "PERDURE-141"),
    Bad(("resolve", "doubt.2"), "--happened"),
    Bad(("resolve", "doubt.2", "--happened", "--abandon"), "not allowed with"),
    Bad(("resolve", "doubt.2", "--happened", "--result", "{bad"), "--result"),
    Bad(("resolve", "doubt.2", "--happened", "--result", "NaN"), "NaN is no JSON"),
    Bad(("resolve", "doubt.2", "--happened", "--result", '{"$int": "x"}'), "--result"),
    Bad(("resolve", "doubt.2", "--happened", "--ref", " "), "--ref is empty"),
)
VERDICTS = (
    Bad(("resolve", "doubt.2", "--abandon", "--result", "1"), "--result and --ref belong to --happened"),
    Bad(("resolve", "doubt.2", "--happened", "--force"), "--force belongs to --did-not-happen"),
    Bad(("resolve", "doubt.2", "--same"), "has no open challenge", code="PERDURE-160"),
    Bad(("resolve", "doubt.2", "--another"), "has no open challenge", code="PERDURE-160"),
    Bad(("resolve", "done.2", "--happened"), "not in doubt", code="PERDURE-160"),
    Bad(("deny", "QUESTION"), "--reason"),
    Bad(("deny", "QUESTION", "--reason", " "), "--reason is empty"),
    Bad(("policy", "check"), "FILE"),
    Bad(("policy", "check", "gone.yaml"), "no such file", code="PERDURE-201"),
    Bad(("policy", "check", "p.yaml"), "p.yaml:4", code="PERDURE-201", files={"p.yaml": RULE.replace("ext", "int")}),
    Bad(("policy", "explain", " "), "name is empty"),
    Bad(("policy", "explain", "send_mail", "--args", "[1]"), "no JSON object"),
    Bad(("policy", "explain", "send_mail", "--args", '{"a": 1, "a": 2}'), "twice"),
    Bad(("policy", "explain", "send_mail", "--tools", "nowhere"), "cannot import 'nowhere'", code="PERDURE-131"),
)


@dataclass(frozen=True, slots=True)
class Before:
    """A ledger as it was before the mistake."""

    state_dir: Path
    rows: str
    question: str


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Before:
    """A ledger with a run that succeeded, one in doubt, and one that waits for an approval."""
    desk = Desk(tmp_path_factory.mktemp("before"))
    desk.write("report.py", REPORT)
    crash = {"PERDURE_TEST_CRASH_AFTER_TOOL": "send_mail"}
    assert desk.type(*RUN, "--run-id", "done").code == 0
    assert desk.type(*RUN, "--run-id", "doubt", env=crash).code == 137
    assert desk.type("resume", "doubt").code == 7
    asked = desk.type("run", "report.py:pay", "--run-id", "ask", "-o", "json")
    state_dir = desk.folder / ".perdure"
    with sqlite3.connect(state_dir / "runtime_state.db") as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # what is copied for each mistake is small then
    database.close()
    return Before(state_dir, json.dumps(desk.rows()), asked.document["waiting_for"][0]["id"])


def check(bad: Bad, before: Before, folder: Path) -> None:
    """Make one mistake, and look that nothing came of it but one error."""
    desk = Desk(folder)
    desk.write("report.py", REPORT)
    if bad.ledger:
        shutil.copytree(before.state_dir, folder / ".perdure")
    for name, content in bad.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    typed = [before.question if word == "QUESTION" else word for word in bad.typed]
    split = 1 if typed[:1] == ["demo"] else 0
    said = desk.type(*typed[:split], "-o", "json", *typed[split:], env=bad.env)
    said.is_error(bad.exit_code, bad.code)
    assert bad.says in said.err, said.err
    assert set(said.document) - {"errors", "differences"} == {"schema", "code", "message", "safe", "next"}
    assert said.document["schema"] == "perdure.error/v1"
    assert (said.document["code"], bad.says in said.document["message"]) == (bad.code, True), said.out
    assert json.dumps(desk.rows()) == (before.rows if bad.ledger else "{}")
    assert desk.mails() == []
    assert not (folder / "wires.log").exists()


GROUPS = {"words": WORDS, "places": PLACES, "knobs": KNOBS, "jobs": JOBS, "ids": IDS, "verdicts": VERDICTS}
PARTS = {f"{name}-{at}": rows[at : at + 6] for name, rows in GROUPS.items() for at in range(0, len(rows), 6)}


@pytest.mark.parametrize("rows", PARTS.values(), ids=PARTS.keys())
def test_one_clear_error_no_row_and_no_effect(rows: tuple[Bad, ...], before: Before, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        pending = [pool.submit(check, bad, before, tmp_path / str(number)) for number, bad in enumerate(rows)]
        problems = [
            f"{bad.typed} {dict(bad.env)}: {failure}"
            for bad, each in zip(rows, pending, strict=True)
            if (failure := each.exception()) is not None
        ]
    assert problems == []


def test_every_error_of_a_job_file_is_said_at_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.write("bad.job.yaml", "name: 3\nagent: {python: main}\nbudgets: {max_steps: 0}\ntool: []\n")
    said = desk.type("run", "bad.job.yaml")
    said.is_error(2, "PERDURE-131")
    assert said.out == ""
    for line in (1, 2, 3, 4):
        assert f"bad.job.yaml:{line}:" in said.err
    assert not (tmp_path / ".perdure").exists()


def test_a_traceback_is_shown_only_when_asked_for(tmp_path: Path) -> None:
    found = Desk(tmp_path).type("runs", "show", "x", "--debug")
    assert found.code == 3
    assert "Traceback" in found.err
    assert [line[:7] for line in found.err.rstrip().splitlines()[-2:]] == ["  next:", "  more:"]
