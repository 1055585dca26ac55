"""A job of any budgets, constraints and escalation, whose agent is given anew in each life."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure import Engine, Outcome
from perdure.config.job_file import load_job
from perdure.testing import FakeClock
from tests.integration.engine_support import FAST


class Job:
    """A job whose agent is given anew in each life, as a deploy would; run ``r1`` of it."""

    def __init__(self, folder: Path, said: str) -> None:
        folder.mkdir(exist_ok=True)
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
        if not any(run.run_id == "r1" for run in engine.runs()):
            engine._accept(load_job(self.job).run_spec(), "r1", str(self.job))
        found = engine.resume("r1", main=main, **options)
        account_agrees_with_rows(engine, "r1")
        return found


def account_agrees_with_rows(engine: Engine, run_id: str) -> None:
    """Check what the ledger's account says against the rows: a call counts once it was tried and not given back."""
    known = engine._ledger.read(lambda store: store.budgets.get(run_id))
    if known is None:
        return
    tried = [
        call
        for call in engine.calls(run_id)
        if call["status"] in ("running", "in_doubt", "succeeded", "abandoned")
        or (call["status"] == "failed" and call["attempt"] > 0)
    ]
    assert known.usage.calls == len(tried)
    assert known.usage.steps == len(engine.details(run_id)["steps"]) - 1
