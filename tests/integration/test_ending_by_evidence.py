"""A loop that goes on while something is unmet ends by receipts, files and evidence, whatever a model claims (R041)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import UsageError
from tests.integration.engine_support import Crash, Outside, live, mailer
from tests.integration.job_support import Job

SAID = "stop_conditions: [{effect: send, times: 2}, checked]\nartifacts: {expected_outputs: [report.txt]}"
NOTHING = ("send has 0 receipts, not 2", "the stop condition 'checked' was not satisfied")
NO_FILE = "the expected output report.txt is not in the workspace"


def says(text: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"content": text, "tool_calls": list(calls)}


def mail(to: str) -> dict[str, Any]:
    return {"id": f"call-{to}", "name": "send", "args": {"to": to}}


class Model:
    """A model that gives these answers one after another, and the last one again and again."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers, self.asked = answers, 0

    def __call__(self, messages: list[Any]) -> dict[str, Any]:
        self.asked += 1
        said = sum(1 for message in messages if message.get("role") == "assistant")
        return self.answers[min(said, len(self.answers) - 1)]


def loop(run: Any, model: Model, crash: Callable[[int], None] = lambda asked: None) -> list[tuple[str, ...]]:
    """Ask the model while something is unmet; return what was unmet each time."""
    messages: list[Any] = [{"role": "user", "content": "go"}]
    unmet = [run.unmet_conditions()]
    while unmet[-1]:
        turn = run.turn("agent", model, messages)
        messages += turn.messages
        messages += turn.results() if turn.calls else [{"role": "user", "content": "; ".join(unmet[-1])}]
        if len(unmet) == 2:
            (run.workspace / "report.txt").write_text("a report", "utf-8")
            run.satisfy("checked", evidence={"lines": 1})
        unmet.append(run.unmet_conditions())
        crash(len(unmet))
    return unmet


EAGER = (says("All done!"), says("Really done.", mail("ann")), says("I have told you.", mail("bob")))


def test_a_model_that_claims_to_be_done_ends_nothing_and_one_that_would_go_on_is_ended(tmp_path: Path) -> None:
    outside, model = Outside(), Model(*EAGER, says("", mail("cleo")))
    send = mailer(outside)
    done = Job(tmp_path, SAID).life(lambda run: [send, loop(run, model)][1])
    assert done.status == "succeeded"
    assert [len(unmet) for unmet in done.result] == [3, 3, 1, 0]
    assert done.result[1] == (*NOTHING, NO_FILE)
    assert done.result[2] == ("send has 1 receipts, not 2",)
    assert (outside.sent, model.asked) == (["ann:", "bob:"], 3)  # Cleo would have been next


def test_an_async_loop_ends_the_same(tmp_path: Path) -> None:
    outside, model = Outside(), Model(mail_to := says("", mail("ann")), mail_to)
    send = mailer(outside)

    async def main(run: Any) -> Any:
        assert send is not None
        unmet = [await run.unmet_conditions()]
        while unmet[-1]:
            turn = await run.turn("agent", model, [{"role": "user", "content": "go"}])
            await turn.results()
            unmet.append(await run.unmet_conditions())
        return unmet

    done = Job(tmp_path, "stop_conditions: [{effect: send, times: 1}]").life(main)
    assert (done.status, done.result) == ("succeeded", [("send has 0 receipts, not 1",), ()])
    assert (outside.sent, model.asked) == (["ann:"], 1)


@pytest.mark.parametrize("crash_at", [2, 3, 4])
def test_a_later_life_is_told_the_same_up_to_where_the_one_before_it_had_got(tmp_path: Path, crash_at: int) -> None:
    """Also where all holds already: a loop that the second life left out would leave out what was done in it."""
    outside, model, job = Outside(), Model(*EAGER), Job(tmp_path, SAID)
    send = mailer(outside)

    def crash(asked: int) -> None:
        if asked == crash_at:
            raise Crash

    assert job.life(lambda run: [send, loop(run, model, crash)][1]).status == "failed"
    asked = model.asked
    done = job.life(lambda run: [send, loop(run, model)][1])
    assert (done.status, done.unmet, [len(unmet) for unmet in done.result]) == ("succeeded", 0, [3, 3, 1, 0])
    assert (outside.sent, model.asked) == (["ann:", "bob:"], 3)
    assert asked == crash_at - 1


def test_that_nothing_is_unmet_is_looked_at_anew_in_each_life(tmp_path: Path) -> None:
    job = Job(tmp_path, "stop_conditions: [{artifact: a.txt}]")
    told: list[list[str]] = []

    def main(run: Any) -> None:
        told.append([])
        while unmet := run.unmet_conditions():
            told[-1] += unmet
            (run.workspace / "a.txt").write_text("a", "utf-8")
        if len(told) == 1:
            (run.workspace / "a.txt").unlink()
            raise Crash

    assert job.life(main).status == "failed"
    assert job.life(main).status == "succeeded"
    assert told == [["the artifact a.txt is not in the workspace"]] * 2


def test_what_is_unmet_is_what_would_make_the_run_fail(tmp_path: Path) -> None:
    job = Job(tmp_path, "constraints: {must_cite_sources: true}\nartifacts: {expected_outputs: [report.md]}")

    def main(run: Any) -> tuple[str, ...]:
        (run.workspace / "report.md").write_text("no source", "utf-8")
        unmet: tuple[str, ...] = run.unmet_conditions()
        assert unmet == ("report.md cites no URL that a reading tool of this run has fetched (must_cite_sources)",)
        return unmet

    found = job.life(main)
    assert (found.status, found.error_code) == ("failed", "ConditionsUnmet")
    assert "report.md cites no URL" in str(found.error_detail)


def test_an_effect_that_happened_too_often_ends_the_loop_at_once(tmp_path: Path) -> None:
    outside, model = Outside(), Model(says("", mail("ann"), mail("bob")))
    send = mailer(outside)
    job = Job(tmp_path, "stop_conditions: [{effect: send, times: 1}, never]")
    for _ in range(2):
        found = job.life(lambda run: [send, loop(run, model)][1])
        assert (found.status, found.error_code) == ("failed", "ConditionsUnmet")
        assert found.error_detail is not None
        assert found.error_detail.startswith("send has 2 receipts, not 1, and none can be taken back")
    assert (outside.sent, model.asked) == (["ann:", "bob:"], 1)


def test_a_run_that_has_nothing_to_meet_is_told_so_instead_of_ending_at_once(tmp_path: Path) -> None:
    def main(run: Any) -> str:
        with pytest.raises(UsageError, match="has no stop condition and no expected output"):
            run.unmet_conditions()
        return "told"

    assert live(tmp_path, main).result == "told"


AGENT = """
import json, pathlib
from perdure import CallContext, tool

OUTSIDE = pathlib.Path(__file__).parent

def note(name, text):
    with (OUTSIDE / name).open("a") as file:
        file.write(text + "\\n")

@tool(side_effect_class="external", scope=["to"], key_ttl="forever")
def send(to: str, *, call: CallContext) -> str:
    (OUTSIDE / f"sent-{call.idempotency_key}").write_text(to)
    return "accepted"

def call_model(messages):
    said = sum(1 for message in messages if message["role"] == "assistant")
    calls = [[], ["ann"], ["bob"], ["cleo"]][min(said, 3)]
    return {"content": "Done!", "tool_calls": [{"id": to, "name": "send", "args": {"to": to}} for to in calls]}

def main(run):
    messages = [{"role": "user", "content": "go"}]
    while unmet := run.unmet_conditions():
        turn = run.turn("agent", call_model, messages)
        messages += turn.messages
        messages += turn.results() if turn.calls else [{"role": "user", "content": "; ".join(unmet)}]
    return [turn.text, len(messages)]
"""


@pytest.mark.timeout(60)
@pytest.mark.parametrize("knob", ["AFTER_TOOL_CALL_ID=r.5", "AFTER_TOOL_CALL_ID=r.8", "AT_POINT=31"])
def test_killed_anywhere_the_next_life_ends_the_loop_at_the_same_place(tmp_path: Path, knob: str) -> None:
    """After ``r.8`` both mails are there before the loop begins again; it goes the way that it went all the same."""
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    job = tmp_path / "j.job.yaml"
    said = "stop_conditions: [{effect: send, times: 2}]"
    job.write_text(f"name: j\nagent: {{python: 'agent.py:main'}}\n{said}\n", "utf-8")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PERDURE_")}
    name, _, value = f"PERDURE_TEST_CRASH_{knob}".partition("=")
    command = [sys.executable, "-m", "perdure", "run", str(job), "--run-id", "r", "-q"]
    killed = subprocess.run(command, cwd=tmp_path, env={**environ, name: value}, capture_output=True, check=False)
    assert killed.returncode == 137
    with perdure.open(state_dir=tmp_path / ".perdure") as engine:
        outcome = engine.resume("r")
    assert (outcome.status, outcome.result, outcome.unmet) == ("succeeded", ["Done!", 7], 0)
    assert sorted(file.read_text() for file in tmp_path.glob("sent-*")) == ["ann", "bob"]
