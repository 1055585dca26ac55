"""Secrets: found in no file, on no screen and in no log; and what is sent is what was asked for, in every life."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import CallContext, Engine, Probe, Secret, SecretUnavailable, ToolFailed, tool
from perdure.cli.main import main as command_line
from perdure.core.redact import Redactor
from tests.integration.canaries import Canary, canaries, found_below, found_in
from tests.integration.engine_support import FAST, Crash

ROOT = Path(__file__).resolve().parents[2]


class Provider:
    """What left the process, as it left."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    @property
    def text(self) -> str:
        """All that was received, as one text."""
        return json.dumps(self.got, default=str)


def open_here(folder: Path, environ: dict[str, str] | None = None, **options: Any) -> Engine:
    return Engine(
        f"sqlite:///{folder}/runtime_state.db", state_dir=folder, tuning=FAST, environ=environ or {}, **options
    )


def tools_of(provider: Provider) -> Any:
    @tool(side_effect_class="external")
    def deliver(parcel: Any, note: str = "") -> Any:
        provider.got.append([parcel, note])
        return {"echo": parcel, "note": note}

    return deliver


# --- a hundred of them --------------------------------------------------------------------------------------------


def test_a_hundred_secrets_are_found_nowhere_and_all_of_them_were_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, logger="perdure")
    secrets = canaries()
    values = [secret.value for secret in secrets]
    assert len(set(values)) == 100
    environ = {"SMTP_PASSWORD": "Zw9/declared pass+word", "BUILD_TOKEN": "envonly-4711-abcdef"}
    hidden = [*values, *environ.values()]
    provider = Provider()
    state = tmp_path / "state"
    with open_here(state, environ) as engine:
        run_all_kinds(engine, provider, secrets, environ)
    shown = look_at_everything(state, capsys)
    assert found_below(state, hidden) == []
    assert [value for value in hidden if found_in(shown.encode(), value)] == []
    assert [value for value in hidden if found_in(caplog.text.encode(), value)] == []
    received = provider.text
    assert [
        item.value for item in secrets if item.kind != "basic" and json.dumps(item.value)[1:-1] not in received
    ] == []
    assert environ["SMTP_PASSWORD"] in received


def run_all_kinds(engine: Engine, provider: Provider, secrets: list[Canary], environ: dict[str, str]) -> None:
    deliver = tools_of(provider)
    texts = [secret.text for secret in secrets]
    quarter = [texts[number::4] for number in range(4)]

    def succeeds(run: Any) -> Any:
        deliver(texts, note=texts[0])
        deliver({"headers": {"Authorization": quarter[2]}, "password": texts[1]}, note=environ["BUILD_TOKEN"])
        deliver({"smtp": run.secret("SMTP_PASSWORD"), "nested": [Secret("SMTP_PASSWORD")]})
        run.memo("login", lambda: {"access_token": texts[4], "all": quarter[1]})
        turn = run.turn("loop", lambda messages: answer(quarter[0]), [{"role": "user", "content": "\n".join(texts)}])
        turn.results()
        return {"said": quarter[3]}

    def answer(said: list[str]) -> Any:
        return {"content": said[0], "tool_calls": [{"name": "deliver", "args": {"parcel": said}}]}

    def fails(_run: Any) -> Any:
        try:
            refuse(texts)
        except perdure.CallFailed:
            raise RuntimeError(f"no login: {' '.join(texts)}") from None

    def waits(_run: Any) -> Any:
        lose(texts, texts[5])

    @tool(side_effect_class="external")
    def refuse(parcel: Any) -> Any:
        raise ToolFailed(f"bad credentials: {' '.join(parcel)}", retry=False)

    @tool(side_effect_class="external")
    def lose(parcel: Any, call_note: str) -> Any:
        raise ConnectionError(f"lost with {' '.join(parcel)}")

    inputs = {"texts": texts, "password": texts[1]}
    assert engine.run(succeeds, inputs, run_id="good").status == "succeeded"
    assert engine.run(succeeds, inputs, run_id="good").result == {"said": quarter[3]}
    assert engine.run(fails, inputs, run_id="bad").status == "failed"
    assert engine.run(waits, inputs, run_id="lost").reason == "in_doubt"


def look_at_everything(state: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    here = ["--state-dir", str(state)]
    for arguments in (["runs", "ls"], ["runs", "show", "good"], ["calls", "ls", "good"], ["inbox"]):
        for form in ("table", "json"):
            command_line([*here, *arguments, "-o", form])
    for number in range(1, 7):
        command_line([*here, "calls", "show", f"good.{number}", "-o", "json"])
        command_line([*here, "calls", "explain", f"good.{number}"])
    command_line([*here, "calls", "show", "lost.1"])
    command_line([*here, "calls", "show", "bad.1"])
    printed = capsys.readouterr()
    assert "redacted:" in printed.out
    return printed.out + printed.err


# --- every life sends, and gets, the same ---------------------------------------------------------------------------


def test_a_receipt_with_a_token_in_it_is_the_same_in_every_life(tmp_path: Path) -> None:
    token = canaries()[0].value
    seen: list[Any] = []

    @tool(side_effect_class="read_only")
    def login() -> Any:
        return {"access_token": token, "pin": 4711, "tokens": ["a-1", "b-2"]}

    def main(run: Any) -> Any:
        seen.append(login())
        if len(seen) == 1:
            raise Crash
        return "done"

    with open_here(tmp_path) as engine:
        engine.run(main, run_id="r1")
        assert engine.resume("r1", main=main).replayed == 1
    assert seen[0] == seen[1] == {"access_token": token, "pin": 4711, "tokens": ["a-1", "b-2"]}
    assert found_below(tmp_path, [token]) == []


def test_a_request_with_a_secret_goes_out_again_byte_for_byte_with_its_key(tmp_path: Path) -> None:
    token = canaries()[0].text
    got: list[tuple[str, Any]] = []

    @tool(side_effect_class="external", key_ttl="24h")
    def charge(auth: str, card: Any, *, call: CallContext) -> str:
        got.append((call.idempotency_key, [auth, card]))
        if len(got) == 1:
            raise ConnectionError("the answer was lost")
        return "charged"

    with open_here(tmp_path) as engine:
        done = engine.run(lambda _run: charge(token, {"cvc": 123, "password": 'a"b\\c'}), run_id="r1")
    assert done.result == "charged"
    assert got[0] == got[1]
    assert got[0][1] == [token, {"cvc": 123, "password": 'a"b\\c'}]


def test_text_that_looks_like_a_mark_is_stored_and_sent_as_it_is(tmp_path: Path) -> None:
    provider = Provider()
    deliver = tools_of(provider)
    mark = "\u2039redacted:named:0123456789abcdef:AAAA\u203a"
    seen: list[Any] = []

    def main(_run: Any) -> Any:
        seen.append(deliver({"password": mark}, note=mark))
        if len(seen) == 1:
            raise Crash

    with open_here(tmp_path) as engine:
        engine.run(main, run_id="r1")
        engine.resume("r1", main=main)
    assert seen[0] == seen[1] == {"echo": {"password": mark}, "note": mark}


def test_without_the_key_a_request_is_not_sent_in_another_form(tmp_path: Path) -> None:
    token = canaries()[0].text
    got: list[str] = []

    @tool(side_effect_class="external", key_ttl="24h")
    def charge(auth: str, *, call: CallContext) -> str:
        got.append(auth)
        os._exit(9)

    def main(_run: Any) -> Any:
        return charge(token)

    child = os.fork()
    if child == 0:
        with open_here(tmp_path) as engine:
            engine.run(main, run_id="r1")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    key = (tmp_path / "redaction.key").read_bytes()
    (tmp_path / "redaction.key").unlink()
    with open_here(tmp_path, tools=[charge]) as engine:
        waiting = engine.resume("r1", main=main)
        assert (waiting.status, waiting.reason) == ("waiting", "in_doubt")
        assert "redaction.key" in waiting.waiting_for[0].summary
    assert got == []
    (tmp_path / "redaction.key").write_bytes(key)
    assert found_below(tmp_path, [canaries()[0].value]) == []


# --- declared secrets -----------------------------------------------------------------------------------------------


def test_a_declared_secret_is_stored_by_its_name_and_a_changed_value_is_the_same_call(tmp_path: Path) -> None:
    provider = Provider()
    deliver = tools_of(provider)
    lives: list[int] = []

    def main(run: Any) -> Any:
        deliver({"to": "a", "with": run.secret("SMTP_PASSWORD")})
        lives.append(1)
        if len(lives) == 1:
            raise Crash

    with open_here(tmp_path, {"SMTP_PASSWORD": "first value"}) as engine:
        engine.run(main, run_id="r1")
        assert engine.call("r1.1")["request"] == '{"note":"","parcel":{"to":"a","with":{"$secret":"SMTP_PASSWORD"}}}'
    with open_here(tmp_path, {"SMTP_PASSWORD": "second value"}) as engine:
        assert engine.resume("r1", main=main).replayed == 1
    assert [parcel["with"] for parcel, _ in provider.got] == ["first value"]
    assert found_below(tmp_path, ["first value", "second value"]) == []


def test_a_secret_that_is_not_there_refuses_the_call_and_nothing_is_sent(tmp_path: Path) -> None:
    provider = Provider()
    deliver = tools_of(provider)

    def main(run: Any) -> Any:
        return deliver(run.secret("SMTP_PASSWORD"))

    with open_here(tmp_path) as engine:
        failed = engine.run(main, run_id="r1")
    assert (failed.status, failed.error_code) == ("failed", "CallFailed")
    assert "SMTP_PASSWORD is not there" in str(failed.error_detail)
    assert provider.got == []
    with open_here(tmp_path, {"SMTP_PASSWORD": "there now"}) as engine:
        assert engine.resume("r1", main=main).status == "succeeded"
    assert provider.got == [["there now", ""]]


def test_a_doubt_waits_for_the_secret_that_its_request_needs(tmp_path: Path) -> None:
    got: list[str] = []

    @tool(side_effect_class="external", key_ttl="24h")
    def charge(auth: Any, *, call: CallContext) -> str:
        got.append(auth)
        raise SystemExit(3) if len(got) == 1 else ConnectionError("lost")

    @tool(name="charge", side_effect_class="external", key_ttl="24h")
    def answers(auth: Any, *, call: CallContext) -> str:
        got.append(auth)
        return "charged"

    with open_here(tmp_path, {"CARD_KEY": "value of the key"}) as engine, pytest.raises(SystemExit):
        engine.run(lambda run: charge(run.secret("CARD_KEY")), run_id="r1")
    with open_here(tmp_path) as engine:
        waiting = engine.resume("r1", main=lambda run: answers(run.secret("CARD_KEY")))
        assert waiting.reason == "in_doubt"
        assert "CARD_KEY is not there" in waiting.waiting_for[0].summary
    assert got == ["value of the key"]
    with open_here(tmp_path, {"CARD_KEY": "value of the key"}) as engine:
        assert engine.resume("r1", main=lambda run: answers(run.secret("CARD_KEY"))).result == "charged"
    assert got == ["value of the key", "value of the key"]


def test_secrets_come_from_files_and_commands_and_a_probe_gets_them_too(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("from a file\n")
    asked: list[Any] = []

    @tool(side_effect_class="external", probe_lag=0)
    def send(one: Any, two: Any) -> str:
        asked.append((one, two))
        raise ConnectionError("lost")

    @send.probe
    def find(call: CallContext) -> Probe:
        asked.append((call.args["one"], call.args["two"]))
        return Probe.happened("sent", ref="m1")

    sources = {"ONE": f"file:{tmp_path}/pw", "TWO": "cmd:echo from a command"}
    with open_here(tmp_path / "state", secrets=sources) as engine:
        done = engine.run(lambda run: send(run.secret("ONE"), run.secret("TWO")), run_id="r1")
    assert done.result == "sent"
    assert asked == [("from a file", "from a command")] * 2
    assert found_below(tmp_path / "state", ["from a file", "from a command"]) == []


def test_a_job_declares_where_its_secrets_come_from(tmp_path: Path) -> None:
    (tmp_path / "mailer.py").write_text(
        "from perdure import tool\n"
        "@tool(side_effect_class='external')\n"
        "def send(password):\n"
        "    open('received', 'a').write(password)\n"
        "def main(run):\n"
        "    send(run.secret('SMTP'))\n"
    )
    (tmp_path / "job.yaml").write_text(
        "name: mail\nagent: {python: 'mailer:main'}\nsecrets: {SMTP: 'env:MY_MAIL_PASS'}\n"
    )
    environ = {**os.environ, "MY_MAIL_PASS": "hunter2-the-second", "PYTHONPATH": str(ROOT / "src")}
    command = [
        sys.executable,
        "-m",
        "perdure",
        "--state-dir",
        "state",
        "run",
        "job.yaml",
        "--run-id",
        "m1",
        "-o",
        "json",
    ]
    crash = {"PERDURE_TEST_CRASH_AFTER_TOOL": "send"}
    killed = subprocess.run(
        command, cwd=tmp_path, env={**environ, **crash}, capture_output=True, text=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL or killed.returncode == 137
    assert (tmp_path / "received").read_text() == "hunter2-the-second"
    assert found_below(tmp_path / "state", ["hunter2-the-second"]) == []
    assert found_in((killed.stdout + killed.stderr).encode(), "hunter2-the-second") is None


def test_a_source_that_is_a_value_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(perdure.UsageError) as refused:
        open_here(tmp_path, secrets={"SMTP": "password=hunter2hunter2"})
    assert "hunter2" not in str(refused.value)


def test_a_secret_does_not_show_itself() -> None:
    secret = Secret("SMTP_PASSWORD")
    assert f"{secret} {secret!r}" == "<secret SMTP_PASSWORD> <secret SMTP_PASSWORD>"
    assert secret == Secret("SMTP_PASSWORD")
    with pytest.raises(AttributeError):
        secret.name = "other"
    with pytest.raises(ValueError, match="no name"):
        Secret("a b")


# --- names and hashes -----------------------------------------------------------------------------------------------


def test_a_name_with_a_secret_in_it_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    token = canaries()[0].value
    provider = Provider()
    deliver = tools_of(provider)
    for wrong in (
        lambda run: run.memo(f"login {token}", dict),
        lambda run: run.step(f"login {token}"),
        lambda run: run.call(deliver, "x", dedupe_key=f"d-{token}"),
    ):
        with open_here(tmp_path) as engine:
            failed = engine.run(wrong)
            assert failed.error_code == "UsageError"
    assert found_below(tmp_path, [token]) == []
    assert provider.got == []


def test_a_short_secret_cannot_be_found_by_trying_out_hashes(tmp_path: Path) -> None:
    from perdure.core.identity import args_hash

    provider = Provider()
    deliver = tools_of(provider)
    with open_here(tmp_path) as engine:
        engine.run(lambda _run: deliver({"pin": 4711}), run_id="r1")
        row = engine._ledger.read(lambda store: store.calls.by_id("r1.1"))
        assert row is not None
        assert row.args_hash != args_hash({"parcel": {"pin": 4711}})


def test_redaction_can_be_turned_off(tmp_path: Path) -> None:
    token = canaries()[0].value
    provider = Provider()
    deliver = tools_of(provider)
    with open_here(tmp_path, redaction="off") as engine:
        engine.run(lambda _run: deliver(token), run_id="r1")
    assert found_below(tmp_path, [token]) != []
    with pytest.raises(perdure.UsageError, match="strict or off"):
        open_here(tmp_path, {"PERDURE_REDACTION": "loud"})


def test_a_value_known_to_one_redactor_is_found_in_every_form() -> None:
    redactor = Redactor()
    redactor.know("secret.X", 's3/cr "t')
    for text in ('s3/cr "t', 's3/cr \\"t', "s3%2Fcr%20%22t", "s3%2fcr+%22t", "bTpzMy9jciAidA==", "bWU6czMvY3IgInQ="):
        assert redactor.spans(text), text


def test_the_error_of_a_missing_secret_has_a_code_and_a_next_step() -> None:
    problem = SecretUnavailable("the secret X is not there")
    assert problem.code == "PERDURE-406"
    assert problem.next_command


def test_a_ledger_with_secrets_holds_what_verify_demands(tmp_path: Path) -> None:
    @tool(side_effect_class="external", scope=["account"])
    def pay(account: Any, token: str) -> str:
        return f"paid with {token}"

    with open_here(tmp_path) as engine:
        engine.run(lambda _run: pay({"pin": 4711, "password": "hunter2hunter2"}, canaries()[0].value), run_id="r1")
        assert engine.verify().problems == []
    assert found_below(tmp_path, ["hunter2hunter2", canaries()[0].value]) == []
