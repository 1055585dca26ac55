"""What a person does about a mail of which nobody knows whether it left: looks into the mailbox, and says so."""

from __future__ import annotations

import imaplib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.policy import default
from typing import cast

from perdure.demo.errors import DemoError
from perdure.demo.screen import Screen
from perdure.demo.world import ImapAccess
from perdure.engine import Engine

_TIMEOUT_SECONDS = 10.0
_LOOK_EVERY_SECONDS = 0.5
# "It did not happen" is not accepted while the mail may still be under way, from a person either.
_PATIENCE_SECONDS = 12.0


@dataclass(frozen=True, slots=True)
class Letter:
    """A mail as it stands in a list of mails."""

    message_id: str
    to: str
    subject: str


def read_mailbox(imap: ImapAccess) -> list[Letter]:
    """Return what is in the mailbox, as any mail program would show it."""
    with imaplib.IMAP4(imap.host, imap.port, timeout=_TIMEOUT_SECONDS) as box:
        box.login(imap.user, imap.password)
        box.select(imap.mailbox, readonly=True)
        _, (numbers, *_) = box.search(None, "ALL")
        return [_letter(box, number) for number in cast("bytes", numbers).split()]


def _letter(box: imaplib.IMAP4, number: bytes) -> Letter:
    _, parts = box.fetch(number.decode("ascii"), "(BODY.PEEK[HEADER])")
    raw = b"".join(part[1] for part in parts if isinstance(part, tuple))
    header = message_from_bytes(raw, policy=default)
    words = (str(header[name] or "").strip() for name in ("Message-ID", "To", "Subject"))
    return Letter(*words)


def verdict(engine: Engine, run_id: str, imap: ImapAccess, screen: Screen, show: Callable[[str], str]) -> Sequence[str]:
    """Settle the run's one question the way a person would, and return the arguments of the command that says so.

    Args:
        show: runs ``perdure inbox`` and returns what it printed.

    Raises:
        DemoError: there is no such question.
    """
    waiting = [item for owner, item in engine.inbox() if owner == run_id and item.kind == "in_doubt"]
    if not waiting or waiting[0].tool_call_id is None:
        raise DemoError("the run waits, and there is nothing about it in the inbox")
    call_id = waiting[0].tool_call_id
    screen.line("whether the mail was sent, only a person can tell now; the inbox says what about:", "ask")
    screen.block(show("inbox"))
    asked = json.loads(engine.call(call_id)["request"])
    letters = _look_for(imap, asked["to"], asked["subject"], screen)
    for letter in letters:
        screen.line(f'looking into the mailbox: "{letter.subject}" to {letter.to}, {letter.message_id}', "ask")
    if not letters:
        return [
            "resolve",
            call_id,
            "--did-not-happen",
            "--reason",
            "the mailbox does not have it",
            "--resume",
        ]
    found = letters[0]
    result = {"message_id": found.message_id, "to": [found.to], "reply": "seen in the mailbox"}
    told = ["--result", json.dumps(result), "--ref", found.message_id, "--reason", "seen in the mailbox"]
    return ["resolve", call_id, "--happened", *told, "--resume"]


def _look_for(imap: ImapAccess, to: str, subject: str, screen: Screen) -> list[Letter]:
    """Return the mails of this subject to this person; while there is none, look again, as a mail may be late."""
    until = time.monotonic() + _PATIENCE_SECONDS
    said = False
    while True:
        found = [one for one in read_mailbox(imap) if (one.to, one.subject) == (to, subject)]
        if found or time.monotonic() > until:
            return found
        if not said:
            screen.line(
                f"looking into the mailbox: it is not there; looking again for {_PATIENCE_SECONDS:.0f} s", "ask"
            )
            said = True
        time.sleep(_LOOK_EVERY_SECONDS)
