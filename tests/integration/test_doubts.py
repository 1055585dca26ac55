"""Calls whose outcome was lost in the life that sent them: each attempt is asked about anew."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import CallContext, Engine, Outcome, Probe, tool
from perdure.ports.clock import format_time
from perdure.ports.tool import Tool
from tests.integration.engine_support import FAST, live


class Provider:
    """A mailbox whose answers can be lost on the way.

    Args:
        landings: for each request in turn, whether it takes effect; every answer of one is lost until they are used up.
    """

    def __init__(self, landings: list[bool]) -> None:
        self.landings = landings
        self.requests = 0
        self.landed: list[str] = []
        self.asked = 0

    def send(self, key: str) -> str:
        """Take a request; its effect may happen, its answer is lost."""
        self.requests += 1
        if self.requests > len(self.landings):
            self.landed.append(key)
            return "sent"
        if self.landings[self.requests - 1]:
            self.landed.append(key)
        raise ConnectionResetError("the answer was lost")

    def find(self, key: str) -> Probe:
        """Tell the truth about a key."""
        self.asked += 1
        return Probe.happened("found", ref=key) if key in self.landed else Probe.not_happened(complete=True)


def mail_by(provider: Provider, **declared: Any) -> Tool[..., str]:
    """Return a probed tool that sends through ``provider``."""

    @tool(side_effect_class="external", probe_lag=0, **declared)
    def send_mail(to: str, *, call: CallContext) -> str:
        return provider.send(call.idempotency_key)

    @send_mail.probe
    def find_mail(call: CallContext) -> Probe:
        return provider.find(call.idempotency_key)

    assert find_mail
    return send_mail


@pytest.mark.parametrize(
    ("landings", "requests", "answer"),
    [
        ([True], 1, "found"),
        ([False], 2, "sent"),
        ([False, True], 2, "found"),
        ([False, False], 3, "sent"),
        ([False, False, True], 3, "found"),
    ],
)
def test_a_no_about_one_attempt_says_nothing_about_the_next(
    tmp_path: Path, landings: list[bool], requests: int, answer: str
) -> None:
    provider = Provider(landings)
    send_mail = mail_by(provider)

    def main(run: Any) -> str:
        return send_mail("a@example.org")

    outcome = live(tmp_path, main)
    assert (outcome.status, outcome.result) == ("succeeded", answer)
    assert (provider.requests, len(provider.landed)) == (requests, 1)


class SetClock:
    """A wall clock that stands where it is put; waiting takes its real time."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 20, 12, tzinfo=UTC)

    def now(self) -> str:
        """Return the moment, which moves on a little each time it is asked."""
        self.moment += timedelta(microseconds=1)
        return format_time(self.moment)

    def monotonic(self) -> float:
        """Return seconds that never go backwards."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for real."""
        time.sleep(seconds)


@pytest.mark.parametrize(
    ("hours_later", "requests", "status"),
    [(0, 2, "succeeded"), (0.9, 2, "succeeded"), (1.1, 1, "waiting"), (30, 1, "waiting")],
)
@pytest.mark.parametrize("steps_back", [False, True])
@pytest.mark.parametrize("seen_by", ["another run", "the run itself"])
def test_a_clock_that_steps_back_does_not_bring_an_expired_key_back(
    tmp_path: Path, hours_later: float, requests: int, status: str, steps_back: bool, seen_by: str
) -> None:
    provider = Provider([True])
    clock = SetClock()

    def life(run_id: str, to: str, attempts: int, *, resume: bool = False) -> Outcome:
        @tool(name="pay", side_effect_class="external", scope=["to"], key_ttl="1h", max_attempts=attempts)
        def pay(to: str, *, call: CallContext) -> str:
            return provider.send(call.idempotency_key)

        def main(run: Any) -> str:
            return "" if to == "nobody" else pay(to)

        with Engine(f"sqlite:///{tmp_path}/ledger.db", state_dir=tmp_path, clock=clock, tuning=FAST) as engine:
            return engine.resume(run_id, main=main) if resume else engine.run(main, run_id=run_id)

    assert life("r1", "a", 1).reason == "in_doubt"
    clock.moment += timedelta(hours=hours_later)
    if seen_by == "another run":
        assert life("r2", "nobody", 1).status == "succeeded"
    else:
        assert life("r1", "a", 1, resume=True).reason == "in_doubt"
    if steps_back:
        clock.moment -= timedelta(hours=hours_later)
    assert life("r1", "a", 3, resume=True).status == status
    assert provider.requests == requests
