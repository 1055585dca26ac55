"""What the toolbox tests share: the context of a call, a web server that tells, an SMTP peer by script."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from perdure.ports.tool import CallContext

KEY = "0123456789abcdef" * 4


def make_call(
    workspace: Path,
    *,
    key: str = KEY,
    attempt: int = 1,
    args: Mapping[str, Any] | None = None,
    handle: str | None = None,
    recorder: Callable[[str], None] | None = None,
) -> CallContext:
    """Return the context of one attempt of a call, as the engine would pass it."""
    return CallContext(
        idempotency_key=key,
        tool_call_id="r-test.1",
        run_id="r-test",
        step_id="main",
        attempt=attempt,
        args=args or {},
        workspace=workspace,
        handle=handle,
        recorder=recorder or (lambda ref: None),
    )


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the server got it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Reply = tuple[int, Mapping[str, str], bytes]
Route = Reply | Callable[[BaseHTTPRequestHandler], Reply | None]


@dataclass(slots=True)
class Site:
    """A web server on loopback; a route that returns None has answered by itself."""

    routes: dict[str, Route]
    port: int = 0
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def paths(self) -> list[str]:
        """Return the paths asked for, in order, robots.txt left out."""
        return [request.path for request in self.requests if request.path != "/robots.txt"]


def html(*links: str, text: str = "") -> Reply:
    """Return a page with links."""
    anchors = "".join(f'<a href="{link}">x</a>' for link in links)
    return 200, {"Content-Type": "text/html; charset=utf-8"}, f"<p>{text}</p>{anchors}".encode()


@contextmanager
def serve(routes: dict[str, Route]) -> Generator[Site, None, None]:
    """Serve ``routes`` on a free port; what is not in them is 404."""
    site = Site(routes)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            site.requests.append(Request(self.command, self.path, headers, body))
            route = site.routes.get(self.path, (404, {}, b""))
            reply = route(self) if callable(route) else route
            if reply is None:
                self.close_connection = True
                return
            self.send_response(reply[0])
            for name, value in reply[1].items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply[2])))
            self.end_headers()
            self.wfile.write(reply[2])

        do_GET = do_POST = do_PUT = do_HEAD = _handle

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the test output clean; ``site.requests`` is the log."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that went away is no news
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(slots=True)
class SmtpScript:
    """What a scripted SMTP peer says to each line or verb, and what it was told; None cuts the connection."""

    replies: dict[str, str | None]
    port: int = 0
    verbs: list[str] = field(default_factory=list)
    mails: list[bytes] = field(default_factory=list)

    def reply(self, verb: str, line: str) -> str | None:
        """Return the scripted reply, or that of a server that takes everything."""
        usual = {
            "CONNECT": "220 ready",
            "DATA": "354 go on",
            "CONTENT": "250 accepted as 42",
            "QUIT": "221 bye",
        }
        return self.replies.get(line, self.replies.get(verb, usual.get(verb, "250 OK")))


async def _read_content(reader: asyncio.StreamReader) -> bytes:
    sent = (await reader.readuntil(b"\r\n.\r\n")).removesuffix(b".\r\n")
    return b"\r\n".join(line.removeprefix(b".") for line in sent.split(b"\r\n"))  # RFC 5321 §4.5.2


async def _converse(script: SmtpScript, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    verb = line = "CONNECT"
    while (said := script.reply(verb, line)) is not None:
        writer.write(said.encode() + b"\r\n")
        await writer.drain()
        if verb == "DATA" and said.startswith("354"):
            script.mails.append(await _read_content(reader))
            verb = line = "CONTENT"
            continue
        line = (await reader.readline()).decode().rstrip("\r\n")
        if not line or verb == "QUIT":
            break
        verb = line.split(None, 1)[0].upper()
        script.verbs.append(verb)


@asynccontextmanager
async def smtp_peer(replies: Mapping[str, str | None]) -> AsyncGenerator[SmtpScript, None]:
    """Serve SMTP on a free port by script; ``CONTENT`` is the moment after the final dot."""
    script = SmtpScript(dict(replies))
    conversations: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await _converse(script, reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    script.port = server.sockets[0].getsockname()[1]
    async with server:
        yield script
        await asyncio.gather(*conversations)


def closed_port() -> int:
    """Return a port of loopback on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
