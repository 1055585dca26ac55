"""`post` and `get`, for tools in crash-test jobs and for tests: one connection a request, no retry, ever.

Only `json` and `socket` are imported, since such jobs are started hundreds of times (`http.client`: +45 ms).
"""

from __future__ import annotations

import json
import socket

TYPE_CHECKING = False  # `typing` itself is not worth its import time here; checkers know this name
if TYPE_CHECKING:
    from typing import Any

DEFAULT_TIMEOUT_SECONDS = 60.0


def post(
    url: str,
    body: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> tuple[int, Any]:
    """Send one POST on a connection of its own, without any retry, and return status and decoded body.

    Raises ConnectionError when the connection ends before a whole reply came, TimeoutError after
    `timeout_seconds` without a byte: in both cases the request may or may not have been carried out.
    """
    status, _, decoded = request("POST", url, body or {}, headers, timeout_seconds)
    return status, decoded


def get(
    url: str, headers: dict[str, str] | None = None, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> tuple[int, Any]:
    """Send one GET as `post` does."""
    status, _, decoded = request("GET", url, None, headers, timeout_seconds)
    return status, decoded


def request(
    method: str,
    url: str,
    body: dict[str, Any] | None,
    headers: dict[str, str] | None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> tuple[int, dict[str, str], Any]:
    """Send one request and return status, headers (lower case) and decoded JSON body; see `post`."""
    host, _, target = url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    payload = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} /{target} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"Content-Length: {len(payload)}", "Content-Type: application/json"]
    lines += [f"{key}: {value}" for key, value in (headers or {}).items()]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header or the URL contains a line break")
    with socket.create_connection((name, int(port or 80)), timeout=timeout_seconds) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + payload)
        return _read_reply(connection)


def _read_reply(connection: socket.socket) -> tuple[int, dict[str, str], Any]:
    with connection.makefile("rb") as stream:
        status_line = stream.readline()
        headers: dict[str, str] = {}
        while (line := stream.readline()) not in (b"\r\n", b""):
            key, _, value = line.decode("latin-1").partition(":")
            headers[key.strip().lower()] = value.strip()
        length = int(headers.get("content-length", "0"))
        data = stream.read(length)
    if not status_line.endswith(b"\r\n") or not line or len(data) < length:
        raise ConnectionResetError("the connection ended before the whole reply came")
    return int(status_line.split(b" ", 2)[1]), headers, json.loads(data) if data else None
