"""Budgets: a limit that is reached pauses the run and asks; a grant lets it go on (R036 to R040, C8, C19)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Engine, Outcome
from perdure.testing import FakeClock
from tests.integration.engine_support import FAST, Outside, mailer


class Job:
    """A job whose agent is given anew in each life, as a deploy would; run ``r1`` of it."""

    def __init__(self, folder: Path, said: str) -> None:
        self.folder, self.clock = folder, FakeClock(skips_sleeps=True)
        self.job = folder / "j.job.yaml"
        self.job.write_text(f"name: j\nagent: {{python: 'agent_of_test:main'}}\n{said}\n", "utf-8")

    def engine(self, clock: Any = None) -> Engine:
        """Open its ledger."""
        return Engine(
            f"sqlite:///{self.folder}/ledger.db", state_dir=self.folder, clock=clock or self.clock, tuning=FAST
        )

    def life(self, main: Callable[..., Any], **options: Any) -> Outcome:
        """Run one life of it."""
        with self.engine() as engine:
            return self.live_in(engine, main, **options)

    def live_in(self, engine: Engine, main: Callable[..., Any], **options: Any) -> Outcome:
        """Run one life of it in an open engine."""
        (self.folder / "agent_of_test.py").write_text("def main(run): return None\n", "utf-8")
        known = any(run.run_id == "r1" for run in engine.runs())
        if not known:
            from perdure.config.job_file import load_job
            from perdure.runtime.accept import accept

            accept(
                engine._around,
                load_job(self.job).run_spec(),
                "r1",
                path=str(self.job),
                policies=[],
                entrypoint="library",
                workspaces=self.folder / "workspaces",
            )
        return engine.resume("r1", main=main, **options)


@pytest.fixture
def outside() -> Outside:
    return Outside()


def sending(outside: Outside, how_many: int) -> Callable[[Any], list[str]]:
    """Return a main that sends so many mails."""
    send = mailer(outside)

    def main(run: Any) -> list[str]:
        return [send(f"to{i}") for i in range(how_many)]

    return main


def test_the_call_after_the_last_one_allowed_waits_and_a_grant_lets_it_go(tmp_path: Path, outside: Outside) -> None:
    job = Job(tmp_path, "budgets: {max_tool_calls: 2}")
    found = job.life(sending(outside, 4))
    assert (found.status, found.reason, found.exit_code) == ("waiting", "budget", 6)
    assert outside.sent == ["to0:", "to1:"]
    [item] = found.waiting_for
    assert item.summary.startswith("2 of 2 tool calls are used (max_tool_calls)")
    assert item.commands == ("perdure resume r1 --grant calls=2",)
    again = job.life(sending(outside, 4))
    assert (again.reason, again.replayed, len(again.waiting_for)) == ("budget", 0, 1)
    assert outside.sent == ["to0:", "to1:"]
    one_more = job.life(sending(outside, 4), grant={"calls": 1})
    assert (one_more.reason, len(outside.sent)) == ("budget", 3)
    assert one_more.waiting_for[0].id != item.id
    done = job.life(sending(outside, 4), grant={"calls": 5})
    assert (done.status, len(outside.sent), done.replayed) == ("succeeded", 4, 3)
    with job.engine() as engine:
        assert [(grant.kind, grant.amount) for grant in engine.grants("r1")] == [("calls", "1"), ("calls", "5")]
        assert [(item.limit, item.used, item.allowed) for item in engine.budgets("r1")] == [("calls", 4, 8)]
