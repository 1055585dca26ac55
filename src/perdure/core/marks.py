"""Marks that stand for secrets, and what is enclosed in them: only the key gives it back, and nothing else needs it.

A whole mark carries the secret enciphered, so that the exact request can be sent again and a receipt be returned in
every life. The scheme is the synthetic-IV construction (RFC 5297) over standard primitives: the tag is
HMAC-SHA-256 of the secret and is the nonce too, the keystream is SHAKE-256. Equal secrets have equal marks under one
key, which keeps them comparable, and stored requests byte for byte the same.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass

from perdure.core.redact import WHOLE

KEY_BYTES = 32
TAG_CHARACTERS = 16
SHOWN_CHARACTERS = 8
MARK_BEGIN, MARK_END = "\u2039", "\u203a"
_KIND = r"[A-Za-z0-9_.\-]+"
_CODED = r"[A-Za-z0-9_=\-]*"
_MARK = re.compile(rf'("?){MARK_BEGIN}redacted:({_KIND}):([0-9a-f]{{16}})(?::({_CODED}))?{MARK_END}("?)')
_ANY_MARK = re.compile(
    rf"(?:{MARK_BEGIN}|\\u2039)redacted:({_KIND}):([0-9a-f]{{8}})[0-9a-f]{{8}}(?::{_CODED})?(?:{MARK_END}|\\u203a)"
)


class MarkBroken(ValueError):
    """A mark cannot be opened: the key is another one, or the mark was damaged or carries nothing."""


@dataclass(frozen=True, slots=True)
class MarkKey:
    """The three keys that one secret of a ledger stands for."""

    mac: bytes
    stream: bytes
    digest: bytes

    @staticmethod
    def of(secret: bytes) -> MarkKey:
        """Return the keys that are derived from ``KEY_BYTES`` random bytes."""
        return MarkKey(*(hmac.digest(secret, b"perdure " + use, "sha256") for use in (b"mac", b"stream", b"digest")))


def hide(key: MarkKey, kind: str, secret: str) -> str:
    """Return the mark that stands for a secret and carries it enciphered."""
    data = secret.encode("utf-8", "surrogatepass")
    tag = hmac.digest(key.mac, data, "sha256")[: TAG_CHARACTERS // 2]
    enciphered = base64.urlsafe_b64encode(_crypt(key, tag, data)).decode("ascii")
    return f"{MARK_BEGIN}redacted:{kind}:{tag.hex()}:{enciphered}{MARK_END}"


def reveal(key: MarkKey, text: str) -> str:
    """Return a text with the secrets in place of their marks.

    Raises:
        MarkBroken: a mark was not made with this key, or carries nothing.
    """

    def opened(match: re.Match[str]) -> str:
        before, kind, tag, enciphered, behind = match.groups()
        if enciphered is None:
            raise MarkBroken(f"the value of {kind} was not kept")
        try:
            data = _crypt(key, bytes.fromhex(tag), base64.urlsafe_b64decode(enciphered))
        except binascii.Error:
            raise MarkBroken(f"the mark of {kind} is damaged") from None
        if not hmac.compare_digest(hmac.digest(key.mac, data, "sha256")[: TAG_CHARACTERS // 2].hex(), tag):
            raise MarkBroken(f"the mark of {kind} was made with another key")
        secret = data.decode("utf-8", "surrogatepass")
        return secret if kind == WHOLE and before and behind else before + secret + behind

    return _MARK.sub(opened, text)


def has_mark(text: str) -> bool:
    """Return whether a text has a mark in it."""
    return MARK_BEGIN in text and _MARK.search(text) is not None


def shortened(text: str) -> str:
    """Return a text for people: its marks say kind and tag, and carry nothing any more."""
    if MARK_BEGIN not in text and "\\u2039" not in text:
        return text
    return _ANY_MARK.sub(rf"{MARK_BEGIN}redacted:\1:\2{MARK_END}", text)


def mark(key: MarkKey, kind: str, secret: str) -> str:
    """Return the short mark of a secret, as people see it."""
    return shortened(hide(key, kind, secret))


def blind_mark(kind: str, _secret: str) -> str:
    """Return a mark that says the kind only, where there is no key at hand."""
    return f"{MARK_BEGIN}redacted:{kind}{MARK_END}"


def _crypt(key: MarkKey, tag: bytes, data: bytes) -> bytes:
    stream = hashlib.shake_256(key.stream + tag).digest(len(data))
    return bytes(left ^ right for left, right in zip(data, stream, strict=True))
