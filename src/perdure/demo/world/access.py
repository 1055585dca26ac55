"""How a world is reached: fixed names, and secrets that only the owner of its folder can read."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

REGION = "us-east-1"
BUCKET = "reports"
MAIL_USER = "demo"
NOTICES_PATH = "/notices"


@dataclass(frozen=True, slots=True)
class S3Access:
    """Where the S3 server is and how to use it."""

    endpoint: str
    bucket: str
    access_key: str
    secret_key: str
    region: str


@dataclass(frozen=True, slots=True)
class SmtpAccess:
    """Where mail is handed in; no login, no TLS."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ImapAccess:
    """Where the mailbox is searched; no TLS."""

    host: str
    port: int
    user: str
    password: str
    mailbox: str = "INBOX"


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a client needs to know besides the addresses."""

    s3_access_key: str
    s3_secret_key: str
    mail_password: str


def make_secrets(folder: Path) -> Secrets:
    """Return the secrets of a folder, making them if it has none yet."""
    path = folder / "secrets.json"
    if not path.exists():
        fresh = Secrets(secrets.token_hex(10), secrets.token_hex(20), secrets.token_urlsafe(16))
        draft = path.with_suffix(".new")
        draft.touch(mode=0o600)
        draft.write_text(json.dumps(asdict(fresh)))
        draft.replace(path)
    return read_secrets(folder)


def read_secrets(folder: Path) -> Secrets:
    """Return the secrets of a folder that has them."""
    told: dict[str, str] = json.loads((folder / "secrets.json").read_text())
    return Secrets(**told)
