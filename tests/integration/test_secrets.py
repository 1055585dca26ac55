"""Secrets: found in no file, on no screen and in no log; and what is sent is what was asked for, in every life."""

from __future__ import annotations

import json
import logging
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import CallContext, Engine, Secret, SecretUnavailable, ToolFailed, tool
from perdure.cli.main import main as command_line
from perdure.core.identity import args_hash, request_hash
from perdure.core.redact import Redactor
from perdure.store.modes import make_private
from tests.integration.canaries import Canary, canaries, found_below, found_in
from tests.integration.engine_support import Crash
from tests.integration.secrets_support import Provider, open_here, tools_of

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
        with pytest.raises(SecretUnavailable, match=r"redaction\.key"):
            engine.resume("r1", main=main)
        assert not (tmp_path / "redaction.key").exists()
    make_private(tmp_path / "redaction.key", bytes(32))  # another one
    with open_here(tmp_path, tools=[charge]) as engine:
        waiting = engine.resume("r1", main=main)
        assert (waiting.status, waiting.reason) == ("waiting", "in_doubt")
        assert "redaction.key" in waiting.waiting_for[0].summary
    assert got == []
    (tmp_path / "redaction.key").write_bytes(key)
    assert found_below(tmp_path, [canaries()[0].value]) == []


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
    provider = Provider()
    deliver = tools_of(provider)
    with open_here(tmp_path) as engine:
        engine.run(lambda _run: deliver({"pin": 4711}), run_id="r1")
        row = engine._ledger.read(lambda store: store.calls.by_id("r1.1"))
        assert row is not None
        assert row.args_hash != args_hash({"parcel": {"pin": 4711}})


def test_consent_to_a_short_secret_is_bound_by_a_hash_that_cannot_be_guessed(tmp_path: Path) -> None:
    provider = Provider()

    @tool(side_effect_class="external", approval="always")
    def deliver(parcel: Any) -> None:
        provider.got.append(parcel)

    def main(_run: Any) -> None:
        deliver({"pin": 4711})

    with open_here(tmp_path) as engine:
        engine.run(main, run_id="r1")
        ((_, item),) = engine.inbox()
        question = engine._ledger.read(lambda store: store.questions.get(item.id))
        stored = engine._ledger.read(lambda store: store.calls.request(1))
        assert "4711" in stored
        assert question.request_hash not in {None, request_hash(stored), sha256(stored.encode()).hexdigest()}
    with open_here(tmp_path) as engine:  # another process, with the same key
        engine.approve(item.id)
        assert engine.resume("r1", main=main).status == "succeeded"
    assert provider.got == [{"pin": 4711}]


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


def test_a_ledger_with_secrets_holds_what_verify_demands(tmp_path: Path) -> None:
    @tool(side_effect_class="external", scope=["account"])
    def pay(account: Any, token: str) -> str:
        return f"paid with {token}"

    with open_here(tmp_path) as engine:
        engine.run(lambda _run: pay({"pin": 4711, "password": "hunter2hunter2"}, canaries()[0].value), run_id="r1")
        assert engine.verify().problems == []
    assert found_below(tmp_path, ["hunter2hunter2", canaries()[0].value]) == []
