"""The mail server of the demo: ``python -m perdure.demo.world.mail --folder DIR``.

SMTP (aiosmtpd) and IMAP (pymap, its mailbox in memory) in one process: a mail that was answered with 250 can
be searched for at once. The log line is the moment of acceptance; the mails it names are put back after a
restart.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from argparse import Namespace
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.demo.world import access, child
from perdure.demo.world.faults import Gate, open_door
from perdure.demo.world.leash import die_with
from perdure.demo.world.loopback import HOST
from perdure.demo.world.serverlog import ServerLog

if TYPE_CHECKING:
    from aiosmtpd.smtp import SMTP, Envelope, Session

_MAX_MAIL_BYTES = 32 << 20
# The password is 128 random bits: stretching it would only slow every login down.
_HASH_ROUNDS = 1000


class Mailbox:
    """The one account of the IMAP server.

    Args:
        user: its name.
        password: its password.
    """

    def __init__(self, user: str, password: str) -> None:
        from pymap.backend.dict import Config, Login
        from pymap.backend.dict.filter import FilterSet
        from pymap.backend.dict.mailbox import MailboxSet
        from pysasl.hashing import BuiltinHash

        self._user, self._password = user, password
        self._mailboxes = MailboxSet()
        self._config = Config(
            Namespace(passlib_cfg=None, proxy_protocol=None),
            host=HOST,
            port=0,
            tls_enabled=False,
            reject_dnsbl=False,
            hash_context=BuiltinHash(rounds=_HASH_ROUNDS),
            demo_data=False,
            demo_user=user,
            demo_password=password,
        )
        self._config.set_cache[user] = (self._mailboxes, FilterSet())
        self._login = Login(self._config)

    async def listen(self, port: int) -> int:
        """Serve IMAP on loopback; return the port."""
        from proxyprotocol.reader import ProxyProtocolReader
        from pymap.imap import IMAPServer
        from pymap.user import Passwords, UserMetadata

        self._config.apply_context()
        hashed = await Passwords(self._config).hash_password(self._password)
        await self._login.demo_user_identity.set(UserMetadata(self._config, self._user, password=hashed))
        reader = ProxyProtocolReader(self._config.proxy_protocol)
        server = await asyncio.start_server(reader.get_callback(IMAPServer(self._login, self._config)), HOST, port)
        return int(server.sockets[0].getsockname()[1])

    async def add(self, raw: bytes, when: datetime) -> None:
        """Put a mail into the inbox."""
        from pymap.parsing.message import AppendMessage

        inbox = await self._mailboxes.get_mailbox("INBOX")
        await inbox.append(AppendMessage(raw, when), recent=True)


class Acceptor:
    """The SMTP handler: stores a mail, logs it, makes it searchable, and only then answers 250.

    Args:
        folder: the world's folder; the mails are kept in its ``mail``.
        mailbox: where they can be searched.
        gate: may hold the 250 back.
    """

    def __init__(self, folder: Path, mailbox: Mailbox, gate: Gate) -> None:
        self._mails = folder / "mail"
        self._mails.mkdir(exist_ok=True)
        self._log = ServerLog(folder / "logs" / "mail.jsonl")
        self._mailbox = mailbox
        self._gate = gate
        self._count = 0

    async def open(self) -> None:
        """Take up what an earlier process of this folder accepted."""
        for line in self._log.before:
            self._count += 1
            raw = (self._mails / str(line["file"])).read_bytes()
            await self._mailbox.add(raw, datetime.fromisoformat(str(line["at"])))

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Accept one mail (the name is aiosmtpd's)."""
        raw = envelope.original_content or b""
        # A client that goes away must not undo half of an acceptance: the rest of it happens all the same.
        await asyncio.shield(asyncio.create_task(self._accept(raw, envelope.mail_from, envelope.rcpt_tos)))
        client_gone = threading.Event()
        try:
            await asyncio.to_thread(self._gate.after_effect, client_gone.is_set)
        except asyncio.CancelledError:
            client_gone.set()
            raise
        return "250 OK, accepted"

    async def _accept(self, raw: bytes, mail_from: str | None, recipients: list[str]) -> None:
        self._count += 1
        file = f"{self._count:06d}.eml"
        with (self._mails / file).open("wb") as kept:
            kept.write(raw)
            kept.flush()
            os.fsync(kept.fileno())
        self._log.append("mail", file=file, **describe(raw), envelope_from=mail_from, to=recipients)
        await self._mailbox.add(raw, datetime.now(UTC))


def describe(raw: bytes) -> dict[str, object]:
    """Return what the log keeps of a mail, ``None`` for a header it has not."""
    message = message_from_bytes(raw, policy=default)
    told = {
        field: None if message[header] is None else str(message[header]).strip()
        for field, header in (
            ("message_id", "Message-ID"),
            ("from", "From"),
            ("subject", "Subject"),
            ("idempotency_key", "X-Idempotency-Key"),
        )
    }
    body = raw.partition(b"\r\n\r\n")[2]
    return {**told, "bytes": len(raw), "sha256": hashlib.sha256(body).hexdigest()}


async def _serve(options: child.ChildOptions) -> None:
    from aiosmtpd.smtp import SMTP

    gate = Gate()
    mailbox = Mailbox(access.MAIL_USER, access.read_secrets(options.folder).mail_password)
    acceptor = Acceptor(options.folder, mailbox, gate)
    await acceptor.open()
    loop = asyncio.get_running_loop()
    smtp = await loop.create_server(
        lambda: SMTP(acceptor, hostname="localhost", data_size_limit=_MAX_MAIL_BYTES, enable_SMTPUTF8=True, loop=loop),
        HOST,
        options.ports[0],
    )
    imap_port = await mailbox.listen(options.ports[1])
    child.announce(port=smtp.sockets[0].getsockname()[1], imap_port=imap_port, door=open_door(gate))
    await asyncio.to_thread(child.serve_until_orphaned)


def main() -> None:
    """Serve until the parent is gone."""
    options = child.parse_options("mail")
    die_with(options.leash)
    os.environ["FQDN"] = "localhost"  # or pymap asks a name server for this machine's name at every greeting
    asyncio.run(_serve(options))


if __name__ == "__main__":
    main()
