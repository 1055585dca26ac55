"""A key that is gone is told of and never made anew in silence, since what it hid could not be read any more."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from perdure import SecretUnavailable, tool
from perdure.cli.main import main as command_line
from perdure.core.doctor import Level
from perdure.store.modes import make_private
from tests.integration.canaries import canaries
from tests.integration.engine_support import live, open_engine
from tests.integration.test_doctor import look, of
from tests.integration.trust_support import LEDGER

TOKEN = canaries()[0].text


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """The key of a ledger in which a run has met a secret."""
    live(tmp_path, lambda run: run.memo("token", lambda: TOKEN))
    return tmp_path / "state" / "redaction.key"


def test_no_run_goes_on_without_the_key_and_no_other_is_made(
    tmp_path: Path, key: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[str] = []

    @tool(side_effect_class="external")
    def send() -> str:
        sent.append("sent")
        return TOKEN  # a receipt that could not be stored

    away = key.rename(tmp_path / "away")
    with caplog.at_level(logging.WARNING, logger="perdure"), open_engine(tmp_path) as engine:
        assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
            "the key of this ledger's secrets is gone"
        ]
        for _ in range(2):
            with pytest.raises(SecretUnavailable, match=r"there is no .*redaction\.key"):
                engine.run(lambda _run: send(), run_id="r2")
    assert (sent, key.exists()) == ([], False)
    away.rename(key)
    with open_engine(tmp_path) as engine:
        assert engine.resume("r2", main=lambda _run: send()).result == TOKEN
        assert engine.outcome("r1").result == TOKEN


def test_whoever_looks_sees_marks_where_the_key_is_gone_and_no_program_takes_one_for_a_value(
    tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_run: Any) -> None:
        raise RuntimeError(f"no login: {TOKEN}")

    with open_engine(tmp_path) as engine:
        engine.run(fails, {"password": TOKEN}, run_id="bad")
        engine.run(lambda _run: "words", run_id="plain")
        engine.run(lambda _run: {"token": TOKEN, "pin": 4711.0}, run_id="good")
    away = key.rename(tmp_path / "away")
    here = ["--state-dir", str(tmp_path / "state")]
    for words in (["runs", "ls"], *(["runs", "show", run] for run in ("bad", "plain", "good"))):
        assert command_line([*here, *words]) == 0, words
    printed = capsys.readouterr().out
    assert ("\u2039redacted:" in printed, "words" in printed, TOKEN in printed) == (True, True, False)
    for words in (["runs", "export", "bad"], ["runs", "show", "good", "-o", "json"], ["runs", "watch", "good"]):
        assert command_line([*here, *words]) == 0, words
    with open_engine(tmp_path) as engine:
        assert {row.run_id for row in engine.runs()} == {"r1", "bad", "plain", "good"}
        assert engine.outcome("plain").result == "words"
        assert engine.outcome("bad").status == "failed"
        assert engine.outcome("good", shown=True).result is None
        with pytest.raises(SecretUnavailable):
            engine.outcome("good")
    make_private(key, bytes(32))  # another one
    assert command_line([*here, "runs", "ls"]) == command_line([*here, "runs", "show", "good"]) == 0
    key.unlink()
    away.rename(key)
    with open_engine(tmp_path) as engine:
        assert engine.outcome("good").result == {"token": TOKEN, "pin": 4711.0}


def test_doctor_tells_whether_the_key_is_there(tmp_path: Path, key: Path) -> None:
    assert [item.level for item in of(look(tmp_path), "secrets_key")] == [Level.OK]
    key.unlink()
    gone = look(tmp_path)
    (found,) = of(gone, "secrets_key")
    assert (found.level, gone.exit_code) == (Level.BAD, 1)
    assert str(key) in found.fix
    make_private(key, bytes(32))
    (found,) = of(look(tmp_path), "secrets_key")
    assert (found.level, look(tmp_path).exit_code) == (Level.WARN, 0)


def test_a_key_that_the_ledger_does_not_know_yet_is_made_known_by_the_next_write(tmp_path: Path, key: Path) -> None:
    def forget(store: Any) -> None:
        store.connection.write("DELETE FROM meta WHERE key = 'secrets_key'", {})

    with open_engine(tmp_path) as engine:
        engine._ledger.run(forget)
        assert engine._ledger.read(lambda store: store.meta("secrets_key")) is None
    with open_engine(tmp_path) as engine:
        engine.run(lambda _run: None, run_id="r2")
    with open_engine(tmp_path) as engine:
        assert engine._ledger.read(lambda store: store.meta("secrets_key")) is not None


def test_a_ledger_without_secrets_needs_no_key(tmp_path: Path) -> None:
    assert live(tmp_path, lambda run: "words").status == "succeeded"
    assert not (tmp_path / "state" / "redaction.key").exists()
    assert of(look(tmp_path), "secrets_key") == []
    assert (tmp_path / LEDGER).exists()
