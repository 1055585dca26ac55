"""What is asked of runs and their lives, where no other file shows it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, LeaseHeld
from tests.integration.engine_support import live, open_engine


@pytest.mark.parametrize("entrypoint", ["cli", "telegram", "ws", "carrier pigeon"])
def test_who_started_a_run_is_kept_whatever_it_is_called(tmp_path: Path, entrypoint: str) -> None:
    with Engine(f"sqlite:///{tmp_path}/ledger.db", entrypoint=entrypoint) as engine:
        assert engine.run(lambda run: None, run_id="r1").status == "succeeded"
        assert [row.entrypoint for row in engine.runs()] == [entrypoint]


def test_a_run_stands_in_the_ledger_before_its_agent_or_its_model_is_entered(tmp_path: Path) -> None:
    seen: list[tuple[str, str, str]] = []

    def ask_model(messages: Any) -> str:
        with open_engine(tmp_path) as elsewhere:
            (row,) = elsewhere.runs()
            seen.append((row.run_id, str(row.status), row.spec_json))
        return "hello"

    def main(run: Any) -> str:
        return run.turn("chat", ask_model, [{"role": "user", "content": "hi"}]).text

    with open_engine(tmp_path) as engine:
        assert engine.run(main, {"topic": "SQLite"}, run_id="r1").result == "hello"
    ((run_id, status, spec),) = seen
    assert (run_id, status) == ("r1", "running")
    assert '"topic": "SQLite"' in spec


def test_who_attaches_to_a_run_that_is_driven_elsewhere_is_told_where_it_is(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def main(run: Any) -> str:
        with run.step("crawl", phase="gather"):
            run.checkpoint()
            begun.set()
            go_on.wait(60)
        return "done"

    driver = threading.Thread(target=lambda: live(tmp_path, main))
    driver.start()
    begun.wait(60)
    with open_engine(tmp_path) as engine:
        with pytest.raises(LeaseHeld) as refused:
            engine.run(main, run_id="r1")
        go_on.set()
        driver.join()
        assert refused.value.exit_code == 5
        assert "in step 'crawl' (phase gather)" in refused.value.message
        assert engine.outcome("r1").result == "done"
