"""What a life is made of: shown where it changed, asked about or refused where the job says so (design: on_change)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, tool
from perdure.model.errors import ChangeRefused, VerdictRefused
from perdure.model.run import RunStatus
from tests.integration.engine_support import Crash, open_engine

JOB = """name: letters
agent: {python: "letters:main"}
policies: [own.policy.yaml]
"""
POLICY = "version: 1\nrules:\n  - tool: send\n    scope: [to]\n"
AGENT = """from perdure import tool


@tool(side_effect_class="external")
def send(to: str) -> str:
    return "sent"


def main(run):
    if run.attempt == 1:
        raise ValueError("the first life fails")
    return send("a")
"""


def agent(side_effect_class: str = "external", answer: str = "sent", **declared: Any) -> Callable[..., Any]:
    """Return an agent that fails in its first life, with a tool that a deploy may change."""
    source = f"def send(to):\n    return {answer!r}\n"
    names: dict[str, Any] = {}
    exec(compile(source, "send.py", "exec"), names)
    send = tool(name="send", side_effect_class=side_effect_class, **declared)(names["send"])

    def main(run: Any) -> str:
        if run.attempt == 1:
            raise Crash("the first life fails")
        return str(send("a"))

    return main


def job(folder: Path, on_change: str = "") -> Path:
    """Write the files of a job, with a word on changes."""
    (folder / "own.policy.yaml").write_text(POLICY)
    (folder / "letters.py").write_text(AGENT)
    path = folder / "letters.job.yaml"
    path.write_text(JOB + (f"on_change: {on_change}\n" if on_change else ""))
    return path


@pytest.fixture(autouse=True)
def forget_the_agents_module() -> Any:
    import sys

    yield
    sys.modules.pop("letters", None)


def start(engine: Engine, path: Path) -> None:
    assert engine.run(path, run_id="r1").status is RunStatus.FAILED


def change_the_agent(folder: Path) -> None:
    import sys

    (folder / "letters.py").write_text(AGENT.replace('"sent"', '"sent now"'))
    sys.modules.pop("letters", None)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (agent(), agent("memory"), ["tool local.send: its class: external → memory"]),
        (agent(), agent(answer="sent now"), ["tool local.send: its code changed"]),
        (agent(), agent(scope=["to"]), ["tool local.send: its effect scope: none → to"]),
        (
            agent(),
            agent("local"),
            [
                "tool local.send: its class: external → local",
                "tool local.send: its replay policy: ASK → REPLAY_EXACT",
                "tool local.send: its guarantee: ask → rerun",
            ],
        ),
        (agent(), agent(), []),
    ],
)
def test_what_changed_between_two_lives_is_told_and_the_run_goes_on(
    tmp_path: Path, before: Any, after: Any, told: list[str]
) -> None:
    with open_engine(tmp_path) as engine:
        assert engine.run(before, run_id="r1").changes == ()
        found = engine.resume("r1", main=after)
        lives = engine.details("r1")["lives"]
    assert found.status is RunStatus.SUCCEEDED
    assert list(found.changes) == told
    assert [life["changes"] for life in lives] == [[], told]


def test_a_changed_policy_and_a_changed_file_of_the_agent_are_told_by_their_names(tmp_path: Path) -> None:
    path = job(tmp_path)
    with open_engine(tmp_path) as engine:
        start(engine, path)
        change_the_agent(tmp_path)
        (tmp_path / "own.policy.yaml").write_text(POLICY.replace("scope: [to]", "side_effect_class: memory"))
        found = engine.resume("r1")
    assert found.result == "sent now"
    assert list(found.changes) == [
        "tool local.send: its class: external → memory",
        "tool local.send: its effect scope: to → none",
        "tool local.send: its code changed",
        "policy own.policy.yaml: it changed",
        "code letters.py: it changed",
    ]


def test_a_job_that_stops_on_a_change_is_refused_untouched_and_goes_on_where_the_change_is_accepted(
    tmp_path: Path,
) -> None:
    path = job(tmp_path, "stop")
    with open_engine(tmp_path) as engine:
        start(engine, path)
        change_the_agent(tmp_path)
        before = engine.details("r1"), engine.outcome("r1")
        with pytest.raises(ChangeRefused, match=r"code letters\.py: it changed") as refused:
            engine.resume("r1")
        assert (engine.details("r1"), engine.outcome("r1")) == before
        assert "--accept-change" in refused.value.next_command and refused.value.exit_code == 2
        assert engine.resume("r1", accept_change=True).result == "sent now"


def test_a_job_that_stops_on_a_change_goes_on_where_nothing_changed_and_a_fork_may_always_differ(
    tmp_path: Path,
) -> None:
    path = job(tmp_path, "stop")
    with open_engine(tmp_path) as engine:
        start(engine, path)
        change_the_agent(tmp_path)
        fork = engine.fork("r1", effects="live")
        assert "code letters.py: it changed" in fork.changes
        job(tmp_path, "stop")
        import sys

        sys.modules.pop("letters", None)
        assert engine.resume("r1").status is RunStatus.SUCCEEDED


def test_a_job_that_asks_about_a_change_waits_until_a_person_agrees_to_exactly_that_change(tmp_path: Path) -> None:
    path = job(tmp_path, "ask")
    with open_engine(tmp_path) as engine:
        start(engine, path)
        change_the_agent(tmp_path)
        found = engine.resume("r1")
        assert (found.status, found.reason, found.exit_code) == ("waiting", "question", 6)
        (item,) = found.waiting_for
        assert "code letters.py: it changed" in item.summary
        assert any(command.startswith(f"perdure answer {item.id} continue") for command in item.commands)
        assert engine.resume("r1").waiting_for == found.waiting_for, "it is asked once"
        with pytest.raises(VerdictRefused, match="continue is the answer"):
            engine.answer(item.id, "no")
        (tmp_path / "own.policy.yaml").write_text(POLICY.replace("scope: [to]", "side_effect_class: memory"))
        again = engine.resume("r1")
        assert again.waiting_for[0].id != item.id, "what changed since is another question"
        engine.answer(again.waiting_for[0].id, "continue")
        assert engine.outcome("r1").status is RunStatus.QUEUED
        done = engine.resume("r1")
    assert (done.status, done.result) == ("succeeded", "sent now"), "the call that had ended it is tried again"


def test_what_a_run_was_made_of_survives_in_a_ledger_that_knew_nothing_of_it(tmp_path: Path) -> None:
    """A run of an older ledger has no fingerprint: its first life under this version compares nothing."""
    with open_engine(tmp_path) as engine:
        engine.run(agent(), run_id="r1")
        engine._ledger.run(lambda store: store.connection.write("UPDATE runs SET fingerprint_json = NULL", {}))
        found = engine.resume("r1", main=agent("memory"))
    assert (found.status, found.changes) == ("succeeded", ())


def test_an_unknown_word_on_changes_is_refused_with_its_place(tmp_path: Path) -> None:
    from perdure.model.errors import SpecError

    path = job(tmp_path, "sometimes")
    with open_engine(tmp_path) as engine, pytest.raises(SpecError, match=r"letters\.job\.yaml:4:\d+: on_change"):
        engine.run(path)
