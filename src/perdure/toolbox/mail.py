"""Send mail over SMTP, with a Message-ID by which a mailbox can tell whether a mail was accepted.

SMTP has no idempotency key: what is sent twice arrives twice. So a lost outcome is settled by asking a
mailbox that gets a copy of everything sent (over IMAP), or a person where none is configured.

Settings: ``PERDURE_SMTP_HOST _PORT _USER _PASSWORD _FROM``, ``PERDURE_SMTP_TLS`` (yes: from the first byte),
``PERDURE_SMTP_STARTTLS`` (yes: demand it, no: never, unset: if offered), ``PERDURE_MAIL_DOMAIN`` (right half
of the Message-ID; the sender's domain when unset). For the probe see ``perdure.toolbox._mailbox``.
"""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.headerregistry import Address, AddressHeader
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypedDict, cast

from perdure.ports.tool import AUTH, CallContext, Probe, ToolFailed, tool
from perdure.toolbox._mailbox import configured_mailbox, find_copies
from perdure.toolbox._provider import INJECTED, flag, is_loopback, port_setting, required_setting, setting
from perdure.toolbox.files import load

if TYPE_CHECKING:
    from aiosmtplib import SMTP

MAX_ATTACHMENT_BYTES = 25 * 1024 * 1024
_TIMEOUT_SECONDS = 30.0
_QUIT_SECONDS = 2.0


class SentMail(TypedDict):
    """An accepted mail; ``reply`` is the server's word for it, or where the probe found it."""

    message_id: str
    to: list[str]
    reply: str


@dataclass(frozen=True, slots=True)
class _Server:
    """Where to hand mail in, and how; a password is here only if it may be sent there."""

    host: str
    port: int
    tls: bool
    start_tls: bool | None
    user: str | None
    password: str | None


@dataclass(frozen=True, slots=True)
class _Letter:
    """A mail as bytes with its envelope; ``needs_utf8`` if an address is not ASCII (RFC 6531)."""

    message_id: str
    sender: str
    recipients: tuple[str, ...]
    content: bytes
    needs_utf8: bool


def _server(address: str) -> _Server:
    host, port = setting("PERDURE_SMTP_HOST"), port_setting("PERDURE_SMTP_PORT", 25)
    if address and address != f"{host}:{port}":
        # A server that came as an argument gets the mail, but never the password that belongs to another one.
        other, _, number = address.rpartition(":")
        if not other or not number.isdecimal():
            raise ToolFailed(f"server={address!r} is not host:port", retry=False)
        return _Server(other, int(number), tls=False, start_tls=None, user=None, password=None)
    host = required_setting("PERDURE_SMTP_HOST", "the server that takes mail")
    tls = flag("PERDURE_SMTP_TLS", default=False)
    wish = setting("PERDURE_SMTP_STARTTLS")
    start_tls = flag("PERDURE_SMTP_STARTTLS", default=True) if wish and not tls else None
    user = setting("PERDURE_SMTP_USER") or None
    if user is None:
        return _Server(host, port, tls, start_tls, None, None)
    if not tls and not is_loopback(host):
        if start_tls is False:
            raise ToolFailed("PERDURE_SMTP_STARTTLS=no would send the password in clear text", retry=False)
        start_tls = True
    password = required_setting("PERDURE_SMTP_PASSWORD", f"the password of {user}")
    return _Server(host, port, tls, start_tls, user, password)


def _addresses(message: EmailMessage, header: str, value: str) -> tuple[Address, ...]:
    try:
        message[header] = value
    except (ValueError, IndexError) as problem:  # a line break, or what the parser cannot make sense of
        raise ToolFailed(f"{header}: {value!r} is no address: {problem}", retry=False) from problem
    found = cast(AddressHeader, message[header]).addresses
    if not found or not all(address.username and address.domain for address in found):
        raise ToolFailed(f"{header}: {value!r} is no address", retry=False)
    return found


def message_id_of(call: CallContext, domain: str) -> str:
    """Return the Message-ID of this call's mail: the same for every attempt (RFC 5322 §3.6.4)."""
    return f"<{call.idempotency_key}@{domain}>"


def _attach(message: EmailMessage, files: Sequence[tuple[str, bytes]]) -> None:
    for path, data in files:
        name = PurePosixPath(path).name
        kind, _, subtype = (mimetypes.guess_type(name)[0] or "application/octet-stream").partition("/")
        message.add_attachment(data, maintype=kind, subtype=subtype, filename=name)


def _compose(
    call: CallContext, sender: str, to: str, subject: str, body: str, files: Sequence[tuple[str, bytes]]
) -> _Letter:
    policy = SMTP_POLICY.clone(cte_type="7bit")
    message = EmailMessage(policy=policy)
    (author, *others) = _addresses(message, "From", sender)
    if others:
        raise ToolFailed(f"{sender!r} is more than one sender", retry=False)
    recipients = _addresses(message, "To", to)
    try:
        message["Subject"] = subject
    except ValueError as problem:
        raise ToolFailed(f"subject: {problem}", retry=False) from problem
    message_id = message_id_of(call, setting("PERDURE_MAIL_DOMAIN", author.domain))
    message["Date"] = format_datetime(datetime.now(UTC))  # RFC 5322 §3.6.1: when it was sent, so not pinned
    message["Message-ID"] = message_id
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office reply, please
    message.set_content(body)
    _attach(message, files)
    if message.is_multipart():
        # Everything but the date is the same in each attempt; the random boundary would not be.
        message.set_boundary("=_" + hashlib.sha256(call.idempotency_key.encode()).hexdigest()[:40])
    envelope = (author.addr_spec, *(address.addr_spec for address in recipients))
    needs_utf8 = not all(address.isascii() for address in envelope)
    content = message.as_bytes(policy=policy.clone(utf8=needs_utf8))
    return _Letter(message_id, envelope[0], tuple(dict.fromkeys(envelope[1:])), content, needs_utf8)


def _may_do_better(problem: BaseException) -> bool:
    from aiosmtplib import SMTPAuthenticationError, SMTPNotSupported, SMTPResponseException

    if isinstance(problem, SMTPAuthenticationError | SMTPNotSupported | ValueError):
        return False
    return not (isinstance(problem, SMTPResponseException) and 500 <= problem.code < 600)


_CREDENTIALS_REFUSED = frozenset({530, 534, 535, 538})
"""Replies that say: not with these credentials, or not without any (RFC 4954 §6)."""


async def _open_envelope(client: SMTP, letter: _Letter) -> None:
    """Go as far as a server can say no without having seen the mail; a failure here means nothing
    happened."""
    from aiosmtplib import SMTPException, SMTPNotSupported

    try:
        await client.connect()
        options: list[str] = []
        if letter.needs_utf8:
            await client.ehlo()
            if not client.supports_extension("smtputf8"):
                raise SMTPNotSupported("the server takes ASCII addresses only")
            options = ["SMTPUTF8"]
        encoding = "utf-8" if letter.needs_utf8 else "ascii"
        await client.mail(letter.sender, options=options, encoding=encoding)
        for recipient in letter.recipients:
            # One refused recipient refuses the mail: half a delivery is an outcome nobody asked for.
            await client.rcpt(recipient, encoding=encoding)
    except (SMTPException, OSError, ValueError) as problem:
        client.close()
        text = f"not sent, the mail server was not reached or refused: {problem}"
        kind = AUTH if getattr(problem, "code", 0) in _CREDENTIALS_REFUSED else None
        raise ToolFailed(text, retry=_may_do_better(problem), kind=kind) from problem


async def _hand_over(client: SMTP, letter: _Letter) -> str:
    """Send the content and return the server's reply.

    Any 4yz or 5yz is definite: such a server "MUST NOT make a subsequent attempt to deliver" (RFC 5321
    §4.2.5). A cut, a timeout or a reply that cannot be read leaves the outcome open, and its exception is let
    through.
    """
    from aiosmtplib import SMTPDataError

    try:
        return (await client.data(letter.content)).message
    except SMTPDataError as problem:
        if 400 <= problem.code < 600:
            text = f"the mail server did not accept the mail: {problem.code} {problem.message}"
            raise ToolFailed(text, retry=problem.code < 500) from problem
        raise


async def _deliver(server: _Server, letter: _Letter, call: CallContext) -> str:
    from aiosmtplib import SMTP, SMTPException

    client = SMTP(
        hostname=server.host,
        port=server.port,
        use_tls=server.tls,
        start_tls=server.start_tls,
        username=server.user,
        password=server.password,
        timeout=_TIMEOUT_SECONDS,
    )
    try:
        await _open_envelope(client, letter)
        if call.handle != letter.message_id:
            call.record(letter.message_id)
        reply = await _hand_over(client, letter)
        # Accepted. Whatever becomes of the farewell, the mail is on its way.
        with suppress(SMTPException, OSError):
            await client.quit(timeout=_QUIT_SECONDS)
        return reply
    finally:
        client.close()


# Mail is in a mailbox of the same provider within seconds; a minute leaves room for its queue. A probe's "no"
# counts only after that time, and a policy may set another: a wrong "no" is a second mail.
@tool(side_effect_class="external", scope=["to"], files=["attachments"], probe_lag="60s")
async def send_mail(
    to: str,
    subject: str,
    body: str,
    attachments: list[str] | None = None,
    sender: str = "",
    server: str = "",
    *,
    call: CallContext = INJECTED,
) -> SentMail:
    """Send one plain-text mail; it is accepted for all recipients or for none.

    Args:
        to: an address, or several apart by commas.
        subject: one line.
        body: plain text.
        attachments: paths of files in the workspace, 25 MiB each at most.
        sender: an address; ``PERDURE_SMTP_FROM`` when left out.
        server: ``host:port``; the environment's when left out, which alone is given the password.

    Raises:
        ToolFailed: nothing was sent: a setting or file is missing, or the server was not reached or refused.
        Exception: any other one means that it may have been sent.
    """
    files = [
        (path, await asyncio.to_thread(load, call.workspace, path, max_bytes=MAX_ATTACHMENT_BYTES))
        for path in attachments or ()
    ]
    author = sender or required_setting("PERDURE_SMTP_FROM", "the sender")
    letter = _compose(call, author, to, subject, body, files)
    reply = await _deliver(_server(server), letter, call)
    return {"message_id": letter.message_id, "to": list(letter.recipients), "reply": reply}


@send_mail.probe
async def find_mail(call: CallContext) -> Probe:
    """Look in the configured mailbox for the mail of a call whose outcome was lost.

    The mailbox must get a copy of everything that is sent (the provider's own "Sent" folder, a blind copy to
    oneself, or the recipient's): that is what makes its "no" complete.
    """
    mailbox = configured_mailbox()
    if mailbox is None:
        return Probe.unknown("no mailbox configured (PERDURE_IMAP_HOST)")
    copies = await asyncio.to_thread(find_copies, mailbox, call.idempotency_key)
    if not copies:
        return Probe.not_happened(complete=True)
    to = _addresses(EmailMessage(), "To", str(call.args["to"]))
    found: SentMail = {
        "message_id": copies[0].message_id,
        "to": list(dict.fromkeys(address.addr_spec for address in to)),
        "reply": "found in " + ", ".join(copy.folder for copy in copies),
    }
    return Probe.happened(found, ref=copies[0].message_id)
