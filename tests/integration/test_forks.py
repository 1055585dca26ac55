"""Forks: a new run from an old one's checkpoint, with the old one's receipts and effects of its own (R121, C20)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import apsw
import pytest

from perdure import Engine, Outcome, tool
from perdure.model.errors import (
    CallFailed,
    NotFound,
    SpecError,
    SpecMismatch,
    UsageError,
    VerdictRefused,
)
from perdure.model.run import RunStatus
from tests.integration.engine_support import Crash, Outside, mailer, open_engine
from tests.integration.forks_support import asked, at_step, keys, letters, rows_of


def test_a_fork_inherits_the_receipts_up_to_its_checkpoint_and_sends_nothing(tmp_path: Path) -> None:
    outside = Outside()
    main = letters(outside)
    with open_engine(tmp_path) as engine:
        first = engine.run(main, run_id="p")
        before = list(outside.sent)
        fork = engine.fork("p", at=at_step(engine, "p", 0), main=main, new_run_id="f")
        calls = engine.calls("f")
        with apsw.Connection(str(tmp_path / "state" / "runtime_state.db")) as ledger:
            effects = list(ledger.execute("SELECT run_id, tool_call_id FROM v_effects"))
    assert fork.status is RunStatus.SUCCEEDED and fork.result == first.result
    assert outside.sent[len(before) :] == ["look 1", "look 2"], "reads are done for real, effects are not"
    assert [(call["inherited_from"], call["simulated"]) for call in calls] == [
        *(("p.1", False), ("p.2", False)),
        *((None, False), (None, True), (None, False), (None, True)),
    ]
    assert (fork.inherited, fork.simulated, fork.exit_code) == (2, 2, 0)
    assert "2 call(s) simulated" in fork.note
    assert {run_id for run_id, _ in effects} == {"p"}, "neither a copy nor a simulation is an effect"


def test_a_fork_leaves_every_row_of_its_parent_as_it_was_and_has_keys_of_its_own(tmp_path: Path) -> None:
    outside = Outside()
    main = letters(outside)
    with open_engine(tmp_path) as engine:
        engine.run(main, run_id="p")
        before = rows_of(tmp_path, "p")
        for effects in ("simulate", "live"):
            found = engine.fork("p", at="c2", effects=effects, main=main, new_run_id=f"f-{effects}")
            while found.waiting_for:
                engine.resolve(asked(found), "another")
                found = engine.resume(found.run_id, main=main)
            assert found.status is RunStatus.SUCCEEDED
        assert rows_of(tmp_path, "p") == before
        assert not keys(engine, "p") & (keys(engine, "f-simulate") | keys(engine, "f-live"))
        assert not keys(engine, "f-simulate") & keys(engine, "f-live")
        details = engine.details("p")
    assert details["forks"] == ["f-simulate", "f-live"]
    assert found.origin.parent_run_id == "p" and found.origin.forked_from == "p.c2"


@pytest.mark.parametrize("answer", ["same", "another"])
def test_what_the_parent_did_later_is_asked_about_in_a_live_fork_and_never_adopted(tmp_path: Path, answer: str) -> None:
    outside = Outside()
    main = letters(outside)
    with open_engine(tmp_path) as engine:
        engine.run(main, run_id="p")
        outside.sent.clear()
        fork = engine.fork("p", at=at_step(engine, "p", 1), effects="live", main=main, new_run_id="f")
        assert (fork.status, fork.reason) == ("waiting", "challenge")
        assert "run p, which this one was forked from, already did p.6" in fork.waiting_for[0].summary
        assert outside.sent == ["look 2"], "nothing is sent before a person has answered"
        engine.resolve(asked(fork), answer)
        fork = engine.resume("f", main=main)
    assert fork.status is RunStatus.SUCCEEDED and fork.unmet == 0
    assert outside.count("p2:") == (answer == "another")
    assert fork.result[-1] == ("sent 6" if answer == "same" else "sent 2")


def test_an_effect_in_another_scope_than_any_of_the_parents_is_sent_by_a_live_fork(tmp_path: Path) -> None:
    outside = Outside()
    main = letters(outside)
    with open_engine(tmp_path) as engine:
        engine.run(main, {"more": []}, run_id="p")
        last = at_step(engine, "p", 2)
        outside.sent.clear()
        fork = engine.fork("p", at=last, effects="live", inputs={"more": ["new"]}, main=main, new_run_id="f")
    assert fork.status is RunStatus.SUCCEEDED
    assert outside.sent == ["new:"]


def test_a_call_that_its_parent_has_in_doubt_is_asked_about_and_cannot_be_called_the_same(tmp_path: Path) -> None:
    outside = Outside()
    loses = [True]

    @tool(name="send", side_effect_class="external", scope=["to"])
    def send(to: str) -> str:
        outside.sent.append(to)
        if loses:
            raise ConnectionError("no answer")
        return "sent"

    def main(run: Any) -> Any:
        run.checkpoint()
        return send("a")

    with open_engine(tmp_path) as engine:
        assert engine.run(main, run_id="p").reason == "in_doubt"
        loses.clear()
        fork = engine.fork("p", at="c1", effects="live", main=main, new_run_id="f")
        assert (fork.status, fork.reason) == ("waiting", "challenge")
        assert "in_doubt there" in fork.waiting_for[0].summary
        with pytest.raises(VerdictRefused, match=r"p\.1 is in_doubt itself"):
            engine.resolve(asked(fork), "same")
        engine.resolve("p.1", "happened", result="sent before")
        engine.resolve(asked(fork), "same")
        fork = engine.resume("f", main=main)
    assert (fork.status, fork.result) == ("succeeded", "sent before")
    assert outside.sent == ["a"]


def test_the_call_that_ended_a_failed_run_is_tried_again_by_its_fork_even_if_a_checkpoint_follows_it(
    tmp_path: Path,
) -> None:
    broken = [True]

    @tool(side_effect_class="read_only")
    def look() -> str:
        if broken:
            raise Crash("not found")
        return "found"

    def main(run: Any) -> str:
        try:
            return look()
        except CallFailed:
            run.checkpoint()
            raise

    with open_engine(tmp_path) as engine:
        assert engine.run(main, run_id="p").status is RunStatus.FAILED
        broken.clear()
        assert engine.fork("p", main=main).result == "found"


@pytest.mark.parametrize("kind", ["step_boundary", "pre_side_effect", "start"])
def test_a_run_is_forked_at_each_kind_of_checkpoint(tmp_path: Path, kind: str) -> None:
    outside = Outside()
    main = letters(outside)
    with open_engine(tmp_path) as engine:
        whole = engine.run(main, run_id="p")
        checkpoints = engine.details("p")["checkpoints"]
        for item in [item for item in checkpoints if item["kind"] == kind] or [{"checkpoint_id": "start"}]:
            fork = engine.fork("p", at=item["checkpoint_id"], main=main)
            assert (fork.status, fork.result) == ("succeeded", whole.result)
            assert fork.inherited + fork.simulated >= 3
    assert [line for line in outside.sent if line.startswith("p")] == ["p0:", "p1:", "p2:"]


def test_a_waiting_run_is_forked_as_well_as_a_fork(tmp_path: Path) -> None:
    outside = Outside()
    stop = [True]
    letter = letters(outside)

    def main(run: Any) -> Any:
        found = letter(run)
        if stop:
            raise Crash("stopped here")
        return found

    with open_engine(tmp_path) as engine:
        assert engine.run(main, run_id="p").status is RunStatus.FAILED
        stop.clear()
        fork = engine.fork("p", at=at_step(engine, "p", 0), main=main, new_run_id="f")
        assert fork.status is RunStatus.SUCCEEDED
        again = engine.fork("f", at=at_step(engine, "f", 0), main=main, new_run_id="g")
        calls = engine.calls("g")
    assert again.result == fork.result
    assert [call["inherited_from"] for call in calls[:2]] == ["p.1", "p.2"], "where it really happened"
    assert [call["simulated"] for call in calls if call["tool_name"] == "send"] == [False, True, True]


def test_changed_inputs_make_another_specification_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    outside = Outside()
    main = letters(outside)
    with open_engine(tmp_path) as engine:
        engine.run(main, {"more": []}, run_id="p")
        plain = engine.fork("p", main=main)
        other = engine.fork("p", inputs={"more": ["p0"]}, main=main)
        hashes = {row.run_id: row.spec_hash for row in engine.runs()}
        with pytest.raises(SpecError, match="has no input 'mroe'; it has: more"):
            engine.fork("p", inputs={"mroe": 1}, main=main)
    assert hashes[plain.run_id] == hashes["p"] != hashes[other.run_id]


def test_the_same_fork_under_the_same_id_is_found_again_and_another_one_is_refused(tmp_path: Path) -> None:
    outside = Outside()
    main = letters(outside)
    with open_engine(tmp_path) as engine:
        engine.run(main, run_id="p")
        first = engine.fork("p", at="c2", main=main, new_run_id="f")
        again = engine.fork("p", at="c2", main=main, new_run_id="f")
        assert again.result == first.result and again.attempt == first.attempt
        for wrong in ({"at": "c3"}, {"at": "c2", "effects": "live"}):
            with pytest.raises(SpecMismatch, match="is not this fork"):
                engine.fork("p", main=main, new_run_id="f", **wrong)
        with pytest.raises(SpecMismatch):
            engine.fork("f", main=main, new_run_id="p")
        with pytest.raises(NotFound, match="no checkpoint 'c99'"):
            engine.fork("p", at="c99", main=main)
        with pytest.raises(NotFound, match="no checkpoint"):
            engine.fork("p", at="f.c1", main=main)
        with pytest.raises(UsageError, match="simulate, live"):
            engine.fork("p", effects="maybe", main=main)


def test_a_fork_begins_with_the_recorded_files_that_still_are_what_was_recorded(tmp_path: Path) -> None:
    made: list[str] = []

    @tool(side_effect_class="local")
    def write(name: str, *, call: Any) -> dict[str, str]:
        made.append(name)
        (call.workspace / name).write_text(f"text of {name}")
        return {"path": name, "sha256": hashlib.sha256(f"text of {name}".encode()).hexdigest()}

    def main(run: Any) -> list[str]:
        for name in ("kept.txt", "changed.txt", "gone.txt"):
            write(name)
        run.checkpoint()
        (run.workspace / "by hand.txt").write_text("nobody recorded this")
        write("later.txt")
        return sorted(path.name for path in run.workspace.iterdir())

    with open_engine(tmp_path) as engine:
        place = Path(engine.run(main, run_id="p").workspace)
        (place / "changed.txt").write_text("other bytes")
        (place / "gone.txt").unlink()
        made.clear()
        with pytest.warns(RuntimeWarning, match="the fork begins without (changed|gone).txt"):
            fork = engine.fork("p", main=main)
        own = Path(fork.workspace)
    assert own != place
    assert made == ["changed.txt", "gone.txt", "later.txt"], (
        "what the copy lacks is made again, in the fork's own folder"
    )
    assert (own / "kept.txt").read_text() == "text of kept.txt"
    assert (place / "changed.txt").read_text() == "other bytes"


def test_a_models_turns_are_inherited_with_their_calls_and_the_model_is_asked_only_what_is_new(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside, scope=["to"])
    heard: list[int] = []

    def model(messages: list[Any]) -> Any:
        heard.append(len(messages))
        said = sum(1 for item in messages if item.get("role") == "tool")
        if said < 2:
            return {"content": "", "tool_calls": [{"name": "send", "args": {"to": f"p{said}"}}]}
        return "done"

    def main(run: Any) -> Any:
        messages: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            turn = run.turn("chat", model, messages, tools=[send])
            messages += turn.messages
            if not turn.calls:
                return [turn.text, json.dumps(messages)]
            messages += turn.results()
            run.checkpoint()

    with open_engine(tmp_path) as engine:
        whole = engine.run(main, run_id="p")
        ends = at_step(engine, "p", 0)
        heard.clear()
        outside.sent.clear()
        fork = engine.fork("p", at=ends, main=main, new_run_id="f")
        inner = engine.calls("f", inner=True)
    assert fork.status is RunStatus.SUCCEEDED
    assert heard == [3, 5], "the first answer is inherited; the second and the third are asked for anew"
    assert outside.sent == []
    assert fork.result[0] == whole.result[0]
    assert [call["inherited_from"] for call in inner[:2]] == ["p.1", "p.2"]
    assert {call["run_id"] for call in inner} == {"f"}


def test_an_async_run_is_forked_inside_its_loop(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(side_effect_class="external", scope=["to"])
    async def send(to: str) -> str:
        sent.append(to)
        return f"sent {to}"

    async def main(run: Any) -> list[str]:
        first = await send("a")
        await run.checkpoint()
        return [first, await send("b")]

    async def all_three(engine: Engine) -> tuple[Outcome, Outcome, Outcome]:
        return (
            await engine.arun(main, run_id="p"),
            await engine.afork("p", main=main, new_run_id="f"),
            await engine.afork("p", effects="live", main=main, new_run_id="g"),
        )

    with open_engine(tmp_path) as engine:
        whole, fork, live = asyncio.run(all_three(engine))
    assert fork.result == whole.result and (fork.inherited, fork.simulated) == (1, 1)
    assert (live.status, live.reason) == ("waiting", "challenge")
    assert sent == ["a", "b"]
