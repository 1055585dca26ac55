"""The effectful tools against real servers: SeaweedFS, SMTP with a searchable mailbox, a keyed webhook.

What happened is read from the servers' own logs.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiosmtpd")
pytest.importorskip("pymap")

from perdure.demo.world import World, start
from perdure.ports.tool import CallContext, Probe, ToolFailed
from perdure.toolbox._provider import OutcomeUnknown
from perdure.toolbox.crawl import crawl
from perdure.toolbox.extract import extract
from perdure.toolbox.mail import find_mail, send_mail
from perdure.toolbox.notify import notify
from perdure.toolbox.summarise import summarise
from perdure.toolbox.upload import Upload, upload
from tests.integration.toolbox_support import closed_port, make_call

_numbers: Iterator[int] = iter(range(1, 1000))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World, None, None]:
    with start(tmp_path_factory.mktemp("world")) as running:
        yield running


@pytest.fixture
def call(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CallContext:
    """A fresh call in a workspace that holds ``a.txt``, with the world's addresses in the environment."""
    settings = {
        "S3_ENDPOINT": world.s3.endpoint,
        "S3_BUCKET": world.s3.bucket,
        "S3_ACCESS_KEY_ID": world.s3.access_key,
        "S3_SECRET_ACCESS_KEY": world.s3.secret_key,
        "S3_REGION": world.s3.region,
        "SMTP_HOST": world.smtp.host,
        "SMTP_PORT": str(world.smtp.port),
        "SMTP_FROM": "reports@example.org",
        "IMAP_HOST": world.imap.host,
        "IMAP_PORT": str(world.imap.port),
        "IMAP_USER": world.imap.user,
        "IMAP_PASSWORD": world.imap.password,
        "IMAP_MAILBOX": world.imap.mailbox,
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"PERDURE_{name}", value)
    (tmp_path / "a.txt").write_text("first content")
    return fresh(tmp_path)


def fresh(workspace: Path, attempt: int = 1, **options: Any) -> CallContext:
    key = hashlib.sha256(f"call {next(_numbers)}".encode()).hexdigest()
    return make_call(workspace, key=key, attempt=attempt, **options)


def again(call: CallContext) -> CallContext:
    return make_call(call.workspace, key=call.idempotency_key, attempt=call.attempt + 1, args=call.args)


def put(call: CallContext, key: str, **options: Any) -> Upload:
    return asyncio.run(upload.plain("a.txt", key, call=call, **options))


def stored(world: World, key: str) -> list[Any]:
    return [
        line["sha256"]
        for line in world.events("s3")
        if line["key"] == key and line["event"] == "put_object" and line["status"] == 200
    ]


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_an_upload_is_stored_once_and_equal_bytes_are_a_success(world: World, call: CallContext) -> None:
    digest = sha256_of("first content")
    expected = {"url": "s3://reports/w47/a.txt", "sha256": digest, "size_bytes": 13}
    assert put(call, "w47/a.txt") == {**expected, "already_existed": False}
    assert put(again(call), "w47/a.txt") == {**expected, "already_existed": True}
    assert put(fresh(call.workspace), "s3://reports/w47/a.txt") == {**expected, "already_existed": True}
    assert stored(world, "w47/a.txt") == [digest]


def test_another_object_is_never_overwritten(world: World, call: CallContext) -> None:
    put(call, "taken.txt")
    (call.workspace / "a.txt").write_text("second content")
    with pytest.raises(ToolFailed) as refusal:
        put(fresh(call.workspace), "taken.txt")
    assert refusal.value.retry is False
    for text in ("first content", "second content"):
        assert sha256_of(text) in str(refusal.value)
    assert stored(world, "taken.txt") == [sha256_of("first content")]


def test_of_two_uploads_at_once_one_wins_and_the_other_is_told(world: World, call: CallContext) -> None:
    (call.workspace / "b.txt").write_text("other content")

    async def race() -> list[Any]:
        return await asyncio.gather(
            upload.plain("a.txt", "race.txt", call=call),
            upload.plain("b.txt", "race.txt", call=fresh(call.workspace)),
            return_exceptions=True,
        )

    outcomes = asyncio.run(race())
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ToolFailed", "dict"]
    assert len(stored(world, "race.txt")) == 1


def test_an_upload_whose_reply_is_lost_is_met_by_the_next_attempt(world: World, call: CallContext) -> None:
    world.pause("s3")
    with pytest.raises(OutcomeUnknown):
        put(call, "lost.txt", timeout_seconds=0.5)
    world.release("s3")
    assert put(again(call), "lost.txt")["already_existed"] is True
    assert stored(world, "lost.txt") == [sha256_of("first content")]


def test_a_file_that_changed_since_its_own_lost_upload_stays_open(world: World, call: CallContext) -> None:
    world.pause("s3")
    with pytest.raises(OutcomeUnknown):
        put(call, "changed.txt", timeout_seconds=0.5)
    world.release("s3")
    (call.workspace / "a.txt").write_text("second content")
    with pytest.raises(OutcomeUnknown, match="this very call"):
        put(again(call), "changed.txt")
    assert stored(world, "changed.txt") == [sha256_of("first content")]


def test_a_store_that_refuses_or_is_away_means_nothing_was_stored(
    world: World, call: CallContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = f"http://127.0.0.1:{closed_port()}"
    with pytest.raises(ToolFailed) as refusal:
        put(call, "no.txt", endpoint=away)
    assert refusal.value.retry is True
    with pytest.raises(OutcomeUnknown):
        put(again(call), "no.txt", endpoint=away)
    monkeypatch.setenv("PERDURE_S3_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(ToolFailed, match="403") as refusal:
        put(call, "no.txt")
    assert refusal.value.retry is False
    assert world.s3.secret_key not in str(refusal.value)
    assert stored(world, "no.txt") == []


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/./b", "s3://", "s3://reports", "s3:///a"])
def test_what_is_no_key_is_refused(call: CallContext, key: str) -> None:
    with pytest.raises(ToolFailed) as refusal:
        put(call, key)
    assert refusal.value.retry is False


def test_the_upload_declares_create_if_absent_for_ever() -> None:
    declared = upload.declaration
    assert (declared.side_effect_class, declared.scope) == ("external", ("key",))
    assert (declared.replay_policy, declared.key_ttl_seconds) == ("REPLAY_IDEMPOTENT", float("inf"))


def ask(call: CallContext) -> Probe:
    return asyncio.run(find_mail(call))


def mail_call(call: CallContext, **options: Any) -> CallContext:
    return fresh(call.workspace, args={"to": "Boss <boss@example.org>", "subject": "S", "body": "B"}, **options)


def test_the_probe_finds_the_mail_of_its_own_call_only(
    world: World, call: CallContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = mail_call(call), mail_call(call)
    receipt = asyncio.run(send_mail.plain("Boss <boss@example.org>", "S", "B", call=one))
    monkeypatch.setenv("PERDURE_MAIL_DOMAIN", "elsewhere.example.org")  # changed between two lives
    answer = ask(one)
    assert (answer.verdict, answer.ref) == ("happened", receipt["message_id"])
    assert answer.result == {**receipt, "reply": "found in INBOX"}
    assert ask(other) == Probe.not_happened(complete=True)
    logged = [line["message_id"] for line in world.events("mail")]
    assert logged.count(receipt["message_id"]) == 1


def test_a_mail_whose_acceptance_was_lost_is_found(world: World, call: CallContext) -> None:
    lost = mail_call(call)

    async def cut_off() -> None:
        sending = asyncio.create_task(send_mail.plain("boss@example.org", "S", "B", call=lost))
        await asyncio.to_thread(world.wait_held, "mail")
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

    world.pause("mail")
    asyncio.run(cut_off())
    world.release("mail")
    assert ask(lost).verdict == "happened"


def test_a_mailbox_that_cannot_be_asked_is_no_answer(call: CallContext, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = mail_call(call)
    for name, value in (
        ("PERDURE_IMAP_MAILBOX", "INBOX, No Such Folder"),
        ("PERDURE_IMAP_PASSWORD", "wrong"),
        ("PERDURE_IMAP_PORT", str(closed_port())),
        ("PERDURE_IMAP_TLS", "perhaps"),
    ):
        with monkeypatch.context() as changed, pytest.raises(Exception) as refusal:
            changed.setenv(name, value)
            ask(asked)
        assert refusal.type is not AssertionError
    monkeypatch.setenv("PERDURE_IMAP_HOST", "imap.example.org")
    monkeypatch.setenv("PERDURE_IMAP_TLS", "no")
    with pytest.raises(ToolFailed, match="clear text"):
        ask(asked)
    monkeypatch.delenv("PERDURE_IMAP_HOST")
    assert ask(asked) == Probe.unknown("no mailbox configured (PERDURE_IMAP_HOST)")


def test_a_notice_whose_answer_was_lost_is_not_made_twice(world: World, call: CallContext) -> None:
    before = world.counts()["notices"]
    world.pause("webhook")
    with pytest.raises(Exception) as lost:
        asyncio.run(notify.plain(world.webhook_url, "e", {"n": 1}, 0.3, call=call))
    assert not isinstance(lost.value, ToolFailed)
    world.release("webhook")
    notice = asyncio.run(notify.plain(world.webhook_url, "e", {"n": 1}, call=again(call)))
    assert notice["status"] == 201
    assert world.counts()["notices"] == before + 1
    with pytest.raises(OutcomeUnknown, match="422"):
        asyncio.run(notify.plain(world.webhook_url, "e", {"n": 2}, call=again(call)))


def test_the_site_is_crawled_extracted_and_summarised(world: World) -> None:
    pages = asyncio.run(crawl.plain([world.site_url], max_pages=30, delay_seconds=0.0))
    read = [page for page in pages if page["html"] is not None]
    assert len(read) >= 12  # the page that fails once among them
    assert {page["error"] for page in pages if page["html"] is None} == {
        "http: 404 Not Found",
        "robots: the site's robots.txt does not allow it",
    }
    for page in read[1:]:
        found = extract.plain(page["html"] or "", page["final_url"])
        assert found["title"] and len(found["text"]) > 400
        short = summarise.plain(found["text"], 3)
        assert short == summarise.plain(found["text"], 3)
        assert 0 < len(short) < len(found["text"])
