"""Where the strings and numbers of a JSON text stand, each with the name it goes by; the text itself stays as it is.

A secret is looked for in what a string says, and is replaced where it stands in the text: quotes and commas of the
text are never part of a value, and every byte that is no secret is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_PART = re.compile(
    r'"(?P<string>[^"\\]*(?:\\.[^"\\]*)*)"|(?P<opened>[{\[])|(?P<closed>[}\]])|(?P<number>-?[0-9][0-9.eE+\-]*)'
    r"|(?P<word>-?[A-Za-z]+)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_BEGINS = re.compile(r'[{\[]\s*["{\[}\]0-9\-tfn]')
_DECODER = json.JSONDecoder(strict=False)
_MOST_FAILURES = 64
_SECRET_NAME, _PAIRS = "$secret", "$map"


@dataclass(frozen=True, slots=True)
class Place:
    """A string, a key or a number of a JSON text.

    Args:
        start, end: where it stands in the text; of a string without its quotes.
        name: the key that it is the value of, directly or in a list; ``None`` where it has none.
    """

    start: int
    end: int
    is_number: bool = False
    name: str | None = None


@dataclass(slots=True)
class _Open:
    """A list or an object that is not closed yet."""

    is_object: bool
    name: str | None
    wants_key: bool
    key: str = ""
    holds_pairs: bool = False
    is_pair: bool = False
    items: int = 0

    def name_here(self) -> str | None:
        """Return the name of what comes next."""
        if not self.is_object:
            return self.key if self.is_pair and self.items == 1 else self.name
        if not self.key.startswith("$"):
            return self.key
        return None if self.key == _SECRET_NAME else self.name  # a tag says of what type the value is

    def passed(self, text: str | None) -> None:
        """Hear that a value is over, and what it says where it is a string."""
        if self.is_pair and self.items == 0:
            self.key = text or ""
        self.items += 1
        self.wants_key = self.is_object


def is_json(text: str) -> bool:
    """Return whether a text is a JSON object, list or string."""
    if not text.lstrip()[:1] or text.lstrip()[:1] not in '{["':
        return False
    return _ends_at(text, len(text) - len(text.lstrip())) == len(text.rstrip())


def _ends_at(text: str, at: int) -> int | None:
    try:
        return _DECODER.raw_decode(text, at)[1]
    except (ValueError, RecursionError):
        return None


def fragments(text: str) -> Iterator[tuple[int, int]]:
    """Yield where JSON objects and lists stand in a text, from left to right."""
    at, failures = 0, 0
    while failures < _MOST_FAILURES and (found := _BEGINS.search(text, at)) is not None:
        end = _ends_at(text, found.start())
        if end is None:
            failures += 1
            at = found.start() + 1
        else:
            yield found.start(), end
            at = end


def places(text: str, start: int, end: int, name: str | None = None) -> Iterator[Place]:
    """Yield the strings, keys and numbers of the JSON text that stands in ``text[start:end]``.

    Args:
        name: what the whole goes by.
    """
    stack: list[_Open] = []
    for part in _PART.finditer(text, start, end):
        kind, top = part.lastgroup, stack[-1] if stack else None
        if kind == "opened":
            stack.append(_opened(part.group() == "{", top, name))
            continue
        if kind == "closed":
            stack.pop()
            if stack:
                stack[-1].passed(None)
            continue
        says = decoded(part["string"])[0] if kind == "string" and _is_name(top) else None
        if top is not None and top.wants_key:
            top.key, top.wants_key = says or "", False
            yield Place(*part.span("string"))
            continue
        if kind != "word":
            yield Place(*part.span(kind or 0), kind == "number", name if top is None else top.name_here())
        if top is not None:
            top.passed(says)


def _is_name(top: _Open | None) -> bool:
    return top is not None and (top.wants_key or (top.is_pair and top.items == 0))


def _opened(is_object: bool, top: _Open | None, name: str | None) -> _Open:
    found = _Open(is_object, name if top is None else top.name_here(), wants_key=is_object)
    if top is not None and not is_object:
        found.holds_pairs = top.is_object and top.key == _PAIRS
        found.is_pair = top.holds_pairs
    return found


def decoded(raw: str) -> tuple[str, tuple[int, ...] | None]:
    """Return what a JSON string says, and where each of its characters begins in the text; ``None``: one for one."""
    if "\\" not in raw:
        return raw, None
    starts: list[int] = []
    at = 0
    for escape in _ESCAPE.finditer(raw):
        starts.extend(range(at, escape.start()))
        starts.append(escape.start())
        at = escape.end()
    starts.extend(range(at, len(raw) + 1))
    says: Any = json.loads(f'"{raw}"', strict=False)
    return without_surrogates(says), tuple(starts)


def without_surrogates(text: str) -> str:
    """Return a text of the same length that can be written as UTF-8."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)
