"""Ask an IMAP mailbox (RFC 3501) whether it holds a mail: the probe of ``send_mail``.

Settings: ``PERDURE_IMAP_HOST _PORT _USER _PASSWORD``, ``PERDURE_IMAP_TLS`` (yes: from the first byte; the
default unless the host is this machine), ``PERDURE_IMAP_STARTTLS`` (yes: before the login),
``PERDURE_IMAP_MAILBOX`` (folders apart by commas; ``INBOX`` when unset).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.ports.tool import ToolFailed
from perdure.toolbox._provider import flag, is_loopback, port_setting, required_setting, setting

if TYPE_CHECKING:
    from imaplib import IMAP4

_TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A mailbox and how to enter it."""

    host: str
    port: int
    user: str
    password: str
    tls: bool
    start_tls: bool
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """A mail that was found, by its whole Message-ID."""

    folder: str
    message_id: str


def configured_mailbox() -> Mailbox | None:
    """Return the mailbox that the environment names, or None.

    Raises:
        ToolFailed: the settings are incomplete, or would send the password in clear text over a network.
    """
    host = setting("PERDURE_IMAP_HOST")
    if not host:
        return None
    start_tls = flag("PERDURE_IMAP_STARTTLS", default=False)
    tls = flag("PERDURE_IMAP_TLS", default=not start_tls and not is_loopback(host))
    if not tls and not start_tls and not is_loopback(host):
        raise ToolFailed("PERDURE_IMAP_TLS=no would send the password in clear text", retry=False)
    user = required_setting("PERDURE_IMAP_USER", "the user of the mailbox")
    names = (name.strip() for name in setting("PERDURE_IMAP_MAILBOX", "INBOX").split(","))
    folders = tuple(name for name in names if name)
    return Mailbox(
        host=host,
        port=port_setting("PERDURE_IMAP_PORT", 993 if tls else 143),
        user=user,
        password=required_setting("PERDURE_IMAP_PASSWORD", f"the password of {user}"),
        tls=tls,
        start_tls=start_tls and not tls,
        folders=folders,
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _connect(mailbox: Mailbox) -> IMAP4:
    import imaplib
    import ssl

    if mailbox.tls:
        return imaplib.IMAP4_SSL(
            mailbox.host, mailbox.port, ssl_context=ssl.create_default_context(), timeout=_TIMEOUT_SECONDS
        )
    client = imaplib.IMAP4(mailbox.host, mailbox.port, timeout=_TIMEOUT_SECONDS)
    if mailbox.start_tls:
        client.starttls(ssl_context=ssl.create_default_context())
    return client


def _expect_ok(status: str, said: object, what: str) -> None:
    if status != "OK":
        raise ConnectionError(f"IMAP {what}: {status} {said}")


def _in_folder(client: IMAP4, folder: str, local_part: str) -> list[Copy]:
    status, said = client.select(_quoted(folder), readonly=True)
    _expect_ok(status, said, f"EXAMINE {folder}")
    # RFC 3501 §6.4.4: HEADER finds a substring, so the half after "@" may have been configured otherwise
    # then.
    status, said = client.search(None, "HEADER", "Message-ID", _quoted(local_part))
    _expect_ok(status, said, "SEARCH")
    copies: list[Copy] = []
    for number in (said[0] or b"").split():
        status, parts = client.fetch(number.decode("ascii"), "(BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])")
        _expect_ok(status, parts, "FETCH")
        header = b"".join(part[1] for part in parts if isinstance(part, tuple)).decode("ascii", "replace")
        # Some servers search by words and find too much: only the header itself is evidence.
        exact = re.search(rf"<{re.escape(local_part)}@[^<>\s]+>", header)
        if exact is not None:
            copies.append(Copy(folder, exact.group()))
    return copies


def find_copies(mailbox: Mailbox, local_part: str) -> list[Copy]:
    """Return the mails whose Message-ID begins with ``local_part``; an empty list means all folders were
    searched.

    Raises:
        OSError, imaplib.IMAP4.error: the mailbox could not be asked, which is no answer.
    """
    with _connect(mailbox) as client:
        client.login(mailbox.user, mailbox.password)
        return [copy for folder in mailbox.folders for copy in _in_folder(client, folder, local_part)]
