"""A run that stays and waits for a person, sync and async: the answer comes from another process's engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Outcome, tool
from tests.integration.engine_support import open_engine


def answer_when_asked(folder: Path, answer: Callable[[Any, Any], None], stop: threading.Event) -> None:
    with open_engine(folder) as engine:
        while not stop.is_set():
            for _, item in engine.inbox():
                answer(engine, item)
                return
            stop.wait(0.01)


def run_waiting(folder: Path, main: Any, answer: Callable[[Any, Any], None], **options: Any) -> Outcome:
    stop = threading.Event()
    person = threading.Thread(target=answer_when_asked, args=(folder, answer, stop))
    with open_engine(folder, **options) as engine:
        person.start()
        try:
            return engine.run(main, run_id="r1", wait=True)
        finally:
            stop.set()
            person.join()


def _tries_then(value: str) -> tuple[list[int], Any, Any]:
    tries: list[int] = []

    @tool(name="send", side_effect_class="external")
    def send() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionResetError
        return value

    def main(run: Any) -> Any:
        return send()

    async def amain(run: Any) -> Any:
        return await run.call(send)

    return tries, main, amain


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_waiting_call_returns_when_a_person_says_it_happened(tmp_path: Path, form: str) -> None:
    tries, main, amain = _tries_then("never")
    done = run_waiting(
        tmp_path,
        main if form == "sync" else amain,
        lambda engine, item: engine.resolve(item.tool_call_id, "happened", result="seen in the sent folder"),
    )
    assert (done.status, done.result, len(tries), done.attempt) == ("succeeded", "seen in the sent folder", 1, 1)


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_waiting_call_is_sent_again_in_the_same_life_when_it_did_not_happen(tmp_path: Path, form: str) -> None:
    tries, main, amain = _tries_then("second")
    done = run_waiting(
        tmp_path,
        main if form == "sync" else amain,
        lambda engine, item: engine.resolve(item.tool_call_id, "did_not_happen", force=True),
    )
    assert (done.status, done.result, len(tries), done.attempt) == ("succeeded", "second", 2, 1)


def test_while_the_sender_lives_did_not_happen_is_refused(tmp_path: Path) -> None:
    from perdure import VerdictRefused

    tries, main, _ = _tries_then("second")
    refused: list[str] = []

    def answer(engine: Any, item: Any) -> None:
        with pytest.raises(VerdictRefused) as caught:
            engine.resolve(item.tool_call_id, "did_not_happen")
        refused.append(str(caught.value))
        engine.resolve(item.tool_call_id, "happened", result=1)

    run_waiting(tmp_path, main, answer)
    assert "is alive" in refused[0]
    assert len(tries) == 1


def test_approval_is_waited_for(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(name="send", side_effect_class="external")
    def send(to: str) -> str:
        sent.append(to)
        return "ok"

    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\nrules:\n  - tool: send\n    approval: always\n")
    started = time.monotonic()
    done = run_waiting(tmp_path, lambda run: send("a"), lambda engine, item: engine.approve(item.id), policies=[policy])
    assert (done.status, sent) == ("succeeded", ["a"])
    assert time.monotonic() - started < 5
