"""Mail against SMTP peers that refuse, cut or accept at each point: what is definite, and what stays open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any, cast

import pytest

from perdure.ports.tool import CallContext, ToolFailed
from perdure.toolbox.mail import SentMail, send_mail
from tests.integration.toolbox_support import KEY, SmtpScript, closed_port, make_call, smtp_peer

MESSAGE_ID = f"<{KEY}@example.org>"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOST", "PORT", "USER", "PASSWORD", "STARTTLS", "TLS"):
        monkeypatch.delenv(f"PERDURE_SMTP_{name}", raising=False)
    monkeypatch.delenv("PERDURE_MAIL_DOMAIN", raising=False)
    monkeypatch.setenv("PERDURE_SMTP_FROM", "Reports <reports@example.org>")


def send(
    call: CallContext,
    *,
    to: str = "boss@example.org",
    subject: str = "Report",
    body: str = "Here it is.\n.\nGrüße\n",
    before: Callable[[SmtpScript], None] | None = None,
    replies: dict[str, str | None] | None = None,
    **options: Any,
) -> tuple[SmtpScript, SentMail | None, BaseException | None]:
    """Send one mail to a scripted peer; return the script, and the receipt or the exception."""

    async def scenario() -> tuple[SmtpScript, SentMail | None, BaseException | None]:
        async with smtp_peer(replies or {}) as script:
            if before is not None:
                before(script)
            options.setdefault("server", f"127.0.0.1:{script.port}")
            try:
                return script, await send_mail.plain(to, subject, body, call=call, **options), None
            except Exception as problem:
                return script, None, problem

    return asyncio.run(scenario())


def parse(raw: bytes) -> EmailMessage:
    return cast(EmailMessage, message_from_bytes(raw, policy=default))


def test_an_accepted_mail_has_the_keys_message_id_and_says_so(tmp_path: Path) -> None:
    recorded: list[str] = []
    script, receipt, _ = send(
        make_call(tmp_path, recorder=recorded.append), to="Boss <boss@example.org>, b@example.org"
    )
    assert receipt == {
        "message_id": MESSAGE_ID,
        "to": ["boss@example.org", "b@example.org"],
        "reply": "accepted as 42",
    }
    mail = parse(script.mails[0])
    assert (mail["Message-ID"], mail["Subject"]) == (MESSAGE_ID, "Report")
    assert (mail["From"], mail["Auto-Submitted"]) == ("Reports <reports@example.org>", "auto-generated")
    assert mail["Date"].datetime is not None
    assert mail.get_content().replace("\r\n", "\n") == "Here it is.\n.\nGrüße\n"
    assert script.verbs == ["EHLO", "MAIL", "RCPT", "RCPT", "DATA", "QUIT"]
    assert recorded == [MESSAGE_ID]


def test_a_second_attempt_sends_the_same_mail_but_for_its_date(tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(b"%PDF-1.7 \x00\xff")
    recorded: list[str] = []
    one, _, _ = send(make_call(tmp_path), attachments=["report.pdf"])
    again = make_call(tmp_path, attempt=2, handle=MESSAGE_ID, recorder=recorded.append)
    two, _, _ = send(again, attachments=["report.pdf"])

    def undated(raw: bytes) -> list[bytes]:
        return [line for line in raw.splitlines() if not line.startswith(b"Date: ")]

    assert undated(one.mails[0]) == undated(two.mails[0])
    assert len(undated(one.mails[0])) == len(one.mails[0].splitlines()) - 1
    (attached,) = parse(one.mails[0]).iter_attachments()
    assert (attached.get_filename(), attached.get_content_type()) == ("report.pdf", "application/pdf")
    assert attached.get_payload(decode=True) == b"%PDF-1.7 \x00\xff"
    assert recorded == []


@pytest.mark.parametrize(
    ("verb", "reply", "retry"),
    [
        ("CONNECT", "554 no service", False),
        ("CONNECT", "421 busy", True),
        ("EHLO", "550 go away", False),
        ("MAIL", "550 sender refused", False),
        ("MAIL", "451 try later", True),
        ("RCPT", "550 no such user", False),
        ("RCPT", "450 greylisted", True),
        ("DATA", "554 no valid recipients", False),
        ("CONTENT", "554 looks like spam", False),
        ("CONTENT", "452 disk full", True),
    ],
)
def test_a_refusal_means_nothing_was_sent(tmp_path: Path, verb: str, reply: str, retry: bool) -> None:
    replies: dict[str, str | None] = {verb: reply}
    if verb == "EHLO":
        replies["HELO"] = reply
    _, receipt, problem = send(make_call(tmp_path), replies=replies)
    assert receipt is None
    assert isinstance(problem, ToolFailed)
    assert reply[:3] in str(problem)
    assert problem.retry is retry


@pytest.mark.parametrize("verb", ["CONNECT", "EHLO", "MAIL", "RCPT"])
def test_a_cut_before_the_content_means_nothing_was_sent(tmp_path: Path, verb: str) -> None:
    recorded: list[str] = []
    script, _, problem = send(make_call(tmp_path, recorder=recorded.append), replies={verb: None})
    assert isinstance(problem, ToolFailed)
    assert problem.retry is True
    assert (script.mails, recorded) == ([], [])


@pytest.mark.parametrize("reply", [None, "what?", "199 hm", "354 more"])
def test_after_the_content_only_a_clear_answer_counts(tmp_path: Path, reply: str | None) -> None:
    recorded: list[str] = []
    script, _, problem = send(make_call(tmp_path, recorder=recorded.append), replies={"CONTENT": reply})
    assert len(script.mails) == 1
    assert problem is not None
    assert not isinstance(problem, ToolFailed)
    assert recorded == [MESSAGE_ID]


def test_a_farewell_that_fails_takes_nothing_back(tmp_path: Path) -> None:
    for farewell in (None, "500 what?"):
        _, receipt, _ = send(make_call(tmp_path), replies={"QUIT": farewell})
        assert receipt is not None and receipt["reply"] == "accepted as 42"


def test_one_refused_recipient_refuses_the_mail_for_all(tmp_path: Path) -> None:
    replies: dict[str, str | None] = {"RCPT TO:<b@example.org>": "550 no such user"}
    script, receipt, problem = send(make_call(tmp_path), to="a@example.org, b@example.org", replies=replies)
    assert script.verbs.count("RCPT") == 2
    assert receipt is None
    assert isinstance(problem, ToolFailed) and problem.retry is False
    assert script.mails == [] and "DATA" not in script.verbs


def test_nobody_listening_means_nothing_was_sent(tmp_path: Path) -> None:
    _, _, problem = send(make_call(tmp_path), server=f"127.0.0.1:{closed_port()}")
    assert isinstance(problem, ToolFailed) and problem.retry is True


@pytest.mark.parametrize(
    "wrong",
    [
        {"to": "nobody"},
        {"to": ""},
        {"to": "a@example.org\r\nBcc: b@example.org"},
        {"subject": "x\r\nBcc: b@example.org"},
        {"sender": "a@example.org, b@example.org"},
        {"server": "example.org"},
        {"attachments": ["absent.pdf"]},
        {"attachments": ["../secret"]},
        {"to": "jörg@example.org"},  # this server does not offer SMTPUTF8
    ],
)
def test_what_cannot_be_a_mail_is_not_sent(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (tmp_path / "secret").write_text("outside")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    script, _, problem = send(make_call(workspace), **wrong)
    assert isinstance(problem, ToolFailed) and problem.retry is False
    assert script.mails == [] and "MAIL" not in script.verbs


def test_an_address_outside_ascii_needs_a_server_that_offers_it(tmp_path: Path) -> None:
    replies: dict[str, str | None] = {"EHLO": "250-here\r\n250 SMTPUTF8"}
    script, receipt, _ = send(make_call(tmp_path), to="jörg@example.org", replies=replies)
    assert receipt is not None and receipt["to"] == ["jörg@example.org"]
    assert "To: jörg@example.org".encode() in script.mails[0]


LOGIN: dict[str, str | None] = {"EHLO": "250-here\r\n250 AUTH PLAIN", "AUTH": "235 welcome"}


def test_the_password_goes_only_to_the_environments_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SMTP_USER", "u")
    monkeypatch.setenv("PERDURE_SMTP_PASSWORD", "p")

    def named(script: SmtpScript) -> None:
        monkeypatch.setenv("PERDURE_SMTP_HOST", "127.0.0.1")
        monkeypatch.setenv("PERDURE_SMTP_PORT", str(script.port))

    own, receipt, _ = send(make_call(tmp_path), before=named, server="", replies=LOGIN)
    assert receipt is not None and "AUTH" in own.verbs
    monkeypatch.setenv("PERDURE_SMTP_HOST", "mail.example.org")
    other, receipt, _ = send(make_call(tmp_path), replies=LOGIN)
    assert receipt is not None and "AUTH" not in other.verbs


def test_a_refused_login_means_nothing_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_SMTP_USER", "u")
    monkeypatch.setenv("PERDURE_SMTP_PASSWORD", "p")
    monkeypatch.setenv("PERDURE_SMTP_HOST", "127.0.0.1")

    def named(script: SmtpScript) -> None:
        monkeypatch.setenv("PERDURE_SMTP_PORT", str(script.port))

    replies = LOGIN | {"AUTH": "535 bad credentials"}
    script, _, problem = send(make_call(tmp_path), before=named, server="", replies=replies)
    assert isinstance(problem, ToolFailed) and problem.retry is False
    assert "MAIL" not in script.verbs


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "PERDURE_SMTP_HOST is not set"),
        ({"HOST": "mail.example.org", "USER": "u"}, "PERDURE_SMTP_PASSWORD is not set"),
        ({"HOST": "mail.example.org", "USER": "u", "PASSWORD": "p", "STARTTLS": "no"}, "clear text"),
        ({"HOST": "mail.example.org", "TLS": "maybe"}, "neither yes nor no"),
        ({"HOST": "mail.example.org", "PORT": "smtp"}, "not a port number"),
        ({"HOST": "mail.example.org", "FROM": ""}, "PERDURE_SMTP_FROM is not set"),
    ],
)
def test_settings_that_are_missing_or_unsafe_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], reason: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"PERDURE_SMTP_{name}", value)
    _, _, problem = send(make_call(tmp_path), server="")
    assert isinstance(problem, ToolFailed) and problem.retry is False
    assert reason in str(problem)


def test_it_is_declared_with_its_recipient_as_scope_and_a_probe() -> None:
    declared = send_mail.declaration
    assert (declared.side_effect_class, declared.scope, declared.has_probe) == ("external", ("to",), True)
