"""A hundred distinct secrets of every kind, and the search for them in every byte of a folder."""

from __future__ import annotations

import base64
import json
import random
import string
from dataclasses import dataclass
from pathlib import Path

from perdure.core.redact import forms_of

_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Canary:
    """A secret, and the text in which a program meets it."""

    kind: str
    value: str
    text: str


def canaries(count: int = 100, seed: int = 4) -> list[Canary]:
    """Return distinct secrets; each kind comes up several times."""
    draw = random.Random(seed)
    makers = (_known, _named, _header, _url)
    return [makers[number % len(makers)](draw, number) for number in range(count)]


def letters(draw: random.Random, length: int, among: str = _LETTERS) -> str:
    """Return random characters, of which one is a digit."""
    return "".join(draw.choice(among) for _ in range(length - 1)) + draw.choice(string.digits)


def _known(draw: random.Random, number: int) -> Canary:
    forms = {
        "aws": lambda: "AKIA" + letters(draw, 16, string.ascii_uppercase + string.digits),
        "github": lambda: "ghp_" + letters(draw, 36),
        "slack": lambda: "xoxb-" + letters(draw, 24),
        "stripe": lambda: "sk_live_" + letters(draw, 24),
        "openai": lambda: "sk-proj-" + letters(draw, 40),
        "anthropic": lambda: "sk-ant-" + letters(draw, 40),
        "google": lambda: "AIza" + letters(draw, 35),
        "jwt": lambda: f"eyJ{letters(draw, 20)}.eyJ{letters(draw, 30)}.{letters(draw, 43)}",
        "pem": lambda: (
            f"-----BEGIN PRIVATE KEY-----\n{letters(draw, 64)}\n{letters(draw, 30)}\n-----END PRIVATE KEY-----"
        ),
        "sendgrid": lambda: f"SG.{letters(draw, 22)}.{letters(draw, 43)}",
    }
    kind = sorted(forms)[number // 4 % len(forms)]
    value = forms[kind]()
    return Canary(kind, value, f"it is {value} today")


def _named(draw: random.Random, number: int) -> Canary:
    names = ("password", "api_key", "client_secret", "accessToken", "db_passphrase", "Cookie")
    name, value = names[number // 4 % len(names)], letters(draw, 18)
    text = json.dumps({name: value}) if number % 8 < 4 else f"{name}={value}"
    return Canary("named", value, text)


def _header(draw: random.Random, number: int) -> Canary:
    if number // 4 % 2:
        value = letters(draw, 16)
        coded = base64.b64encode(f"user:{value}".encode()).decode()
        return Canary("basic", value, f"Authorization: Basic {coded}")
    value = letters(draw, 30)
    return Canary("bearer", value, f"curl -H 'Authorization: Bearer {value}'")


def _url(draw: random.Random, number: int) -> Canary:
    value = letters(draw, 14)
    texts = (
        f"postgresql://app:{value}@db.example.org/main",
        f"https://example.org/hook?x=1&token={value}",
        f"Server=db;Uid=app;Pwd={value};",
    )
    return Canary("url", value, texts[number // 4 % len(texts)])


def found_in(data: bytes, value: str) -> str | None:
    """Return the form in which a secret stands in some bytes, or ``None``."""
    for form in forms_of(value):
        if form.encode("utf-8") in data:
            return form
    return None


def found_below(folder: Path, values: list[str]) -> list[str]:
    """Return where secrets stand in the files below a folder, in any form."""
    hits: list[str] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            hits += [f"{path.relative_to(folder)}: {value}" for value in values if found_in(data, value)]
    return hits
