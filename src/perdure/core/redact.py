"""What looks like a secret in a text: well-known forms of tokens, values beside telling names, and known values.

A JSON text is looked at string by string, so that what is stored of it is JSON again; a JSON text inside a string
likewise. Nothing here knows where the text goes, and the caller says what stands in the place of a secret. Marks that
stand in a text already are left whole. Patterns run on RE2: no text can make them slow.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from perdure.core.json_places import decoded, fragments, is_json, places, without_surrogates
from perdure.core.secret_rules import IN_JSON, NAMES, NUMBER_NAMES, QUOTED, RULES, SHORT_MARK, WEAK, Rule

SHORTEST_VALUE = 4
_SHORTEST_ENCODED = 8
_MOST_MEMORY = 64 << 20
_MOST_NESTED = 4
_LONGEST_NAME = 200
WHOLE = "named.value"
"""The kind of a mark that stands, with quotes of its own, for a JSON value that is no text."""
_CUT = "\u2026"
_CLOSERS = f",]}}): \t{_CUT}"
_NUMBER = re.compile(r"-?[0-9][0-9.eE+\-]*\Z")
_QUOTE = re.compile(r"(\\*)([\"'])")
_ESCAPED = re.compile(r"\\+(?:u00([0-7][0-9a-fA-F])|([\"'/])|[nrt])")
_SHORT_MARK = re.compile(SHORT_MARK)


@dataclass(frozen=True, slots=True)
class Span:
    """Where a secret stands in a text, and of what kind it is."""

    start: int
    end: int
    kind: str


class Redactor:
    """Finds secrets by the rules and by known values; safe to use from several threads.

    Args:
        rules: the forms that are looked for; none where redaction is off.
    """

    def __init__(self, rules: Iterable[Rule] = RULES) -> None:
        self._rules = tuple(rules)
        self._first_look: Any = None
        self._kinds: dict[str, str] = {}
        self._values: Any = None

    @property
    def is_on(self) -> bool:
        """Whether anything is looked for."""
        return bool(self._rules)

    def know(self, kind: str, value: str) -> None:
        """Look for a value from now on, in the forms in which it may stand in a text; too short ones are left alone."""
        if not self.is_on:
            return
        known = len(self._kinds)
        for form in forms_of(value):
            self._kinds.setdefault(form, kind)
        while known != len(self._kinds):
            # Another thread may add a value meanwhile; whoever assigns last must have seen all of them.
            known = len(self._kinds)
            longest_first = sorted(tuple(self._kinds), key=lambda form: (-len(form), form))
            self._values = _compile("|".join(map(_quoted, longest_first)))

    def spans(self, text: str, *, by_line: bool = False) -> list[Span]:
        """Return where secrets stand, from left to right; none of them overlap.

        Args:
            by_line: the text is a page or a screen; what stands beside a telling name ends with its line.
        """
        text = without_surrogates(text)
        return list(_apart(self._found(text, by_line, 0))) if self._may_hold(text) else []

    def redact(self, text: str, mark: Callable[[str, str], str], *, by_line: bool = False) -> str:
        """Return a text in which ``mark(kind, secret)`` stands for each secret; what was JSON is JSON again."""
        spans = self.spans(text, by_line=by_line)
        if not spans:
            return text
        parts: list[str] = []
        at = 0
        for span in spans:
            told = mark(span.kind, text[span.start : span.end])
            parts += (text[at : span.start], f'"{told}"' if span.kind == WHOLE else told)
            at = span.end
        return "".join((*parts, text[at:]))

    def _may_hold(self, text: str) -> bool:
        """Return whether it is worth a closer look: what is in a string's text is in the whole text too."""
        return self._hits(text) or ("\\" in text and self._hits(_ESCAPED.sub(_meant, text)))

    def _hits(self, text: str) -> bool:
        if self._rules and self._first_look is None:
            self._first_look = _any_of(self._rules)  # looked up once: to hash the rules takes longer than to search
        if self._first_look is not None and self._first_look.search(text) is not None:
            return True
        return self._values is not None and self._values.search(text) is not None

    def _found(self, text: str, by_line: bool, depth: int) -> Iterator[Span]:
        """Yield what is found in a text; spans may overlap.

        Args:
            depth: in how many JSON strings the text stands.
        """
        if is_json(text):
            yield from self._in_json(text, (0, len(text)), None, depth)
        elif depth == 0 and _NUMBER.match(text):
            yield from self._number(text, 0, None, depth)
        else:
            yield from self._in_text(text, by_line, depth)

    def _in_text(self, text: str, by_line: bool, depth: int) -> Iterator[Span]:
        at = 0
        for start, end in fragments(text):
            yield from self._plain(text[at:start], at, by_line)
            name = _name_before(text[max(0, start - _LONGEST_NAME) : start])
            yield from self._in_json(text, (start, end), name, depth)
            at = end
        yield from self._plain(text[at:], at, by_line)

    def _in_json(self, text: str, part: tuple[int, int], name: str | None, depth: int) -> Iterator[Span]:
        for place in places(text, *part, name):
            raw = text[place.start : place.end]
            if place.is_number:
                yield from self._number(raw, place.start, place.name, depth)
                continue
            says, starts = decoded(raw)
            for span in _apart(self._in_string(says, place.name, depth)):
                first, last = (span.start, span.end) if starts is None else (starts[span.start], starts[span.end])
                yield Span(place.start + first, place.start + last, span.kind)

    def _in_string(self, says: str, name: str | None, depth: int) -> Iterator[Span]:
        if says and name is not None and _tells(name):
            yield from _around_marks(says, [Span(0, len(says), "named")])
        elif says and self._may_hold(says):
            if depth < _MOST_NESTED:
                yield from self._found(says, False, depth + 1)
            else:
                yield from self._plain(says, 0, False)

    def _number(self, text: str, at: int, name: str | None, depth: int) -> Iterator[Span]:
        """Yield a number that is a secret; its mark has quotes, except in a string, where they would end the string."""
        known = self._values is not None and self._values.search(text) is not None
        if known or (self._rules and name is not None and _tells_of_number(name)):
            yield Span(at, at + len(text), "named" if depth else WHOLE)

    def _plain(self, text: str, at: int, by_line: bool) -> Iterator[Span]:
        values = self._values
        found = [
            Span(match.start(), match.end(), self._kinds[match.group(0)])
            for match in (values.finditer(text) if values is not None else ())
        ]
        if self._rules and _any_of(self._rules).search(text) is not None:
            found += _by_rules(self._rules, text, by_line)
        for span in _around_marks(text, found):
            yield Span(at + span.start, at + span.end, span.kind)


def _by_rules(rules: tuple[Rule, ...], text: str, by_line: bool) -> Iterator[Span]:
    marks = [found.span() for found in _SHORT_MARK.finditer(text)]
    quotes, at = _Quotes(text), 0
    for rule in rules:
        for match in () if rule.how == IN_JSON else _compile(rule.pattern).finditer(text):
            before = bisect_left(marks, (match.start() + 1,)) - 1
            if before >= 0 and match.start() < marks[before][1]:
                continue  # what a mark says of itself is no secret
            start, end = match.span(1)
            if rule.how == QUOTED:
                if start < at:
                    continue  # it is part of the value before
                start, end = quotes.value(start, end, by_line)
                at = end
            if by_line and rule.kind == "named" and "\n" in text[match.start() : end]:
                continue
            if rule.how == WEAK and not any(char.isdigit() or char.isupper() for char in text[start + 1 : end]):
                continue
            yield Span(start, end, rule.kind)


class _Quotes:
    """Where the quotes of a text are, and of which a value ends at which."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._places: dict[tuple[int, str], list[int]] | None = None

    def value(self, start: int, end: int, by_line: bool) -> tuple[int, int]:
        """Return what a quote encloses, which is nothing where it is the end of a text and not the beginning of one.

        Args:
            start, end: where the quote is, with the backslashes before it.
            by_line: without an end on its line a value ends with the line.
        """
        text = self._text
        if self._is_within(start, end) and text[end : end + 1] in _CLOSERS:
            return end, end
        level, quote = end - start - 1, text[end - 1]
        limit = self._line_end(end) if by_line else len(text)
        for found in _QUOTE.finditer(text, end, limit):
            before = len(found[1])
            if found[2] == quote and (before < level or before % (2 * level + 2) == level):
                # Of an even number of backslashes before a bare quote all belong to the value.
                last = found.end() - 1 - (level if before >= level else before)
                break
        else:
            last = self._line_end(end)
            cut = text.find(_CUT, end, last) if by_line else -1
            last = cut if cut >= 0 else last
        return end, last

    def _line_end(self, at: int) -> int:
        found = self._text.find("\n", at)
        return len(self._text) if found < 0 else found

    def _is_within(self, start: int, end: int) -> bool:
        """Return whether a quote of the same kind is open before this one, on its line."""
        if self._places is None:
            self._places = {}
            for found in _QUOTE.finditer(self._text):
                self._places.setdefault((len(found[1]), found[2]), []).append(found.start())
        same = self._places.get((end - start - 1, self._text[end - 1]), [])
        return (bisect_left(same, start) - bisect_left(same, self._text.rfind("\n", 0, start) + 1)) % 2 == 1


def _around_marks(text: str, found: Iterable[Span]) -> Iterator[Span]:
    """Yield spans without the marks that stand in them already."""
    marks = [mark.span() for mark in _SHORT_MARK.finditer(text)]
    for span in found:
        at = span.start
        for start, end in marks[max(0, bisect_left(marks, (at,)) - 1) : bisect_left(marks, (span.end,))]:
            if end > at:
                if text[at:start].strip():
                    yield Span(at, start, span.kind)
                at = end
        if at < span.end:
            yield Span(at, span.end, span.kind)


def _apart(found: Iterable[Span]) -> Iterator[Span]:
    """Yield spans that do not overlap: of two that do, the one that begins first, and of those the longest."""
    at = 0
    for span in sorted(found, key=lambda item: (item.start, -item.end)):
        if span.end <= at or span.start == span.end:
            continue
        yield span if span.start >= at else Span(at, span.end, span.kind)
        at = span.end


def forms_of(value: str) -> Iterator[str]:
    """Yield the forms in which a value may stand in a text: plain, in JSON, in a URL, in base64 at any place."""
    if len(value) < SHORTEST_VALUE:
        return
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    data = value.encode("utf-8", "surrogatepass")
    for safe in ("", "/"):
        escaped = _percent(data, safe)
        for form in (escaped, _lower_hex(data, safe)):
            yield from (form, form.replace("%20", "+"))
    for shift in range(3):
        # What stands before it moves the value's bits; the characters that it shares with its neighbours are left out.
        coded = base64.b64encode(bytes(shift) + data).decode("ascii").rstrip("=")
        first = (shift * 8 + 5) // 6
        last = (shift + len(data)) * 8 // 6
        middle = coded[first:last]
        if len(middle) >= _SHORTEST_ENCODED:
            yield middle
            yield middle.replace("+", "-").replace("/", "_")


def _percent(data: bytes, safe: str) -> str:
    return "".join(chr(byte) if chr(byte) in _UNRESERVED + safe else f"%{byte:02X}" for byte in data)


def _lower_hex(data: bytes, safe: str) -> str:
    return "".join(chr(byte) if chr(byte) in _UNRESERVED + safe else f"%{byte:02x}" for byte in data)


_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"


def has_telling_name(text: bytes) -> bool:
    """Return whether a JSON text has a name in it that tells of a secret.

    What is hashed with a key depends on it, and so does the identity of calls: the names never change.
    """
    return _telling().search(text) is not None


@lru_cache(maxsize=4096)
def _tells(name: str) -> bool:
    """Return whether the value of a key is a secret."""
    return _compile(rf"(?i)\b(?:{NAMES})s?[\s:=]*\z").search(name) is not None


@lru_cache(maxsize=4096)
def _tells_of_number(name: str) -> bool:
    return _compile(rf"(?i)\b(?:{NUMBER_NAMES})[\s:=]*\z").search(name) is not None


def _name_before(text: str) -> str | None:
    """Return the telling name that a text ends with, before a value."""
    found = _compile(rf"(?i)\b({NAMES})s?[\"']?\s*[=:]\s*\z").search(text)
    return None if found is None else str(found.group(1))


def _meant(escape: re.Match[str]) -> str:
    """Return, for an escape of JSON, the character that it means; a space for the rest."""
    return chr(int(escape[1], 16)) if escape[1] else escape[2] or "\n"


@lru_cache(maxsize=1)
def _telling() -> Any:
    return _re2().compile(rf"(?i)\"{NAMES}s?\"\s*:".encode())


def tells_of_secret(name: str) -> bool:
    """Return whether a name, of a variable or a field, tells that its value is a secret."""
    return _compile(rf"(?i){NAMES}|{NAMES}s|[A-Z0-9_]*_KEY|[A-Z0-9_]*_DSN").fullmatch(name) is not None


def table() -> list[tuple[str, str]]:
    """Return the rules for the page, as (kind, what)."""
    return [(rule.kind, rule.what) for rule in RULES]


def _quoted(text: str) -> str:
    return "".join(char if char.isalnum() or char == "_" else f"\\x{{{ord(char):x}}}" for char in text)


@lru_cache(maxsize=4)
def _any_of(rules: tuple[Rule, ...]) -> Any:
    return _compile(
        "|".join(
            f"(?:{rule.pattern.replace('(?i)', '(?i:', 1)}{')' if '(?i)' in rule.pattern else ''})" for rule in rules
        )
    )


@lru_cache(maxsize=256)
def _compile(pattern: str) -> Any:
    re2 = _re2()
    options = re2.Options()
    options.max_mem = _MOST_MEMORY
    options.log_errors = False
    return re2.compile(pattern, options)


def _re2() -> Any:
    import re2  # type: ignore[import-untyped]

    return re2
