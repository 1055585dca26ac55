"""What looks like a secret in a text: well-known forms of tokens, values beside telling names, and known values.

The text is what stands in a row or on a screen: often JSON, whose quotes may be escaped. Nothing here knows where it
goes, and the caller says what stands in the place of a secret. Patterns run on RE2: no text can make them slow.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

SHORTEST_VALUE = 4
_SHORTEST_ENCODED = 8
_MOST_MEMORY = 64 << 20

# Words at the end of a name; those that are short must stand alone, so that "spin" and "author" tell nothing.
_LONG_NAMES = (
    r"password|passwd|passphrase|passcode|secret|token"
    r"|api[_\- ]?key|access[_\- ]?key|secret[_\- ]?key|private[_\- ]?key"
    r"|signing[_\- ]?key|encryption[_\- ]?key|account[_\- ]?key|authorization|cookie|credential|credentials"
    r"|connection[_\- ]?string|session[_\- ]?id|security[_\- ]?code"
)
_SHORT_NAMES = r"pwd|pin|otp|cvv|cvc|auth|pat"
_ALONE = rf"(?:[A-Za-z0-9_.\-]*[_.\-])?(?:{_SHORT_NAMES})"
NAMES = rf"(?:[A-Za-z0-9_.\-]*(?:{_LONG_NAMES})|{_ALONE})"
_NUMBER_NAMES = rf"(?:[A-Za-z0-9_.\-]*(?:password|passcode|secret|security[_\- ]?code)|{_ALONE})"
_BEGIN, _END = "\u2039", "\u203a"
MARK = rf"(?:{_BEGIN}|\\u2039)redacted:[A-Za-z0-9_.\-]+:[0-9a-f]{{16}}(?::[A-Za-z0-9_=\-]*)?(?:{_END}|\\u203a)"


@dataclass(frozen=True, slots=True)
class Rule:
    """One form of secret.

    Args:
        kind: stands in the mark.
        pattern: RE2; what is in its first group is the secret.
        what: for the page.
        weak: the value must have a digit or a capital inside it, or prose would be taken for secrets.
    """

    kind: str
    pattern: str
    what: str
    weak: bool = False


RULES: tuple[Rule, ...] = (
    Rule("mark", rf"({MARK})", "text that has the form of our own marks, so that it is never taken for one"),
    Rule(
        "private-key",
        r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)",
        "a private key in PEM or PGP armour",
    ),
    Rule("jwt", r"(eyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*)", "a JSON web token"),
    Rule("aws-key-id", r"\b((?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AROA|ANPA|ANVA)[A-Z0-9]{16})\b", "an AWS access key id"),
    Rule("github", r"(gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})", "a GitHub token"),
    Rule("gitlab", r"(gl(?:pat|dt|rt|ptt|ft|soat)-[A-Za-z0-9_\-]{20,})", "a GitLab token"),
    Rule("slack", r"(xox[abeoprs]-[A-Za-z0-9\-]{10,}|xapp-[A-Za-z0-9\-]{10,})", "a Slack token"),
    Rule(
        "slack-webhook",
        r"hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_\-]{20,})",
        "the path of a Slack webhook",
    ),
    Rule("stripe", r"\b((?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{16,})", "a Stripe key"),
    Rule("llm-key", r"\b(sk-[A-Za-z0-9_\-]{20,})", "a key of OpenAI, Anthropic and others that begin with sk-"),
    Rule("google", r"(AIza[A-Za-z0-9_\-]{35}|ya29\.[A-Za-z0-9_\-]{16,}|GOCSPX-[A-Za-z0-9_\-]{16,})", "a key of Google"),
    Rule("sendgrid", r"(SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,})", "a SendGrid key"),
    Rule("registry", r"(npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_\-]{50,})", "a token of npm or PyPI"),
    Rule("huggingface", r"\b(hf_[A-Za-z0-9]{30,})", "a Hugging Face token"),
    Rule("twilio", r"\b((?:SK|AC)[0-9a-f]{32})\b", "a Twilio key"),
    Rule("digitalocean", r"(do[opr]_v1_[a-f0-9]{64})", "a DigitalOcean token"),
    Rule("telegram", r"\b([0-9]{8,10}:[A-Za-z0-9_\-]{35})\b", "the token of a Telegram bot"),
    Rule("azure", r"(?i)(?:AccountKey|SharedAccessKey|sig)=([A-Za-z0-9+/%]{20,}={0,2})", "a key in an Azure string"),
    Rule(
        "header",
        r"(?i)\b(?:bearer|basic|digest|apikey|token)\s+([A-Za-z0-9._~+/\-]{8,}=*)",
        "what follows Bearer, Basic or Token",
        weak=True,
    ),
    Rule("url-password", r"[A-Za-z][A-Za-z0-9+.\-]*://[^\s/:@\"'\\]*:([^\s/@\"'\\]+)@", "the password of a URL"),
    Rule(
        "url-parameter",
        rf"(?i)[?&;](?:{NAMES}|key|sig|signature|code|x-amz-signature|x-goog-signature)=([^\s&;\"'\\#<>]+)",
        "a URL's parameter with a telling name",
    ),
    Rule("named", rf"(?i)\"{NAMES}\"\s*:\s*\"((?:[^\"\\]|\\.)+)\"", "a JSON text with a telling name"),
    Rule("named", rf"(?i)\"{_NUMBER_NAMES}\"\s*:\s*(-?[0-9][0-9.eE+\-]*)", "a JSON number with a telling name"),
    Rule("named", rf"(?i)\"{NAMES}s?\"\s*:\s*(\[\s*\"[^\[\]{{}}]*\"\s*\])", "a JSON list of texts with a telling name"),
    Rule(
        "named",
        rf"(?i)\b{NAMES}(?:\\*[\"'])?\s*[=:]\s*\\*[\"']((?:[^\"'\\\s]|\\[^\"'\\])[^\"'\\]*)",
        "a quoted value with a telling name, in any other text",
    ),
    Rule(
        "named", rf"(?i)\b{NAMES}\s*=\s*([^\s\"'\\&,;<>(){{}}\[\]{_BEGIN}]{{4,}})", "a value after a telling name and ="
    ),
    Rule(
        "named",
        rf"(?i)\b{NAMES}\s*:\s*([^\s\"'\\&,;<>(){{}}\[\]{_BEGIN}]{{6,}})",
        "a value after a telling name and a colon",
        weak=True,
    ),
)


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

    def spans(self, text: str) -> list[Span]:
        """Return where secrets stand, from left to right; none of them overlap."""
        try:
            return self._spans(text)
        except UnicodeEncodeError:  # a lone surrogate, as in the name of a file; the mark for it is as long
            return self._spans(text.encode("utf-8", "replace").decode("utf-8"))

    def _spans(self, text: str) -> list[Span]:
        values = self._values
        by_rule = bool(self._rules) and _any_of(self._rules).search(text) is not None
        if not by_rule and (values is None or values.search(text) is None):
            return []
        found = [*self._by_value(text, values), *(_by_rules(self._rules, text) if by_rule else ())]
        return list(_apart(found))

    def redact(self, text: str, mark: Callable[[str, str], str]) -> str:
        """Return a text in which ``mark(kind, secret)`` stands for each secret."""
        spans = self.spans(text)
        if not spans:
            return text
        parts: list[str] = []
        at = 0
        for span in spans:
            secret = text[span.start : span.end]
            told = mark(span.kind, secret)
            parts += (text[at : span.start], told if _stands_in_text(secret, span.kind) else f'"{told}"')
            at = span.end
        return "".join((*parts, text[at:]))

    def _by_value(self, text: str, values: Any) -> Iterator[Span]:
        for match in values.finditer(text) if values is not None else ():
            yield Span(match.start(), match.end(), self._kinds[match.group(0)])


WHOLE = "named.value"


def _stands_in_text(_secret: str, kind: str) -> bool:
    return kind != WHOLE


def _by_rules(rules: tuple[Rule, ...], text: str) -> Iterator[Span]:
    for rule in rules:
        for match in _compile(rule.pattern).finditer(text):
            if text[match.start() - 1 : match.start()] == "$":
                continue  # the tag of a declared secret, which says its name only
            start, end = match.span(1)
            secret = text[start:end]
            if rule.weak and not any(char.isdigit() or char.isupper() for char in secret[1:]):
                continue
            whole = rule.kind == "named" and text[start - 1 : start] != '"' and _is_bare_json(secret, rule)
            yield Span(start, end, WHOLE if whole else rule.kind)


def _is_bare_json(_secret: str, rule: Rule) -> bool:
    return "JSON number" in rule.what or "JSON list" in rule.what


def _apart(found: Iterable[Span]) -> Iterator[Span]:
    """Yield spans that do not overlap: of two that do, the one that begins first, and of those the longest."""
    at = 0
    for span in sorted(found, key=lambda item: (item.start, -item.end)):
        if span.end <= at or span.start == span.end:
            continue
        if span.start >= at:
            yield span
            at = span.end
        elif span.kind != WHOLE:
            yield Span(at, span.end, span.kind)
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
