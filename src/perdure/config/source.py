"""A YAML 1.2 or JSON file as plain values, with the line and column of each key and value.

Policies and jobs are written by people and sometimes by strangers, so the reader takes JSON's data model and
no more: no anchors, no tags, text keys, no duplicate keys, no lone surrogates, bounded size and depth.
Scalars follow the core schema of YAML 1.2.2 §10.3.2 (``on`` and ``2026-12-01`` are text).
"""

from __future__ import annotations

import bisect
import json
import math
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from perdure.model.problem import Problem

MAX_BYTES = 262_144
MAX_DEPTH = 64
MAX_PROBLEMS = 100
_NO_FILE = "is not a regular file"

Loc = tuple[int | str, ...]


class SourceError(Exception):
    """A file could not be read as plain values."""

    def __init__(self, problems: Sequence[Problem], *, readable: bool) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
        self.readable = readable


@dataclass(frozen=True, slots=True)
class Document:
    """The values of one file and where they stand.

    Args:
        values: path to the (line, column) where a value begins.
        keys: path to the (line, column) of the key that the path ends with.
    """

    file: str
    value: Any
    values: dict[Loc, tuple[int, int]]
    keys: dict[Loc, tuple[int, int]]

    def place(self, loc: Loc, *, key: bool = False) -> tuple[int, int]:
        """Return where ``loc`` stands, or the nearest thing around it that has a place."""
        if key and loc in self.keys:
            return self.keys[loc]
        while loc and loc not in self.values:
            loc = loc[:-1]
        return self.values.get(loc, (1, 1))

    def problem(self, loc: Loc, text: str, code: str = "", *, key: bool = False) -> Problem:
        """Return a problem that stands at ``loc``."""
        line, col = self.place(loc, key=key)
        return Problem(self.file, line, col, text, code)


def load_document(path: Path, *, name: str | None = None) -> Document:
    """Read a ``.json`` file as JSON, anything else as YAML.

    Args:
        path: the file.
        name: what to call it in messages; its path when left out.

    Raises:
        SourceError: it is missing, too large, not UTF-8, or not well formed; with all problems found.
    """
    shown = name or str(path)
    text = _read(path, shown)
    return parse_document(text, shown, is_json=path.suffix.lower() == ".json")


def _read(path: Path, shown: str) -> str:
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            _unreadable(shown, "is a folder; name the file in it" if stat.S_ISDIR(info.st_mode) else _NO_FILE)
        data = path.read_bytes() if info.st_size <= MAX_BYTES else b"\0" * (MAX_BYTES + 1)
    except FileNotFoundError:
        _unreadable(shown, "no such file")
    except (OSError, ValueError) as problem:
        _unreadable(shown, f"cannot be read: {getattr(problem, 'strerror', None) or problem}")
    if len(data) > MAX_BYTES:
        _unreadable(shown, f"is larger than {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        before = data[: problem.start]
        line, col = before.count(b"\n") + 1, problem.start - (before.rfind(b"\n") + 1) + 1
        raise SourceError([Problem(shown, line, col, "is not UTF-8 text")], readable=False) from None


def _unreadable(shown: str, text: str) -> NoReturn:
    raise SourceError([Problem(shown, 0, 0, text)], readable=False) from None


def parse_document(text: str, name: str, *, is_json: bool = False) -> Document:
    """Read text as :func:`load_document` reads a file."""
    builder = _Builder(name)
    try:
        return builder.build(_json_events(text, builder) if is_json else _yaml_events(text, builder))
    except _Stop:
        raise SourceError(sorted(builder.problems), readable=True) from None


# --- events: what both languages are brought to ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Event:
    """``map``, ``seq``, ``end``, or ``value`` with its value."""

    kind: str
    line: int
    col: int
    value: Any = None


class _Stop(Exception):
    """Nothing sensible can be read from here on."""


@dataclass(slots=True)
class _Builder:
    """Builds plain values from events and notes positions and problems."""

    file: str
    problems: list[Problem] = field(default_factory=list[Problem])
    values: dict[Loc, tuple[int, int]] = field(default_factory=dict[Loc, tuple[int, int]])
    keys: dict[Loc, tuple[int, int]] = field(default_factory=dict[Loc, tuple[int, int]])

    def note(self, line: int, col: int, text: str) -> None:
        self.problems.append(Problem(self.file, line, col, text))
        if len(self.problems) >= MAX_PROBLEMS:
            self.problems.append(Problem(self.file, line, col, "too many errors; the rest is not read"))
            raise _Stop

    def stop(self, line: int, col: int, text: str) -> NoReturn:
        self.note(line, col, text)
        raise _Stop

    def build(self, events: Iterator[_Event]) -> Document:
        first = next(events, None)
        if first is None:
            self.stop(1, 1, "the file is empty")
        value = self._node(first, events, ())
        for extra in events:  # runs the generator to its end, which is where late syntax errors are found
            self.stop(extra.line, extra.col, "only one document is expected in a file")
        if self.problems:
            raise _Stop
        return Document(self.file, value, self.values, self.keys)

    def _node(self, event: _Event, events: Iterator[_Event], loc: Loc) -> Any:
        if len(loc) > MAX_DEPTH:
            self.stop(event.line, event.col, f"is nested deeper than {MAX_DEPTH} levels")
        self.values[loc] = (event.line, event.col)
        if event.kind == "value":
            self._check_scalar(event)
            return event.value
        if event.kind == "seq":
            items = iter(lambda: self._next(events), None)
            return [self._node(item, events, (*loc, i)) for i, item in enumerate(items)]
        return self._mapping(events, loc)

    def _mapping(self, events: Iterator[_Event], loc: Loc) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (key := self._next(events)) is not None:
            name = self._key(key, events, loc)
            here = (*loc, name)
            if name in found:
                self.note(key.line, key.col, f"{name!r} stands here twice; first at line {self.keys[here][0]}")
            else:
                self.keys[here] = (key.line, key.col)
            found[name] = self._node(self._value_of(events), events, here)
        return found

    def _key(self, key: _Event, events: Iterator[_Event], loc: Loc) -> str:
        if key.kind != "value":
            self._node(key, events, (*loc, "?"))
            self.note(key.line, key.col, "a key must be text")
            return "?"
        self._check_scalar(key)
        if not isinstance(key.value, str):
            self.note(key.line, key.col, f"the key {key.value!r} must be text: put it in quotes")
        return str(key.value)

    def _check_scalar(self, event: _Event) -> None:
        value = event.value
        if isinstance(value, float) and not math.isfinite(value):
            self.note(event.line, event.col, "is no number that JSON can hold")
        if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
            self.note(event.line, event.col, "has a lone surrogate; in YAML write such a character as \\UXXXXXXXX")

    @staticmethod
    def _next(events: Iterator[_Event]) -> _Event | None:
        event = next(events)
        return None if event.kind == "end" else event

    @staticmethod
    def _value_of(events: Iterator[_Event]) -> _Event:
        return next(events)


# --- JSON -----------------------------------------------------------------------------------------

_JSON_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|[^\s{}\[\],:"]+')
_OPENS = {"{": "map", "[": "seq"}


def _json_events(text: str, builder: _Builder) -> Iterator[_Event]:
    """Yield the events of a JSON text: ``json`` says whether it is valid, the tokens say where things are."""
    if not text.strip():
        return
    _check_json(text, builder)
    starts = [0, *(found.end() for found in re.finditer(r"\n", text))]
    for token in _JSON_TOKEN.finditer(text):
        line = bisect.bisect_right(starts, token.start())
        place = (line, token.start() - starts[line - 1] + 1)
        word = token.group()
        if word in _OPENS:
            yield _Event(_OPENS[word], *place)
        elif word in ("}", "]"):
            yield _Event("end", *place)
        else:
            yield _Event("value", *place, json.loads(word))


def _check_json(text: str, builder: _Builder) -> None:
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as problem:
        builder.stop(problem.lineno, problem.colno, f"is not valid JSON: {problem.msg}")
    except RecursionError:
        builder.stop(1, 1, f"is nested deeper than {MAX_DEPTH} levels")
    except ValueError as problem:
        builder.stop(1, 1, f"is not valid JSON: {problem}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


# --- YAML -----------------------------------------------------------------------------------------

_STR_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def _yaml_events(text: str, builder: _Builder) -> Iterator[_Event]:
    from ruamel.yaml import YAML

    seen = (1, 1)
    documents = 0
    try:
        for raw in YAML(typ="safe", pure=True).parse(text):  # pyright: ignore[reportUnknownMemberType]
            kind = type(raw).__name__
            seen = _mark(raw.start_mark) or seen
            documents += kind == "DocumentStartEvent"
            if documents > 1:
                builder.stop(*seen, "only one document is expected in a file")
            event = _from_yaml(kind, raw, seen, builder)
            if event is not None:
                yield event
    except _Stop:
        raise
    except Exception as problem:  # a parser that meets hostile text may fail in any way; each is a bad file
        line, col = _mark(getattr(problem, "problem_mark", None)) or seen
        builder.stop(line, col, f"is not valid YAML: {_complaint(problem)}")


def _mark(mark: Any) -> tuple[int, int] | None:
    return None if mark is None else (int(mark.line) + 1, int(mark.column) + 1)


def _complaint(problem: Exception) -> str:
    said = getattr(problem, "problem", None) or getattr(problem, "reason", None) or str(problem)
    return " ".join(str(said).split()) or type(problem).__name__


def _from_yaml(kind: str, raw: Any, place: tuple[int, int], builder: _Builder) -> _Event | None:
    if kind == "AliasEvent":
        builder.note(*place, "aliases are not supported: write the value again")
        return _Event("value", *place)
    if kind in ("SequenceEndEvent", "MappingEndEvent"):
        return _Event("end", *place)
    if kind not in ("ScalarEvent", "SequenceStartEvent", "MappingStartEvent"):
        return None
    if raw.anchor is not None:
        builder.note(*place, "anchors are not supported: write the value again where it is needed")
    tag = None if raw.tag is None else str(raw.tag)
    if tag is not None and not (kind == "ScalarEvent" and tag in _STR_TAGS):
        builder.note(*place, f"the tag {tag!r} is not supported: only plain values are")
    if kind == "ScalarEvent":
        plain = tag is None and raw.implicit[0]
        return _Event("value", *place, _scalar(raw.value, place, builder) if plain else raw.value)
    return _Event("seq" if kind == "SequenceStartEvent" else "map", *place)


def _scalar(text: str, place: tuple[int, int], builder: _Builder) -> Any:
    """Return what a plain scalar means by the core schema."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _NO_NUMBER.fullmatch(text):
        builder.note(*place, f"{text} is no number that JSON can hold")
        return None
    if _INT.fullmatch(text):
        return _integer(text, place, builder)
    return float(text) if _FLOAT.fullmatch(text) else text


def _integer(text: str, place: tuple[int, int], builder: _Builder) -> int | None:
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    try:
        return int(text, base)
    except ValueError:
        builder.note(*place, "the number has too many digits")
        return None
