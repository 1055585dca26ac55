"""The clients with which the tests of the demo's outside world speak to it."""

from __future__ import annotations

import http.client
import imaplib
import re
import smtplib
from email.message import EmailMessage
from typing import cast
from urllib.parse import urlsplit

from obstore.store import S3Store

from perdure.demo import world as worlds

World = worlds.World


def ask(
    method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes, http.client.HTTPMessage]:
    parts = urlsplit(url)
    link = http.client.HTTPConnection(cast("str", parts.hostname), cast("int", parts.port), timeout=60)
    try:
        link.request(method, parts.path or "/", body, headers or {})
        got = link.getresponse()
        return got.status, got.read(), got.headers
    finally:
        link.close()


class Count:
    """What a world's counts rose by since this was made."""

    def __init__(self, world: World) -> None:
        self._world, self._before = world, world.counts()

    def risen(self) -> dict[str, int]:
        now = self._world.counts()
        return {word: now[word] - before for word, before in self._before.items() if now[word] != before}


def store_of(world: World, secret: str | None = None) -> S3Store:
    s3 = world.s3
    return S3Store(
        s3.bucket,
        endpoint=s3.endpoint,
        access_key_id=s3.access_key,
        secret_access_key=secret or s3.secret_key,
        region=s3.region,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def mail_of(message_id: str, subject: str = "Report", key: str | None = None) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "job@example.org", "boss@example.org", subject
    mail["Message-ID"] = message_id
    if key is not None:
        mail["X-Idempotency-Key"] = key
    mail.set_content("The report is attached.\n")
    return mail


def send(world: World, mail: EmailMessage) -> None:
    with smtplib.SMTP(world.smtp.host, world.smtp.port, local_hostname="localhost", timeout=60) as smtp:
        smtp.send_message(mail)


def found(world: World, message_id: str) -> int:
    imap = world.imap
    with imaplib.IMAP4(imap.host, imap.port, timeout=60) as box:
        box.login(imap.user, imap.password)
        box.select(imap.mailbox, readonly=True)
        _, (hits, *_) = box.search(None, "HEADER", "Message-ID", f'"{message_id}"')
        return len(cast("bytes", hits).split())


def links_of(html: bytes) -> list[str]:
    return re.findall(r'href="([^"]+)"', html.decode())
