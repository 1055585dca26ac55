"""The demo's outside world, asked by the clients a job uses: obstore, smtplib, imaplib, http."""

from __future__ import annotations

import hashlib
import imaplib
import json
import os
import re
import time
import urllib.robotparser
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, BaseError

from perdure.demo import world as worlds
from perdure.demo.world.serverlog import ServerLog, read_log
from perdure.demo.world.webhook import Notices
from tests.integration.demo_world_clients import Count, ask, found, links_of, mail_of, send, store_of

World = worlds.World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with worlds.start(tmp_path_factory.mktemp("world")) as running:
        yield running


# -- the site ----------------------------------------------------------------------------------------------


def test_a_polite_crawl_meets_every_page_and_every_nuisance(tmp_path: Path) -> None:
    with worlds.start(tmp_path, servers=["site"]) as site:
        base = site.site_url.rstrip("/")
        robots = urllib.robotparser.RobotFileParser()
        robots.parse(ask("GET", f"{base}/robots.txt")[1].decode().splitlines())
        status_of: dict[str, list[int]] = {}
        queue, seconds, texts = ["/"], {}, {}
        while queue:
            path = queue.pop()
            began = time.monotonic()
            status, html, headers = ask("GET", base + path, headers={"User-Agent": "test"})
            seconds[path] = time.monotonic() - began
            status_of.setdefault(path, []).append(status)
            if status == 500 and len(status_of[path]) < 3:
                queue.append(path)
            if status == 200:
                assert headers["Content-Type"] == "text/html; charset=utf-8"
                texts[path] = re.sub(r"<[^>]+>", " ", html.decode())
                new = [link for link in links_of(html) if link not in status_of and link not in queue]
                queue += [link for link in new if robots.can_fetch("test", base + link)]
        articles = {path: text for path, text in texts.items() if path not in {"/", "/index.html"}}
        assert len(articles) >= 12
        assert all(250 <= len(text.split()) <= 650 for text in articles.values())
        assert all("Facts after" in text for text in articles.values())
        assert [path for path, took in seconds.items() if took >= 1.4] == ["/great-eastern.html"]
        assert [path for path, all_of in status_of.items() if all_of == [404]] == ["/errata.html"]
        assert [path for path, all_of in status_of.items() if all_of == [500, 200]] == ["/clayton-tunnel.html"]
        assert site.counts()["pages"] == len(articles)
        assert site.counts()["private"] == 0
        assert {line["user_agent"] for line in site.events("site") if line["path"] != "/robots.txt"} == {"test"}


def test_the_index_links_to_the_private_page_and_asking_for_it_is_seen(world: World) -> None:
    before = Count(world)
    assert "/private.html" in links_of(ask("GET", world.site_url)[1])
    assert ask("GET", world.site_url + "private.html")[0] == 200
    assert before.risen()["private"] == 1


def test_head_gets_no_body_and_post_is_refused(world: World) -> None:
    status, body, headers = ask("HEAD", world.site_url)
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 1000
    assert ask("POST", world.site_url, b"x")[0] == 405


# -- the S3 server -----------------------------------------------------------------------------------------


def test_a_create_only_upload_is_accepted_once(world: World) -> None:
    before, store, body = Count(world), store_of(world), os.urandom(300_000)
    obstore.put(store, "a/report one.pdf", body, mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "a/report one.pdf", b"another", mode="create")
    assert bytes(obstore.get(store, "a/report one.pdf").bytes()) == body
    assert obstore.head(store, "a/report one.pdf")["size"] == len(body)
    assert before.risen() == {"uploads": 1, "refused_uploads": 1}
    put, refused, *_ = [line for line in world.events("s3") if line["key"] == "a/report one.pdf"]
    assert (put["status"], put["sha256"]) == (200, hashlib.sha256(body).hexdigest())
    assert (refused["status"], refused["if_none_match"]) == (412, "*")


def test_an_overwriting_upload_counts_each_time(world: World) -> None:
    before, store = Count(world), store_of(world)
    for body in (b"one", b"two"):
        obstore.put(store, "b.txt", body, mode="overwrite")
    assert before.risen() == {"uploads": 2}
    assert [line["key"] for line in world.events("s3")[-2:]] == ["b.txt", "b.txt"]


def test_an_upload_in_parts_counts_once(world: World) -> None:
    before, store, body = Count(world), store_of(world), os.urandom(11 << 20)
    obstore.put(store, "large.bin", body, use_multipart=True, chunk_size=5 << 20)
    assert bytes(obstore.get(store, "large.bin").bytes()) == body
    assert before.risen() == {"uploads": 1}


def test_a_wrong_secret_uploads_nothing(world: World) -> None:
    before = Count(world)
    with pytest.raises(BaseError, match="403"):
        obstore.put(store_of(world, secret="wrong"), "c.txt", b"c", mode="create")
    assert ask("GET", f"{world.s3.endpoint}/{world.s3.bucket}/b.txt")[0] == 403
    assert before.risen() == {}


def test_a_killed_s3_server_comes_back_with_its_objects(tmp_path: Path) -> None:
    with worlds.start(tmp_path, servers=["s3"]) as mine:
        endpoint = mine.s3.endpoint
        obstore.put(store_of(mine), "kept.txt", b"kept", mode="create")
        mine.kill("s3")
        with pytest.raises(BaseError):
            obstore.put(store_of(mine), "other.txt", b"other", mode="create")
        mine.restart("s3")
        assert mine.s3.endpoint == endpoint
        assert bytes(obstore.get(store_of(mine), "kept.txt").bytes()) == b"kept"
        with pytest.raises(AlreadyExistsError):
            obstore.put(store_of(mine), "kept.txt", b"again", mode="create")
        assert mine.counts()["uploads"] == 1


# -- the mail server ---------------------------------------------------------------------------------------


def test_an_accepted_mail_is_found_at_once_and_no_other(world: World) -> None:
    before = Count(world)
    send(world, mail_of("<op-1@example.org>", "Résumé of the week", "key-1"))
    assert (found(world, "<op-1@example.org>"), found(world, "<op-2@example.org>")) == (1, 0)
    send(world, mail_of("<op-1@example.org>"))
    assert found(world, "<op-1@example.org>") == 2
    assert before.risen() == {"mails": 2}
    line = world.events("mail")[-2]
    assert line["message_id"] == "<op-1@example.org>"
    assert (line["from"], line["to"]) == ("job@example.org", ["boss@example.org"])
    assert (line["subject"], line["idempotency_key"]) == ("Résumé of the week", "key-1")
    assert line["sha256"] == hashlib.sha256(b"The report is attached.\r\n").hexdigest()
    assert world.events("mail")[-1]["idempotency_key"] is None


def test_a_mailbox_that_was_open_before_finds_the_new_mail(world: World) -> None:
    with imaplib.IMAP4(world.imap.host, world.imap.port, timeout=60) as box:
        box.login(world.imap.user, world.imap.password)
        box.select(readonly=True)
        send(world, mail_of("<late@example.org>"))
        box.noop()  # an open session is told of new mail when it asks, RFC 3501 section 5.2
        assert box.search(None, "HEADER", "Message-ID", '"<late@example.org>"')[1][0] != b""


def test_the_mailbox_wants_its_password(world: World) -> None:
    with (
        imaplib.IMAP4(world.imap.host, world.imap.port, timeout=60) as box,
        pytest.raises(imaplib.IMAP4.error),
    ):
        box.login(world.imap.user, "wrong")


def test_a_killed_mail_server_keeps_what_it_accepted(tmp_path: Path) -> None:
    with worlds.start(tmp_path, servers=["mail"]) as mine:
        send(mine, mail_of("<before@example.org>"))
        mine.kill("mail")
        with pytest.raises(OSError):
            send(mine, mail_of("<during@example.org>"))
        mine.restart("mail")
        send(mine, mail_of("<after@example.org>"))
        hits = [found(mine, f"<{name}@example.org>") for name in ("before", "during", "after")]
        assert hits == [1, 0, 1]
        assert mine.counts()["mails"] == 2


# -- the webhook receiver ----------------------------------------------------------------------------------


def test_one_key_makes_one_notice(world: World) -> None:
    before, url, key = Count(world), world.webhook_url, {"Idempotency-Key": "w-1"}
    status, first, headers = ask("POST", url, b'{"done": 1}', key)
    assert (status, headers["Idempotent-Replayed"]) == (201, None)
    status, again, headers = ask("POST", url, b'{"done": 1}', {"Idempotency-Key": '"w-1"'})
    assert (status, again, headers["Idempotent-Replayed"]) == (201, first, "true")
    status, problem, headers = ask("POST", url, b'{"done": 2}', key)
    assert (status, headers["Content-Type"]) == (422, "application/problem+json")
    assert "another body" in json.loads(problem)["title"]
    assert before.risen() == {"notices": 1, "repeated_notices": 1, "refused_notices": 1}


def test_without_a_key_every_notice_is_new(world: World) -> None:
    before = Count(world)
    replies = {ask("POST", world.webhook_url, b"same")[1] for _ in range(2)}
    assert len(replies) == 2
    assert before.risen() == {"notices": 2}
    assert ask("POST", world.webhook_url, b"x" * (2 << 20))[0] == 413
    assert ask("GET", world.webhook_url)[0] == 404


def test_a_key_is_forgotten_after_its_time_and_not_before(tmp_path: Path) -> None:
    seconds = [1000.0]
    events = []
    with ServerLog(tmp_path / "log.jsonl") as log:
        notices = Notices(log, key_ttl_seconds=60, now=lambda: seconds[0])
        for moment in (1000.0, 1060.0, 1060.1, 1060.2):
            seconds[0] = moment
            events.append(notices.take("k", b"body", lambda: None).event)
    assert events == ["notice", "repeat", "notice", "repeat"]


def test_keys_outlive_the_receiver_and_a_torn_line_swallows_nothing(tmp_path: Path) -> None:
    with worlds.start(tmp_path, servers=["webhook"]) as mine:
        first = ask("POST", mine.webhook_url, b"body", {"Idempotency-Key": "w-2"})[1]
        mine.kill("webhook")
        with mine.logs["webhook"].open("ab") as log:
            log.write(b'{"event": "notice", "noti')
        mine.restart("webhook")
        assert ask("POST", mine.webhook_url, b"body", {"Idempotency-Key": "w-2"})[1] == first
        assert ask("POST", mine.webhook_url, b"other")[0] == 201
        assert mine.counts()["notices"] == 2
        assert mine.counts()["repeated_notices"] == 1


def test_a_log_line_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    with ServerLog(tmp_path / "a" / "log.jsonl") as log:
        log.append("mail", subject="ü\n\u2028", to=["a", "b"])
    (line,) = read_log(tmp_path / "a" / "log.jsonl")
    assert (line["event"], line["subject"], line["to"]) == ("mail", "ü\n\u2028", ["a", "b"])
