"""As much of HTTP/1.1 as the provider speaks: JSON bodies of known length, connections kept open."""

import asyncio
import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

MAX_BODY_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One request: `path` is the first segment (`/create`), `rest` what follows it (a name)."""

    method: str
    path: str
    rest: str
    query: dict[str, str]
    headers: dict[str, str]
    body: dict[str, Any]

    def number(self, name: str, default: float) -> float:
        """Read a number from the query."""
        try:
            return float(self.query.get(name, default))
        except ValueError as error:
            raise BadRequest(f"{name} is not a number") from error


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer; `dropped` closes the connection instead of sending it, `cut` in its middle, `last` after it."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)
    dropped: bool = False
    cut: bool = False
    last: bool = False


class BadRequest(Exception):
    """The request cannot be understood; answered with 400, or 411 and 413 for its length."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read one request, or None when the client has closed the connection.

    Raises BadRequest for what is not HTTP/1.1 with a JSON object as its body.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *header_lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    try:
        method, target, _version = first.split(" ")
        headers = {k.strip().lower(): v.strip() for k, v in (line.split(":", 1) for line in header_lines)}
        length = int(headers.get("content-length", "0"))
    except ValueError as error:
        raise BadRequest(f"not an HTTP/1.1 request: {first!r}") from error
    if "transfer-encoding" in headers:
        raise BadRequest("a body needs a Content-Length", HTTPStatus.LENGTH_REQUIRED)
    if length > MAX_BODY_BYTES:
        raise BadRequest("the body is too large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    try:
        raw = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return _parsed(method, target, headers, raw)


def _parsed(method: str, target: str, headers: dict[str, str], raw: bytes) -> Request:
    parts = urlsplit(target)
    segments = parts.path.split("/", 2)
    try:
        body: object = json.loads(raw) if raw else {}
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body is not a JSON object")
    members = cast("dict[str, Any]", body)
    return Request(
        method=method,
        path="/" + segments[1] if len(segments) > 1 else "/",
        rest=unquote(segments[2]) if len(segments) > 2 else "",
        query=dict(parse_qsl(parts.query, keep_blank_values=True)),
        headers=headers,
        body=members,
    )


def encode_reply(reply: Reply) -> bytes:
    """Encode head and body together, so that one write (and one packet) carries a small reply."""
    body = json.dumps(reply.body, ensure_ascii=False).encode()
    try:
        phrase = HTTPStatus(reply.status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {reply.status} {phrase}", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    if reply.last:
        lines.append("Connection: close")
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body
