"""A small HTTP/1.1 server on 127.0.0.1, a thread a connection, on the standard library alone."""

from __future__ import annotations

import select
import socket
import socketserver
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"
_IDLE_SECONDS = 120.0
_DROP_BYTES = 1 << 16


class LoopbackServer(ThreadingHTTPServer):
    """Listens on 127.0.0.1 only.

    Args:
        port: the port; 0 lets the system choose.
        handler: the class that answers.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, handler: type[Handler]) -> None:
        super().__init__((HOST, port), handler)

    def server_bind(self) -> None:
        """Bind without the look-up of the host's name that ``HTTPServer`` makes."""
        socketserver.TCPServer.server_bind(self)
        self.server_name = HOST
        self.server_port = int(self.server_address[1])

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Say nothing of a client that went away: here that is what is being tried."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Reads one request whole, then calls ``handle_request``; subclasses answer with ``reply``."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = _IDLE_SECONDS
    max_body_bytes = 1 << 20

    def handle_request(self, body: bytes) -> None:
        """Answer the request whose body is ``body``."""
        self.reply(404, b"")

    def reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a complete answer; a HEAD request gets the headers alone."""
        self.send_response_only(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if headers is None or "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def client_gone(self) -> bool:
        """Say whether the client closed its side, without taking anything from the connection."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        if not readable:
            return False
        try:
            return len(self.connection.recv(1, socket.MSG_PEEK)) == 0
        except OSError:
            return True

    def _take(self) -> None:
        body = self._read_body()
        if body is None:
            self.close_connection = True
        else:
            self.handle_request(body)

    def _read_body(self) -> bytes | None:
        if "Transfer-Encoding" in self.headers:
            self.reply(411, b"a length is required")
            return None
        length = int(self.headers.get("Content-Length") or 0)
        if length > self.max_body_bytes:
            # A client that is still writing would not read an answer sent now: the rest is read and dropped.
            while length > 0 and (part := self.rfile.read(min(length, _DROP_BYTES))):
                length -= len(part)
            self.reply(413, b"too large")
            return None
        return self.rfile.read(length)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: what counts stands in the server's own log, and stderr is kept for faults."""

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _take


def serve_in_thread(server: LoopbackServer) -> None:
    """Serve for as long as this process lives."""
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
