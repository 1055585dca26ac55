"""Probes: what counts as evidence, and when a probe may be asked at all (R6, semantics #8, #29)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from perdure import Probe, tool
from tests.integration.engine_support import live, statuses


def test_a_probe_that_finds_the_effect_of_an_equal_call_is_no_evidence(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(name="remind", side_effect_class="external", scope=["to"], probe_lag="0s")
    def remind(to: str) -> str:
        if len(sent) == 1:
            raise ConnectionResetError("before anything left")
        sent.append(to)
        return "no reference in here"

    @remind.probe
    def find(call: Any) -> Probe:
        return Probe.happened(ref="p1") if sent else Probe.not_happened(complete=True)

    waiting = live(tmp_path, lambda run: [remind("x") for _ in range(3)])
    assert (waiting.status, waiting.reason) == ("waiting", "in_doubt")
    assert statuses(tmp_path) == {"r1.1": "succeeded", "r1.2": "in_doubt"}


def test_a_probe_by_key_tells_equal_calls_apart_unattended(tmp_path: Path) -> None:
    sent: dict[str, str] = {}
    tries: list[int] = []

    @tool(name="remind", side_effect_class="external", scope=["to"], probe_lag="0s")
    def remind(to: str, *, call: Any) -> str:
        tries.append(1)
        sent[call.idempotency_key] = f"p{len(sent) + 1}"
        if len(tries) == 2:
            raise ConnectionResetError("the reply was lost")
        return "no reference in here"

    @remind.probe
    def find(call: Any) -> Probe:
        ref = sent.get(call.idempotency_key)
        return Probe.happened(ref=ref) if ref else Probe.not_happened(complete=True)

    done = live(tmp_path, lambda run: len([remind("x") for _ in range(3)]))
    assert (done.status, done.result, len(sent), len(tries)) == ("succeeded", 3, 3, 3)


def test_a_no_that_is_believed_sends_again_and_an_incomplete_one_asks(tmp_path: Path) -> None:
    tries: list[int] = []

    def make(complete: bool) -> Any:
        @tool(name="send", side_effect_class="external", probe_lag="0s")
        def send() -> str:
            tries.append(1)
            if len(tries) == 1:
                raise ConnectionResetError
            return "sent"

        @send.probe
        def find(call: Any) -> Probe:
            return Probe.not_happened(complete=complete)

        return send

    asked = make(complete=False)
    assert live(tmp_path / "a", lambda run: asked()).reason == "in_doubt"
    assert len(tries) == 1
    tries.clear()
    sure = make(complete=True)
    assert live(tmp_path / "b", lambda run: sure()).result == "sent"
    assert len(tries) == 2


def test_no_probe_is_asked_while_another_call_of_the_tool_is_being_sent(tmp_path: Path) -> None:
    log: list[str] = []

    async def main(run: Any) -> list[str]:
        return await asyncio.gather(send("lost"), send("slow"))

    @tool(name="send", side_effect_class="external", probe_lag="0s")
    async def send(what: str) -> str:
        if what == "lost":
            await asyncio.sleep(0.01)
            log.append("lost")
            raise ConnectionResetError
        await asyncio.sleep(0.2)
        log.append("slow sent")
        return what

    @send.probe
    async def find(call: Any) -> Probe:
        log.append("probe")
        return Probe.happened("found", ref=call.idempotency_key)

    done = live(tmp_path, main)
    assert done.result == ["found", "slow"]
    assert log[:3] == ["lost", "slow sent", "probe"]


def test_a_probe_that_raises_or_answers_nonsense_is_unknown(tmp_path: Path) -> None:
    for n, answer in enumerate((RuntimeError("imap is down"), "yes")):

        @tool(name="send", side_effect_class="external", probe_lag="0s")
        def send() -> None:
            raise ConnectionResetError

        @send.probe
        def find(call: Any, answer: Any = answer) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        assert live(tmp_path / str(n), lambda run, send=send: send()).reason == "in_doubt"


def test_the_probe_lag_of_the_tool_binds_a_person_too(tmp_path: Path) -> None:
    import pytest

    from perdure import VerdictRefused
    from tests.integration.engine_support import open_engine

    for lag, refused in (("0s", False), ("5m", True)):

        @tool(name="send", side_effect_class="external", probe_lag=lag)
        def send() -> None:
            raise ConnectionResetError

        @send.probe
        def find(call: Any) -> Probe:
            return Probe.unknown("cannot tell")

        folder = tmp_path / lag
        live(folder, lambda run, send=send: send())
        with open_engine(folder) as engine:
            if refused:
                with pytest.raises(VerdictRefused, match="wait 300 s"):
                    engine.resolve("r1.1", "did_not_happen")
            else:
                assert engine.resolve("r1.1", "did_not_happen").status == "prepared"


def test_a_no_is_not_believed_while_a_child_that_the_tool_started_lives(tmp_path: Path) -> None:
    import subprocess
    import sys

    landed = tmp_path / "landed"
    landed.touch()
    late = "import sys, time; time.sleep(0.7); open(sys.argv[1], 'a').write('x')"
    children: list[Any] = []

    @tool(name="send", side_effect_class="external", scope=["to"], probe_lag=0, max_attempts=2)
    def send(to: str) -> str:
        children.append(subprocess.Popen([sys.executable, "-c", late, str(landed)]))
        if len(children) == 1:
            raise ConnectionResetError("the answer was lost, the child goes on")
        return "sent again"

    @send.probe
    def find(call: Any) -> Probe:
        return Probe.happened("found", ref="1") if landed.read_text() else Probe.not_happened(complete=True)

    waiting = live(tmp_path, lambda run: send("a"))
    for child in children:
        child.wait()
    assert (waiting.reason, landed.read_text()) == ("in_doubt", "x")
    assert live(tmp_path, lambda run: send("a"), resume=True).result == "found"
    assert len(children) == 1


def test_while_one_effect_is_in_doubt_no_other_of_the_run_is_started(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(name="lose", side_effect_class="external")
    async def lose() -> None:
        raise ConnectionResetError

    @tool(name="send", side_effect_class="external")
    async def send() -> str:
        sent.append("another tool, another person")
        return "sent"

    async def main(run: Any) -> None:
        doubt = asyncio.create_task(run.call(lose))
        while not run_is_in_doubt(run):
            await asyncio.sleep(0)
        await asyncio.gather(doubt, send())

    def run_is_in_doubt(run: Any) -> bool:
        return any(
            row.status == "in_doubt" for row in run._life.ledger.read(lambda store: store.calls.open(run.run_id))
        )

    waiting = live(tmp_path, main)
    assert (waiting.reason, sent) == ("in_doubt", [])
