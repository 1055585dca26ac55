"""An engine on a real file in a temporary folder, tuned so that waits are short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import perdure
from perdure import Engine, Outcome, Tuning, tool

FAST = Tuning(quiet_seconds=0.05, wait_poll_seconds=0.02, first_retry_seconds=0.001, sender_grace_seconds=0.2)


class Outside:
    """What the outside world received, in order."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def count(self, what: str) -> int:
        """Return how often ``what`` arrived."""
        return self.sent.count(what)


def open_engine(folder: Path, **options: Any) -> Engine:
    """Open the engine of a test."""
    return perdure.open(state_dir=folder / "state", tuning=options.pop("tuning", FAST), **options)


def live(folder: Path, main: Callable[..., Any], *, resume: bool = False, **options: Any) -> Outcome:
    """Run one life of run ``r1`` with ``main`` as the agent, as a deploy of changed code would."""
    with open_engine(folder, **options) as engine:
        if resume:
            return engine.resume("r1", main=main)
        return engine.run(main, run_id="r1")


def statuses(folder: Path) -> dict[str, str]:
    """Return the state of every call of run ``r1`` by its id."""
    with open_engine(folder) as engine:
        return {call["tool_call_id"]: call["status"] for call in engine.calls("r1", inner=True)}


class Crash(Exception):
    """Ends a life by an error that escapes main."""


def mailer(outside: Outside, **declared: Any) -> Any:
    """Return an effectful tool that writes what it sends to ``outside``."""

    @tool(name="send", side_effect_class="external", **declared)
    def send(to: str, body: str = "") -> str:
        outside.sent.append(f"{to}:{body}")
        return f"sent {len(outside.sent)}"

    return send
