"""The files that a job expects, in forks of a run that had them (R121, R041)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import CallContext, Engine, tool
from perdure.config.job_file import load_job
from tests.integration.engine_support import open_engine

EXPECTED = ["artifacts: {expected_outputs: [report.txt]}", "stop_conditions: [{artifact: report.txt}]"]


@tool(side_effect_class="local")
def write(text: str, *, call: CallContext) -> None:
    (call.workspace / "report.txt").write_text(text)


@tool(side_effect_class="external", scope=["printer"])
def print_out(printer: str, *, call: CallContext) -> str:
    (call.workspace / "report.txt").write_text(printer)
    return "printed"


def _done(engine: Engine, folder: Path, said: str, main: Callable[..., Any]) -> None:
    """Run a job to its end, as run ``p``."""
    job = folder / "j.job.yaml"
    job.write_text(f"name: j\nagent: {{python: 'agent_of_test:main'}}\n{said}\n", "utf-8")
    engine._accept(load_job(job).run_spec(), "p", str(job))
    found = engine.resume("p", main=main)
    assert found.status == "succeeded", found.error_detail


def _was_written_late(engine: Engine) -> None:
    """Move the time of the file on: that of a file system may lie some milliseconds before the checkpoint's clock."""
    file = Path(engine.outcome("p").workspace) / "report.txt"
    written = file.stat().st_mtime + 1
    os.utime(file, (written, written))


def _writes(run: Any) -> str:
    with run.step("write"):
        write("hello")
    return "done"


@pytest.mark.parametrize("said", EXPECTED)
@pytest.mark.parametrize("effects", ["simulate", "live"])
def test_an_output_that_was_there_at_the_checkpoint_is_brought_though_it_was_recorded_later(
    tmp_path: Path, said: str, effects: str
) -> None:
    with open_engine(tmp_path) as engine:
        _done(engine, tmp_path, said, _writes)
        fork = engine.fork("p", main=_writes, effects=effects, new_run_id="f")
        assert (fork.status, fork.inherited, fork.simulated) == ("succeeded", 1, 0)
        assert (Path(fork.workspace) / "report.txt").read_text() == "hello"
        assert [file["path"] for file in engine.details("f")["artifacts"]] == ["report.txt"]


def test_an_output_that_was_written_after_the_checkpoint_is_not_brought_and_the_program_must_make_it(
    tmp_path: Path,
) -> None:
    def writes_late(run: Any) -> str:
        run.checkpoint()
        write("hello")
        return "done"

    with open_engine(tmp_path) as engine:
        _done(engine, tmp_path, EXPECTED[0], writes_late)
        _was_written_late(engine)
        assert engine.fork("p", at="c1", main=writes_late).status == "succeeded"
        fork = engine.fork("p", at="c1", main=lambda run: "done, I promise")
    assert (fork.status, fork.error_code) == ("failed", "ConditionsUnmet")
    assert not (Path(fork.workspace) / "report.txt").exists()
    for words in ("run p had it", "written after p.c1", "perdure fork p --at start"):
        assert words in str(fork.error_detail)


def test_an_output_that_was_changed_since_is_not_brought(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:
        _done(engine, tmp_path, EXPECTED[0], _writes)
        (Path(engine.outcome("p").workspace) / "report.txt").write_text("other bytes")
        assert engine.fork("p", main=_writes, effects="live").error_code == "ConditionsUnmet"


def test_an_output_that_only_a_simulated_call_could_have_made_is_told_and_is_no_failure(tmp_path: Path) -> None:
    def prints(run: Any) -> str:
        run.checkpoint()
        return str(print_out("laser"))

    with open_engine(tmp_path) as engine:
        _done(engine, tmp_path, EXPECTED[0], prints)
        _was_written_late(engine)
        fork = engine.fork("p", at="c1", main=prints, new_run_id="f")
        again = engine.fork("f", at="c1", main=prints)
    assert (fork.status, fork.simulated, again.status) == ("succeeded", 1, "succeeded")
    assert fork.note.endswith("; not made here, where calls are simulated: report.txt")
    assert not (Path(fork.workspace) / "report.txt").exists()


def test_an_output_that_no_run_behind_the_fork_had_is_missing_there_too(tmp_path: Path) -> None:
    def prints(run: Any) -> str:
        run.checkpoint()
        return str(print_out("laser"))

    job = tmp_path / "j.job.yaml"
    text = "name: j\nagent: {python: 'agent_of_test:main'}\nartifacts: {expected_outputs: [other.txt]}\n"
    job.write_text(text, "utf-8")
    with open_engine(tmp_path) as engine:
        engine._accept(load_job(job).run_spec(), "p", str(job))
        assert engine.resume("p", main=prints).status == "failed"
        fork = engine.fork("p", at="c1", main=prints)
    assert (fork.status, fork.simulated, fork.error_code) == ("failed", 1, "ConditionsUnmet")
    assert "other.txt is not in the workspace: make the program write it, then resume" in str(fork.error_detail)


def test_a_named_condition_whose_name_has_the_word_artifact_in_it_is_no_file(tmp_path: Path) -> None:
    def main(run: Any) -> str:
        run.satisfy("artifact_ready")
        return "done"

    with open_engine(tmp_path) as engine:
        _done(engine, tmp_path, "stop_conditions: [artifact_ready]", main)
        assert engine.fork("p", main=main, new_run_id="f").status == "succeeded"
