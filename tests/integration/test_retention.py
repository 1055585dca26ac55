"""Retention: bodies go, and with them nothing that keeps an effect from being done twice."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Engine, UsageError, tool
from perdure.cli.main import main as command_line
from perdure.testing import FakeClock
from tests.integration.canaries import canaries
from tests.integration.engine_support import FAST, Outside, mailer

WORDS = "a body that nobody else has written"
LARGE = WORDS * 1000


def open_at(folder: Path, clock: Any = None) -> Engine:
    return Engine(f"sqlite:///{folder}/runtime_state.db", state_dir=folder, tuning=FAST, environ={}, clock=clock)


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("runtime_state.db*")))


def old_runs(folder: Path) -> Outside:
    """Leave runs of every kind behind: done, failed, in doubt, with a dedupe key."""
    outside = Outside()
    send = mailer(outside, scope=["to"])

    @tool(side_effect_class="external")
    def lose(body: str) -> str:
        raise ConnectionError(body)

    def good(run: Any) -> str:
        send("a", WORDS)
        send("b", LARGE)
        run.memo("draft", lambda: WORDS)
        run.checkpoint()
        return "kept"

    def bad(_run: Any) -> None:
        send("c", WORDS)
        raise ValueError(WORDS)

    with open_at(folder) as engine:
        engine.run(good, {"topic": WORDS}, run_id="good")
        engine.run(bad, run_id="bad")
        engine.run(lambda _run: lose("doubtful body"), run_id="doubt")
        engine.run(lambda run: run.call(send, "d", "keyed body", dedupe_key="k1"), run_id="keyed")
    return outside


def test_bodies_go_and_outcomes_keys_and_hashes_stay(tmp_path: Path) -> None:
    old_runs(tmp_path)
    with open_at(tmp_path) as engine:
        before = engine.calls("good", inner=True)
        told = engine.prune(older_than=0, dry_run=True)
        assert told.runs == ("good", "bad", "keyed")
        assert WORDS.encode() in bytes_of(tmp_path)
        done = engine.prune(older_than=0)
        assert done.runs == ("good", "bad", "keyed")
        assert done.bytes > len(LARGE)
        assert done.log_emptied
        assert engine.calls("good", inner=True) == before
        outcome = engine.outcome("good")
        assert (outcome.status, outcome.result) == ("succeeded", "kept")
        assert "removed at" in outcome.note
        assert engine.call("good.1")["request"] == '{"pruned": true}'
        assert engine.verify().problems == []
        assert engine.prune(older_than=0).runs == ()
    assert WORDS.encode() not in bytes_of(tmp_path)


def test_what_a_row_held_before_it_grew_is_gone_too(tmp_path: Path) -> None:
    send = mailer(Outside(), scope=["to"])

    def main(run: Any) -> None:
        for number, length in enumerate((0, 200, 3000, 9000)):
            send(f"{run.run_id}.{number}", WORDS + "." * length)
            run.checkpoint()

    with open_at(tmp_path) as engine:
        for number, length in enumerate((0, 900, 5000, 15_000, 20_000)):
            engine.run(main, {"topic": WORDS + "." * length}, run_id=f"r{number}")
        assert len(engine.prune(older_than=0).runs) == 5
    assert WORDS.encode() not in bytes_of(tmp_path)


def test_what_a_dedupe_key_or_a_doubt_needs_is_kept(tmp_path: Path) -> None:
    outside = old_runs(tmp_path)
    send = mailer(outside, scope=["to"])
    with open_at(tmp_path) as engine:
        engine.prune(older_than=0)
        assert "doubtful body" in engine.call("doubt.1")["request"]
        sent = len(outside.sent)
        again = engine.run(lambda run: run.call(send, "d", "keyed body", dedupe_key="k1"), run_id="keyed-2")
        assert again.result == "sent 4"
        assert len(outside.sent) == sent


def test_a_run_that_ended_with_a_call_in_doubt_keeps_its_bodies(tmp_path: Path) -> None:
    old_runs(tmp_path)
    with open_at(tmp_path) as engine:
        engine.cancel("doubt")
        kept = dict(engine.prune(older_than=0).kept)
        assert kept == {"doubt": "a call of it is not settled"}
        assert "doubtful body" in engine.call("doubt.1")["request"]
        engine.resolve("doubt.1", "abandon")
        assert engine.prune(older_than=0).runs == ("doubt",)


def test_a_failed_run_without_its_bodies_is_not_resumed(tmp_path: Path) -> None:
    outside = old_runs(tmp_path)
    sent = list(outside.sent)
    with open_at(tmp_path) as engine:
        engine.prune(older_than=0)
        with pytest.raises(perdure.StoreError, match="were removed at") as refused:
            engine.resume("bad", main=lambda run: None)
        assert refused.value.code == "PERDURE-407"
        assert engine.run(lambda run: None, {"topic": "other"}, run_id="new").status == "succeeded"
    assert outside.sent == sent


def test_the_same_id_again_tells_the_outcome(tmp_path: Path) -> None:
    outside = Outside()
    send = mailer(outside)

    def main(_run: Any) -> str:
        return str(send("a"))

    with open_at(tmp_path) as engine:
        engine.run(main, {"topic": "x"}, run_id="r1")
        engine.prune(older_than=0)
        again = engine.run(main, {"topic": "x"}, run_id="r1")
        assert (again.status, again.result) == ("succeeded", "sent 1")
    assert outside.sent == ["a:"]


def test_only_what_ended_long_ago_is_touched(tmp_path: Path) -> None:
    clock = FakeClock()
    with open_at(tmp_path, clock) as engine:
        engine.run(lambda _run: "x", run_id="old")
        clock.advance(40 * 86_400)
        engine.run(lambda _run: "y", run_id="new")
        assert engine.prune(older_than="30d").runs == ("old",)
        with pytest.raises(UsageError, match="older_than"):
            engine.prune(older_than="a while")


def test_pruning_that_is_killed_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    old_runs(tmp_path / "as-it-was")
    points = 0
    for point in range(1, 200, 4):
        folder = tmp_path / str(point)
        shutil.copytree(tmp_path / "as-it-was", folder)
        child = os.fork()
        if child == 0:
            _prune_until(folder, point)
        died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 137
        with open_at(folder) as engine:
            if died:
                assert engine.verify().problems == []
            engine.prune(older_than=0)
            assert engine.verify().problems == []
            assert engine.outcome("good").result == "kept"
        assert WORDS.encode() not in bytes_of(folder)
        points += died
        if not died:
            break
    assert points > 10


def _prune_until(folder: Path, point: int) -> None:
    environ = {"PERDURE_TEST_CRASH_AT_POINT": str(point)}
    engine = Engine(f"sqlite:///{folder}/runtime_state.db", state_dir=folder, tuning=FAST, environ=environ)
    engine.prune(older_than=0)
    os._exit(0)


def test_a_body_that_two_runs_share_goes_with_the_last_of_them(tmp_path: Path) -> None:
    clock = FakeClock()
    outside = Outside()
    send = mailer(outside)
    with open_at(tmp_path, clock) as engine:
        engine.run(lambda _run: send("a", LARGE), run_id="old")
        clock.advance(40 * 86_400)
        engine.run(lambda _run: send("a", LARGE), run_id="new")
        engine.prune(older_than="30d")
        assert WORDS in engine.call("new.1")["request"]
        engine.prune(older_than=0)
        assert engine.verify().problems == []
    assert WORDS.encode() not in bytes_of(tmp_path)


def test_evidence_still_cannot_be_changed_by_hand(tmp_path: Path) -> None:
    old_runs(tmp_path)
    statements = (
        "UPDATE evidence SET says = 'done'",
        "UPDATE evidence SET detail = NULL",
        "UPDATE runs SET run_spec_json = '{}'",
        "DELETE FROM evidence",
    )
    child = os.fork()
    if child == 0:
        refused = 0
        connection = sqlite3.connect(tmp_path / "runtime_state.db")
        for statement in statements:
            try:
                connection.execute(statement)
            except sqlite3.DatabaseError as problem:
                refused += "append-only" in str(problem) or "immutable" in str(problem)
            connection.rollback()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(statements)


def test_the_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old_runs(tmp_path)
    (tmp_path / "workspaces" / "good" / "page.txt").write_text("x")
    here = ["--state-dir", str(tmp_path)]
    assert command_line([*here, "db", "prune", "--older-than", "0s", "--workspaces", "--vacuum", "-o", "json"]) == 0
    told = capsys.readouterr().out
    assert '"schema": "perdure.db_prune/v1"' in told
    assert '"shrunk": true' in told
    assert not (tmp_path / "workspaces" / "good").exists()
    assert command_line([*here, "db", "prune", "--older-than", "soon"]) == 2
    assert command_line([*here, "verify"]) == 0


def test_secrets_of_a_result_that_is_kept_are_gone_for_good(tmp_path: Path) -> None:
    token = canaries()[0].value
    with open_at(tmp_path) as engine:
        engine.run(lambda _run: {"token": token, "n": 1}, run_id="r1")
        assert engine.outcome("r1").result == {"token": token, "n": 1}
        engine.prune(older_than=0)
        left = engine.outcome("r1").result
    assert left["n"] == 1
    assert token not in str(left)
    assert "redacted:" in left["token"]


def test_older_copies_are_named_where_the_ledger_is_and_not_where_the_workspaces_are(tmp_path: Path) -> None:
    with Engine(f"sqlite:///{tmp_path}/ledger/l.db", state_dir=tmp_path / "state", tuning=FAST, environ={}) as engine:
        copy = tmp_path / "ledger" / "l.db.before-0003"
        copy.write_bytes(b"what the ledger held before")
        assert engine.prune(older_than=0, dry_run=True).copies == (copy,)
