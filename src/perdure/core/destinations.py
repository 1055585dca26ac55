"""Where the arguments of a call lead: the hosts of URLs and addresses in them, and whether a job allows these (R035).

Fail closed: what different readers could take for different hosts counts as each of them, and a host that cannot be
read for certain is not allowed. Nothing is resolved and nothing is fetched; a redirect is the tool's own affair.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

_SPECIAL = re.compile(r"(?:https?|wss?|ftps?|sftp|ssh|git)\s*:[/\\]*", re.IGNORECASE)
_ANY_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:[/\\]{2}", re.IGNORECASE)
_BARE = re.compile(r"(?<![a-z0-9:/\\.@-])(?:[/\\]{2}|www\.)(?=[^\s/\\])", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<=[^\s@<>,;])@(?=\s*(\[[^\]\s]*\]|[^\s@<>,;()\"'/\\?#\]}|]+))")
"""Consumes nothing but the ``@``: what follows one may itself be the name before the next."""
_HOST_PARAMETERS = frozenset(
    (
        *("url", "uri", "urls", "uris", "href", "link", "links", "base_url", "webhook", "callback", "origin", "site"),
        *("host", "hosts", "hostname", "domain", "domains", "server", "endpoint", "address"),
    )
)
_HOST_ENDINGS = ("_url", "_uri", "_host", "_domain", "_server", "_endpoint")
_FILE_ENDINGS = frozenset(
    (
        *("txt", "md", "rst", "log", "tex", "bib", "html", "htm", "xhtml", "css", "xml", "svg"),
        *("json", "jsonl", "yaml", "yml", "toml", "ini", "cfg", "csv", "tsv", "parquet", "sql", "db", "sqlite"),
        *("pdf", "doc", "docx", "odt", "xls", "xlsx", "ods", "ppt", "pptx", "odp", "rtf", "epub", "eml"),
        *("png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "ico", "mp3", "mp4", "wav", "ogg", "webm"),
        *("py", "ipynb", "js", "ts", "jsx", "tsx", "c", "h", "cpp", "java", "go", "rb", "sh"),
        *("zip", "gz", "tgz", "tar", "bz2", "xz", "zst", "whl", "lock", "bak", "tmp"),
    )
)
_DOTTED = re.compile(r"[^\s/\\?#@:]+\.(xn--[a-z0-9-]+|[^\W\d_]{2,})\.?(:\d{1,5})?(?=$|[/?#])", re.IGNORECASE)
_WITH_PORT = re.compile(r"(?:localhost|\d+(?:\.\d+){3}|\[[0-9a-f:.]+\]):\d{1,5}(?=$|[/?#])", re.IGNORECASE)
_AMBIGUOUS = frozenset("\u00df\u03c2\u200c\u200d")
"""Characters that the two versions of IDNA read differently."""
_END_OF_TEXT = ".,;:!?'\")]}>*_`"


@dataclass(frozen=True, slots=True)
class Destination:
    """One host that an argument leads to.

    Args:
        host: as it is compared: lower case, punycode, no trailing dot; ``None`` where it cannot be read for certain.
        port: the one that is named, if one is.
        shown: what stands in the argument.
    """

    host: str | None
    port: int | None
    shown: str


def refused_destinations(allowed: Sequence[str], arguments: str) -> list[str]:
    """Return what in the arguments of a call leads somewhere that is not allowed.

    Args:
        allowed: hosts such as ``example.org``, which means that host alone, ``*.example.org`` for every host below it,
            and either with ``:port``.
        arguments: the exact request as JSON.
    """
    patterns = [pattern for item in allowed if (pattern := _pattern(item)) is not None]
    refused = {found.shown for found in destinations(json.loads(arguments)) if not _allows(patterns, found)}
    return sorted(refused)


def allowed_problem(item: str) -> str | None:
    """Return why an entry of ``allowed_domains`` means nothing, or ``None``."""
    if _pattern(item) is None:
        return f"{item!r} is no host: write example.org, *.example.org or 127.0.0.1:8080, without a scheme or a path"
    return None


# --- finding -----------------------------------------------------------------------------------------------------


def destinations(value: Any, parameter: str = "") -> Iterator[Destination]:
    """Yield every host that a value leads to, however deep it stands; keys of mappings are looked at too.

    Args:
        parameter: the name under which the value stands.
    """
    if isinstance(value, str):
        yield from _of_text(value, parameter)
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, Any]", value).items():
            yield from _of_text(key, "")
            yield from destinations(item, parameter if key.startswith("$") else key)
    elif isinstance(value, list):
        for item in cast("Sequence[Any]", value):
            yield from destinations(item, parameter)


def _of_text(text: str, parameter: str) -> Iterator[Destination]:
    yield from _in_text(text)
    if " " not in text:
        # Some readers leave line breaks and tabs out of a URL before they look at it.
        joined = re.sub(r"[\t\r\n]", "", text)
        if joined != text:
            yield from _in_text(joined)
            text = joined
        yield from _as_a_whole(text.strip(), parameter.casefold())


def _in_text(text: str) -> Iterator[Destination]:
    for expression in (_SPECIAL, _ANY_SCHEME, _BARE):
        for found in expression.finditer(text):
            start = found.start() if found.group().casefold() == "www." else found.end()
            yield from _authorities(text[start:])
    for found in _ADDRESS.finditer(text):
        yield _destination(found.group(1))


def _authorities(rest: str) -> Iterator[Destination]:
    """Yield what may be the host at the beginning of what follows a scheme, as each kind of reader takes it."""
    said = re.split(r"[\s<>\"`{}|]", rest, maxsplit=1)[0]
    if not said:
        return
    for text in {said, said.replace("\\", "/")}:
        authority = re.split(r"[/?#]", text, maxsplit=1)[0]  # RFC 3986 §3.2
        for part in {authority.rpartition("@")[2], authority.rpartition("\\")[2].rpartition("@")[2]}:
            if part:
                yield _destination(part)


def _as_a_whole(text: str, parameter: str) -> Iterator[Destination]:
    """Yield the host that a value without a scheme is or begins with.

    A dotted name is one, unless it ends as the names of files do; under a parameter that is called after hosts, every
    value is one.
    """
    if not text or "://" in text or text.startswith(("/", ".", "#")) or "@" in text:
        return
    if parameter in _HOST_PARAMETERS or parameter.endswith(_HOST_ENDINGS):
        head = re.split(r"[/\\?#]", text, maxsplit=1)[0]
        if head and not _SPECIAL.match(text) and not _ANY_SCHEME.match(text):
            yield _destination(head)
        return
    dotted = _DOTTED.match(text)
    if dotted is not None and not (dotted.end() == len(text) and dotted[1].casefold() in _FILE_ENDINGS):
        yield _destination(dotted.group())
        return
    found = _WITH_PORT.match(text)
    address = _ip(text)
    if found is not None or address is not None:
        yield _destination(found.group() if found is not None else f"[{text}]" if ":" in text else text)


# --- comparing ---------------------------------------------------------------------------------------------------


def _destination(authority: str) -> Destination:
    trimmed = authority.strip().rstrip(_END_OF_TEXT) if not authority.startswith("[") else authority.strip()
    shown = trimmed or authority  # a refusal names what it refuses
    host, port = _split(shown)
    return Destination(_comparable(host), port, shown) if port != _UNREADABLE else Destination(None, None, shown)


_UNREADABLE = -1


def _split(authority: str) -> tuple[str, int | None]:
    if authority.startswith("["):
        host, bracket, rest = authority.partition("]")
        port = rest.removeprefix(":")
        return (host + bracket).casefold(), int(port) if port.isascii() and port.isdecimal() else None
    host, colon, port = authority.rpartition(":")
    if not colon:
        return authority, None
    if port and not (port.isascii() and port.isdecimal()):
        return authority, _UNREADABLE
    return host, int(port) if port else None


def _comparable(host: str) -> str | None:
    """Return a host as it is compared, or ``None`` where readers could differ about it."""
    if host.startswith("["):
        address = _ip(host.strip("[]"))
        return f"[{address}]" if address is not None else None
    if not host or "%" in host or any(char in _AMBIGUOUS for char in host):
        return None
    name = re.sub("[\u3002\uff0e\uff61]", ".", host).removesuffix(".")
    try:
        plain = name.encode("ascii") if name.isascii() else name.encode("idna")
    except UnicodeError:
        return None
    text = plain.decode("ascii").casefold()
    return text if re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", text) else None


def _ip(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class _Pattern:
    host: str
    port: int | None
    below: bool


def _pattern(item: str) -> _Pattern | None:
    text = item.strip()
    below = text.startswith("*.")
    host, port = _split(text.removeprefix("*.") if below else text)
    comparable = _comparable(host)
    if comparable is None or port == _UNREADABLE:
        return None
    return _Pattern(comparable, port, below)


def _allows(patterns: Iterable[_Pattern], found: Destination) -> bool:
    return found.host is not None and any(_matches(pattern, found.host, found.port) for pattern in patterns)


def _matches(pattern: _Pattern, host: str, port: int | None) -> bool:
    if pattern.port is not None and port != pattern.port:
        return False
    return host.endswith(f".{pattern.host}") if pattern.below else host == pattern.host
