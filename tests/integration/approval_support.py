"""A ledger under a clock that is set, with a policy of its own, for the tests of consent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from perdure import Engine, Outcome
from tests.integration.engine_support import FAST
from tests.integration.test_doubts import SetClock

ALWAYS = "version: 1\nrules:\n  - {tool: send, approval: always%s}\n"


class Desk:
    """One ledger under a clock that is set, with a policy for the tool ``send``."""

    def __init__(self, folder: Path, more: str = "", text: str | None = None) -> None:
        self.folder, self.clock = folder, SetClock()
        self.policy = folder / "p.yaml"
        self.policy.write_text(text or ALWAYS % more, "utf-8")

    def engine(self) -> Engine:
        return Engine(
            f"sqlite:///{self.folder}/ledger.db", policies=[self.policy], clock=self.clock, tuning=FAST,
            state_dir=self.folder,
        )  # fmt: skip

    def live(self, main: Callable[..., Any], *, resume: bool = False) -> Outcome:
        with self.engine() as engine:
            return engine.resume("r1", main=main) if resume else engine.run(main, run_id="r1")

    def answer(self, act: Callable[[Engine, Any], Any]) -> Any:
        with self.engine() as engine:
            ((_, item),) = engine.inbox()
            return act(engine, item)

    def later(self, **much: float) -> None:
        self.clock.moment += timedelta(**much)
