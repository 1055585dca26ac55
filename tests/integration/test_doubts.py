"""Calls whose outcome was lost in the life that sent them: each attempt is asked about anew."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import CallContext, CallFailed, Engine, Outcome, Probe, ToolFailed, VerdictRefused, tool
from perdure.ports.clock import format_time
from perdure.ports.tool import Tool
from tests.integration.engine_support import FAST, live, open_engine


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

    def open_ledger(*tools: Any) -> Engine:
        return Engine(f"sqlite:///{tmp_path}/ledger.db", state_dir=tmp_path, tools=tools, clock=clock, tuning=FAST)

    def payment(attempts: int) -> Any:
        @tool(name="pay", side_effect_class="external", scope=["to"], key_ttl="1h", max_attempts=attempts)
        def pay(to: str, *, call: CallContext) -> str:
            return provider.send(call.idempotency_key)

        return pay

    def life(run_id: str, to: str, attempts: int, *, resume: bool = False) -> Outcome:
        pay = payment(attempts)

        def main(run: Any) -> str:
            return "" if to == "nobody" else str(pay(to))

        with open_ledger() as engine:
            return engine.resume(run_id, main=main) if resume else engine.run(main, run_id=run_id)

    assert life("r1", "a", 1).reason == "in_doubt"
    clock.moment += timedelta(hours=hours_later)
    if seen_by == "another run":
        assert life("r2", "nobody", 1).status == "succeeded"
    else:
        assert life("r1", "a", 1, resume=True).reason == "in_doubt"
    if steps_back:
        clock.moment -= timedelta(hours=hours_later)
    unknown = steps_back and hours_later > 0  # how long ago it was sent cannot be told any more: a person is asked
    with open_ledger(payment(3)) as engine:
        (told,) = engine.forecast("r1")["calls"]
    assert told["then"] == ("person_asked" if unknown or requests == 1 else "sent_again")
    assert life("r1", "a", 3, resume=True).status == ("waiting" if unknown else status)
    assert provider.requests == (1 if unknown else requests)


@pytest.mark.parametrize("lost_first", [True, False])
def test_a_refusal_of_a_later_request_says_nothing_of_the_one_whose_answer_was_lost(
    tmp_path: Path, lost_first: bool
) -> None:
    """The provider did it, the answer was lost, and the same key is then turned away at its door: that is no "not done"."""
    requests: list[str] = []

    @tool(side_effect_class="external", scope=["card"], key_ttl="24h", max_attempts=3)
    def charge(card: str, *, call: CallContext) -> str:
        requests.append(card)
        if card == "A" and (len(requests) > 1 or not lost_first):
            raise ToolFailed("503: come again later")
        if card == "A":
            raise ConnectionResetError("charged, and the answer was lost")
        return "charged"

    def main(run: Any) -> str:
        try:
            return charge("A")
        except CallFailed:
            return charge("B")

    outcome = live(tmp_path, main)
    if lost_first:
        assert (outcome.status, outcome.reason, requests) == ("waiting", "in_doubt", ["A"] * 3)
    else:
        assert (outcome.result, requests) == ("charged", ["A", "A", "A", "B"])


def test_a_late_tool_failed_of_a_sender_past_its_timeout_is_its_outcome(tmp_path: Path) -> None:
    requests: list[int] = []

    @tool(side_effect_class="external", timeout="20ms", max_attempts=2)
    def send() -> str:
        requests.append(1)
        if len(requests) == 1:
            with open_engine(tmp_path) as beside:
                while beside.calls("r1")[0]["status"] != "in_doubt":
                    time.sleep(0.005)
            raise ToolFailed("it was refused, slowly")
        return "sent"

    outcome = live(tmp_path, lambda run: send(), tuning=replace(FAST, sender_grace_seconds=600))
    assert (outcome.result, len(requests)) == ("sent", 2)


def test_what_a_sender_brings_back_after_its_life_has_ended_settles_the_call(tmp_path: Path) -> None:
    """Nobody has to be asked about what the process itself has heard since."""
    may_return = threading.Event()
    requests: list[int] = []

    @tool(side_effect_class="external", timeout="20ms")
    def send() -> str:
        requests.append(1)
        may_return.wait(600)
        return "sent late"

    with open_engine(tmp_path) as engine:
        waiting = engine.run(lambda run: send(), run_id="r1")
        assert (waiting.reason, len(engine.inbox())) == ("in_doubt", 1)
        with pytest.raises(VerdictRefused):
            engine.resolve("r1.1", "did_not_happen")
        may_return.set()
        while engine.inbox():
            time.sleep(0.01)
        assert engine.outcome("r1").status == "queued"
        assert engine.resume("r1", main=lambda run: send()).result == "sent late"
    assert len(requests) == 1


def test_the_newest_time_of_the_ledger_may_stand_in_a_call_of_a_process_that_was_killed(tmp_path: Path) -> None:
    """The clock jumped ahead inside a life; only the calls of that life tell, and it has never ended."""
    provider = Provider([True])
    clock = SetClock()

    @tool(name="pay", side_effect_class="external", key_ttl="1h")
    def pay(*, call: CallContext) -> str:
        return provider.send(call.idempotency_key)

    @tool(name="look", side_effect_class="read_only")
    def look(crash: bool) -> None:
        if crash:
            os._exit(9)

    def jump(run: Any) -> None:
        clock.moment += timedelta(hours=1.1)
        look(crash=False)
        look(crash=True)

    def engine(attempts: int) -> Engine:
        rules = tmp_path / f"{attempts}.policy.yaml"
        rules.write_text(f"version: 1\nrules:\n  - {{tool: pay, max_attempts: {attempts}}}\n")
        url = f"sqlite:///{tmp_path}/ledger.db"
        return Engine(url, state_dir=tmp_path, clock=clock, tuning=FAST, policies=[rules])

    with engine(1) as first:
        assert first.run(lambda run: pay(), run_id="r1").reason == "in_doubt"
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException), engine(1) as other:
            other.run(jump, run_id="r2")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    with engine(5) as later:
        assert later.resume("r1", main=lambda run: pay()).reason == "in_doubt"
    assert provider.requests == 1
