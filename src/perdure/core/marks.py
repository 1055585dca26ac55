"""Marks that stand for secrets: how one is written, found, opened and shown. What is enclosed is ``store.cipher``'s.

A whole mark carries the secret enciphered, so that the exact request can be sent again and a receipt be returned in
every life. Equal secrets of one kind have equal marks under one key, which keeps them comparable, and stored requests
byte for byte the same.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

from perdure.core.redact import WHOLE

TAG_BYTES = 8
MARK_BEGIN, MARK_END = "\u2039", "\u203a"
_KIND = r"[A-Za-z0-9_.\-]+"
_CODED = r"[A-Za-z0-9_=\-]*"
_MARK = re.compile(rf'("?){MARK_BEGIN}redacted:({_KIND}):([0-9a-f]{{16}})(?::({_CODED}))?{MARK_END}("?)')
_ANY_MARK = re.compile(
    rf"(?:{MARK_BEGIN}|\\u2039)redacted:({_KIND}):([0-9a-f]{{8}})[0-9a-f]{{8}}(?::{_CODED})?(?:{MARK_END}|\\u203a)"
)

_SEEN = re.compile(rf"{MARK_BEGIN}redacted:{_KIND}(?::[0-9a-f]{{8,16}})?(?::{_CODED})?{MARK_END}")


class MarkBroken(ValueError):
    """A mark cannot be opened: the key is another one, or the mark was damaged or carries nothing."""


def written(kind: str, sealed: bytes) -> str:
    """Return the mark of a sealed secret; what it begins with is the tag by which people compare marks."""
    rest = base64.urlsafe_b64encode(sealed[TAG_BYTES:]).decode("ascii")
    return f"{MARK_BEGIN}redacted:{kind}:{sealed[:TAG_BYTES].hex()}:{rest}{MARK_END}"


def opened(text: str, open_one: Callable[[str, bytes], str]) -> str:
    """Return a text with the secrets in place of their marks.

    Args:
        open_one: returns the secret of a kind and what was sealed; it raises ``MarkBroken`` where it cannot.

    Raises:
        MarkBroken: a mark is damaged or carries nothing.
    """

    def replaced(match: re.Match[str]) -> str:
        before, kind, tag, rest, behind = match.groups()
        if rest is None:
            raise MarkBroken(f"the value of {kind} was not kept")
        try:
            sealed = bytes.fromhex(tag) + base64.urlsafe_b64decode(rest)
        except binascii.Error:
            raise MarkBroken(f"the mark of {kind} is damaged") from None
        secret = open_one(kind, sealed)
        return secret if kind == WHOLE and before and behind else before + secret + behind

    return _MARK.sub(replaced, text)


def has_mark(text: str) -> bool:
    """Return whether a text has a mark in it."""
    return MARK_BEGIN in text and _MARK.search(text) is not None


def shortened(text: str) -> str:
    """Return a text for people: its marks say kind and tag, and carry nothing any more."""
    if MARK_BEGIN not in text and "\\u2039" not in text:
        return text
    return _ANY_MARK.sub(rf"{MARK_BEGIN}redacted:\1:\2{MARK_END}", text)


def whole_marks(text: str, at: int) -> int:
    """Return the place nearest before ``at`` where a text can be cut without cutting a mark."""
    begin = text.rfind(MARK_BEGIN, 0, at)
    found = _SEEN.match(text, begin) if begin >= 0 else None
    return begin if found is not None and found.end() > at else at


def blind_mark(kind: str, _secret: str) -> str:
    """Return a mark that says the kind only, where there is no key at hand."""
    return f"{MARK_BEGIN}redacted:{kind}{MARK_END}"
