"""What every worker does in the outside world, the same for each system: standard library only.

A worker is a script in this folder, run by the interpreter of its own environment. The driver tells it by
environment variables what to do, and it tells the driver what it saw by lines on stdout that begin with COMPARE.
"""

import json
import os
import smtplib
import sys
import time
from email.message import EmailMessage

CODE = os.environ["COMPARE_CODE"]
"""Which program: `mail`, or `v1` and what it may be changed to: `added`, `renamed`, `mail_first`."""
LIFE = os.environ["COMPARE_LIFE"]
"""`start` or `resume`."""
VARIANT = os.environ.get("COMPARE_VARIANT", "")
TRIAL = os.environ["COMPARE_TRIAL"]
FOLDER = os.environ["COMPARE_FOLDER"]
SERVER = os.environ.get("COMPARE_SERVER", "")
"""Where the system's own server listens, for those that have one."""
WATCH_SECONDS = float(os.environ["COMPARE_WATCH_SECONDS"])
TO = "boss@example.org"


def say(event: str, **told: object) -> None:
    """Tell the driver something."""
    print("COMPARE " + json.dumps({"event": event, **told}), flush=True)


def said(status: str, detail: object = "") -> None:
    """Tell what the system says of the job now, and end the process.

    Args:
        status: `finished`, `failed`, `waiting` (for a person) or `pending` (none of these when the watch ended).
        detail: in the system's own words.
    """
    say("said", status=status, detail=str(detail))
    sys.stdout.flush()
    os._exit(0)


def watch_over() -> bool:
    """Whether the time to watch this life has passed."""
    return time.monotonic() - _watch["began"] > WATCH_SECONDS


def began_to_watch() -> None:
    """Start the clock of the watch: the system is up and the job is in its hands."""
    _watch["began"] = time.monotonic()
    say("watching")


_watch = {"began": time.monotonic()}


def send(subject: str, to: str = TO) -> dict[str, str]:
    """Send one mail; return when the mail server has accepted it with 250."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "job@example.org", to, subject
    mail.set_content(f"Trial {TRIAL}.\n")
    with _smtp() as smtp:
        smtp.send_message(mail)
    _hold_at(subject)
    return {"accepted": to}


def look(what: str) -> str:
    """Read something harmless from the outside: the mail server is asked for an address, and logs that."""
    with _smtp() as smtp:
        smtp.ehlo()
        smtp.verify(f"{what}@example.org")
    _hold_at(what)
    return f"{what} done"


def _smtp() -> smtplib.SMTP:
    port = int(os.environ["COMPARE_SMTP_PORT"])
    return smtplib.SMTP("127.0.0.1", port, local_hostname="job.example.org", timeout=30)


def _hold_at(point: str) -> None:
    """Stand still at the moment the driver wants to kill: it was done, and nobody has recorded that.

    The end of standard input means that the driver is gone.
    """
    if os.environ.get("COMPARE_HOLD") == point:
        say("holding", point=point)
        sys.stdin.buffer.read()
        os._exit(3)
