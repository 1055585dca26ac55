"""Small things that a person reads: said once, in words, and nothing but what is so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Probe, tool
from perdure.cli.main import main as command_line
from perdure.core.transcript import entry
from perdure.model.errors import NotFound, UsageError
from perdure.model.toolcall import CallRow
from tests.integration.engine_support import Outside, mailer, open_engine
from tests.integration.job_support import Job


@tool(side_effect_class="external", approval="always")
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def typed(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = command_line([*words, "--state-dir", str(folder / "state")])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_an_error_that_says_nothing_is_told_by_its_type_and_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @tool(side_effect_class="external")
    def silent(to: str) -> str:
        raise TimeoutError

    def main(_run: Any) -> None:
        raise LookupError

    with open_engine(tmp_path) as engine:
        (asked,) = engine.run(lambda _run: silent("ann"), run_id="w").waiting_for
        failed = engine.run(main, run_id="f")
    assert "its last attempt: TimeoutError (test_said_plainly.py:" in asked.summary
    assert failed.error_said.startswith("LookupError: (test_said_plainly.py:")
    _, told, _ = typed(tmp_path, capsys, "calls", "explain", "w.1")
    assert "may have happened or not (TimeoutError)\n" in told


def test_what_a_probe_said_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = [Probe.happened("receipt", ref="m-1")]

    @tool(side_effect_class="external")
    def mail(to: str) -> str:
        raise TimeoutError("no answer")

    @mail.probe
    def find(call: Any) -> Probe:
        return answers.pop()

    with open_engine(tmp_path) as engine:
        assert engine.run(lambda _run: mail("ann"), run_id="w").status == "succeeded"
    _, told, _ = typed(tmp_path, capsys, "calls", "explain", "w.1")
    (line,) = (line for line in told.splitlines() if "probe says" in line)
    assert "probe says happened, ref m-1  [life 1 " in line


def test_a_message_without_text_is_shown_by_what_it_holds() -> None:
    row: Any = CallRow.__new__(CallRow)
    for name in ("tool_call_id", "tool_name", "status", "finished_at", "started_at", "prepared_at"):
        object.__setattr__(row, name, "x")
    object.__setattr__(row, "tool_namespace", "model")
    object.__setattr__(row, "error_code", None)
    asks = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1"}], "refusal": None}
    text = entry(row, json.dumps({"new": [asks, {"role": "assistant", "content": None}]}), None)
    assert '**assistant:** {"tool_calls": [{"id": "c1"}]}' in text
    assert "null" not in text
    assert text.count("**assistant:**") == 1


@pytest.mark.parametrize(("runs", "ends"), [(3, "w3, w2, w1"), (5, "w5, w4, w3, w2, w1"), (6, "w6, w5, w4, w3, w2, …")])
def test_runs_that_begin_alike_are_all_named_or_it_is_said_that_there_are_more(
    tmp_path: Path, runs: int, ends: str
) -> None:
    with open_engine(tmp_path) as engine:
        for number in range(runs):
            engine.run(lambda _run: 1, run_id=f"w{number + 1}")
        with pytest.raises(NotFound) as refused:
            engine.outcome(engine.find_run("w"))
    assert str(refused.value).endswith(f"begin with 'w': {ends}")


def test_a_call_that_a_fork_never_started_is_not_counted_as_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stands recorded where a budget stopped the fork; started calls use the budget up, simulated or not."""
    outside = Outside()
    send = mailer(outside, scope=["to"])

    def main(_run: Any) -> None:
        for to in "abc":
            send(to)

    job = Job(tmp_path / "state", "budgets: {max_tool_calls: 2}")
    with open_engine(tmp_path) as engine:
        asked = job.live_in(engine, main)
        assert (asked.reason, outside.sent) == ("budget", ["a:", "b:"])
        whole = engine.resume("r1", main=main, grant={"calls": 1})
        fork = engine.fork("r1", at="start", main=main, new_run_id="f")
        assert (whole.status, fork.status, fork.reason) == ("succeeded", "waiting", "budget"), "grants stay behind"
        assert (fork.simulated, fork.calls) == (2, {"succeeded": 2, "prepared": 1})
        assert "2 call(s) simulated" in fork.note
        _, listed, _ = typed(tmp_path, capsys, "calls", "ls", "f", "--columns", "status")
        assert listed.split("\n")[1:4] == [
            "succeeded (simulated)",
            "succeeded (simulated)",
            "prepared (to be simulated)",
        ]
        done = engine.resume("f", main=main, grant={"calls": 1})
    assert (done.status, done.simulated, outside.sent) == ("succeeded", 3, ["a:", "b:", "c:"])


def test_a_mistyped_limit_that_the_job_does_not_have_is_told_as_both(tmp_path: Path) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 1}")
    with job.engine() as engine:
        assert job.live_in(engine, lambda run: [run.ask("which?")]).reason == "question"
        with pytest.raises(UsageError, match=r"did you mean 'calls'\? \(") as refused:
            engine.resume("r1", grant={"call": 5})
        assert refused.value.next_command == "perdure resume r1 --grant calls=…"
        with pytest.raises(UsageError, match=r"did you mean 'steps'\? The job has no max_steps, so") as refused:
            engine.resume("r1", grant={"step": 5})
        assert refused.value.next_command == "perdure resume r1"


def test_an_answer_that_resumes_may_be_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "quiet_agent.py").write_text(
        "from perdure import tool\n\n\n@tool(side_effect_class='external', approval='always')\n"
        "def pay(amount: int) -> str:\n    return 'paid'\n\n\ndef main(run):\n"
        "    run.ask('which?')\n    return pay(5)\n",
        "utf-8",
    )
    assert typed(tmp_path, capsys, "run", "-q", f"{tmp_path / 'quiet_agent.py'}:main", "--run-id", "w")[0] == 6

    def question() -> str:
        with open_engine(tmp_path) as engine:
            ((_, item),) = engine.inbox()
        return item.id

    code, _, told = typed(tmp_path, capsys, "answer", question(), "this", "--resume", "--quiet")
    assert (code, "life " in told) == (6, False)
    code, _, told = typed(tmp_path, capsys, "approve", question(), "--resume", "-q")
    assert (code, "life " in told) == (0, False)


def test_a_file_that_cannot_be_read_is_told_without_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_engine(tmp_path) as engine:
        (item,) = engine.run(lambda _run: pay(5), run_id="w").waiting_for
    code, _, told = typed(tmp_path, capsys, "approve", item.id, "--edit-file", "nofile")
    assert (code, told.splitlines()[0]) == (2, "error[PERDURE-140]: --edit-file: nofile: No such file or directory")
    (tmp_path / "bytes").write_bytes(b"\xff")
    code, _, told = typed(tmp_path, capsys, "approve", item.id, "--edit-file", str(tmp_path / "bytes"))
    assert (code, told.splitlines()[0].endswith("bytes is no text in UTF-8")) == (2, True)


def test_the_commands_of_what_a_cancelled_run_leaves_stand_apart_from_their_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @tool(side_effect_class="external")
    def lost(to: str) -> str:
        raise TimeoutError("no answer")

    with open_engine(tmp_path) as engine:
        engine.run(lambda _run: lost("ann"), run_id="w")
    _, _, told = typed(tmp_path, capsys, "runs", "cancel", "w")
    title, asked, *commands = told.splitlines()
    assert title.endswith("stays in the inbox:")
    assert asked.startswith("  lost(")
    assert commands
    assert all(line.startswith("    perdure resolve w.1 ") for line in commands)


def test_the_objective_is_called_that_and_another_prompt_by_its_own_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, program = tmp_path / "told.job.yaml", tmp_path / "told_agent.py"
    job.write_text("name: told\nobjective: Count to one\nagent: {python: 'told_agent:main'}\n", "utf-8")
    program.write_text("def main(run):\n    if run.inputs.get('more'):\n        run.prompt_note('Count on')\n", "utf-8")
    with open_engine(tmp_path) as engine:
        engine.run(str(job), run_id="w")
    _, told, _ = typed(tmp_path, capsys, "runs", "show", "w")
    assert "objective  Count to one" in told
    assert "last prompt" not in told


def test_a_script_of_a_run_that_is_over_says_that_nothing_was_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with perdure.run_scope("week", state_dir=tmp_path / "state"):
        entered = 1
    assert (entered, capsys.readouterr().err) == (1, "run week: succeeded\n")
    with pytest.raises(SystemExit) as left, perdure.run_scope("week", state_dir=tmp_path / "state"):
        entered = 2
    assert (left.value.code, entered) == (0, 1)
    assert capsys.readouterr().err == "run week: succeeded; its stored outcome; the body was not entered\n"


def test_an_interrupted_run_is_said_to_be_that_in_a_list_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(_run: Any) -> None:
        raise KeyboardInterrupt

    with open_engine(tmp_path) as engine, pytest.raises(KeyboardInterrupt):
        engine.run(main, run_id="w")
    _, told, _ = typed(tmp_path, capsys, "runs", "ls", "--columns", "status")
    assert told.splitlines()[1] == "running (interrupted; nobody drives it)"
    with open_engine(tmp_path) as engine:
        assert engine.outcome("w").note == "interrupted; nobody drives it"
