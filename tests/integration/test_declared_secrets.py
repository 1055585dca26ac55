"""Declared secrets: stored by name, read at the send, and a missing one is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import CallContext, Probe, Secret, SecretUnavailable, tool
from tests.integration.canaries import found_below, found_in
from tests.integration.engine_support import Crash
from tests.integration.secrets_support import Provider, open_here, tools_of

ROOT = Path(__file__).resolve().parents[2]


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
    assert f"{secret!r}" == repr(secret) == "<secret SMTP_PASSWORD>"
    assert secret == Secret("SMTP_PASSWORD")
    with pytest.raises(AttributeError):
        secret.name = "other"
    with pytest.raises(ValueError, match="no name"):
        Secret("a b")


@pytest.mark.parametrize(
    "header",
    [
        lambda secret: f"Bearer {secret}",
        lambda secret: "Bearer " + secret,
        lambda secret: secret + " (mine)",
        "Bearer {}".format,
        lambda secret: "Bearer %s" % secret,  # noqa: UP031
        str,
    ],
)
def test_a_secret_in_a_text_is_refused_and_no_placeholder_is_sent(tmp_path: Path, header: Any) -> None:
    provider = Provider()
    deliver = tools_of(provider)
    with open_here(tmp_path, {"API_TOKEN": "value-4711"}) as engine:
        failed = engine.run(lambda run: deliver({"Authorization": header(run.secret("API_TOKEN"))}), run_id="r1")
    assert (failed.status, failed.error_code) == ("failed", "UsageError")
    assert "the secret API_TOKEN cannot be made part of a text" in str(failed.error_detail)
    assert provider.got == []


def test_a_header_is_put_together_in_the_tool(tmp_path: Path) -> None:
    got: list[str] = []

    @tool(side_effect_class="external")
    def post(to: str, token: str) -> str:
        got.append(f"Bearer {token}")
        return f"to {to} with Bearer {token}"

    with open_here(tmp_path, {"API_TOKEN": "value-4711"}) as engine:
        assert engine.run(lambda run: post("a", run.secret("API_TOKEN")), run_id="r1").status == "succeeded"
    assert got == ["Bearer value-4711"]
    assert found_below(tmp_path, ["value-4711"]) == []


def test_the_error_of_a_missing_secret_has_a_code_and_a_next_step() -> None:
    problem = SecretUnavailable("the secret X is not there")
    assert problem.code == "PERDURE-406"
    assert problem.next_command
