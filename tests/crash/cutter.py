"""A door in front of the provider that hands requests on whole and cuts answers off in the middle of their body."""

import socket
import struct
import threading
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit

RESET = struct.pack("ii", 1, 0)


class Cutter:
    """Listens on a port of its own; the first `cuts` answers to a POST end inside their body, by a reset or a plain close."""

    def __init__(self, url: str, *, cuts: int, reset: bool) -> None:
        found = urlsplit(url)
        self._behind = (found.hostname or "", found.port or 80)
        self._left, self._reset = cuts, reset
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.cut = 0

    def __enter__(self) -> "Cutter":
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, _ = self._listening.accept()
                with client:
                    self._pass_on(client)

    def _pass_on(self, client: socket.socket) -> None:
        request = _whole(client)
        with socket.create_connection(self._behind) as provider:
            provider.sendall(request)
            answer = _whole(provider)
        if request.startswith(b"POST") and self._left:
            self._left -= 1
            self.cut += 1
            client.sendall(answer[:-5])
            if self._reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            return
        client.sendall(answer)


def _whole(peer: socket.socket) -> bytes:
    """Read one message with its whole body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += peer.recv(65536) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    missing = int(lengths[0]) - len(body) if lengths else 0
    while missing > 0:
        part = peer.recv(missing)
        data, missing = data + part, missing - (len(part) or missing)
    return data
