"""The S3 server of the demo, behind a proxy that counts: ``python -m perdure.demo.world.s3 --folder DIR``.

The store itself is SeaweedFS (`weed.py`). The proxy changes nothing, so that signatures hold, and logs every
request with its key, status and the SHA-256 of the body. An upload counts when the store answered 200; 412 is
an upload it refused because the object exists.
"""

from __future__ import annotations

import hashlib
import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from perdure.demo.world import access, child
from perdure.demo.world.faults import Gate, open_door
from perdure.demo.world.leash import die_with
from perdure.demo.world.loopback import HOST, Handler, LoopbackServer, serve_in_thread
from perdure.demo.world.serverlog import ServerLog
from perdure.demo.world.tally import is_upload
from perdure.demo.world.weed import start_weed

_UPSTREAM_SECONDS = 60.0
_MAX_BODY_BYTES = 256 << 20
# RFC 9110 section 7.6.1: these belong to one connection and are not passed on.
_HOP_HEADERS = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the store answered; ``status`` 502 with no header says that it did not."""

    status: int
    headers: dict[str, str]
    body: bytes


class Upstream:
    """The store behind the proxy.

    Args:
        port: its S3 port on loopback.
    """

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Pass a request on unchanged, its Host included, for the client signed it."""
        link = http.client.HTTPConnection(HOST, self._port, timeout=_UPSTREAM_SECONDS)
        try:
            link.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                if name.lower() not in _HOP_HEADERS:
                    link.putheader(name, value)
            link.endheaders(body or None)
            got = link.getresponse()
            kept = {name: value for name, value in got.getheaders() if name.lower() not in _HOP_HEADERS}
            return Answer(got.status, kept, got.read())
        except (OSError, http.client.HTTPException):
            return Answer(502, {}, b"")
        finally:
            link.close()


def operation(method: str, target: str) -> tuple[str, str, str]:
    """Return what a request is, its bucket and its key.

    An upload is ``put_object`` or, for one in parts, ``complete_upload``; all that is not an upload, a read
    or a bucket being made is ``other``.
    """
    parts = urlsplit(target)
    _, bucket, key = [*unquote(parts.path).split("/", 2), "", ""][:3]
    query = parse_qs(parts.query, keep_blank_values=True)
    if not key:
        return ("create_bucket" if method == "PUT" and not query else "other"), bucket, key
    if "uploadId" in query:
        return ("complete_upload" if method == "POST" else "other"), bucket, key
    named = {"PUT": "put_object", "GET": "get_object", "HEAD": "head_object", "DELETE": "delete_object"}
    return ("other" if set(query) - {"x-id"} else named.get(method, "other")), bucket, key


def make_handler(upstream: Upstream, log: ServerLog, gate: Gate) -> type[Handler]:
    """Return the request handler of one proxy."""

    class ProxyHandler(Handler):
        max_body_bytes = _MAX_BODY_BYTES

        def handle_request(self, body: bytes) -> None:
            answer = upstream.ask(self.command, self.path, dict(self.headers.items()), body)
            done, bucket, key = operation(self.command, self.path)
            # A body in signed chunks is framed; the hash of the frames would say nothing about the object.
            framed = self.headers.get("x-amz-content-sha256", "").startswith("STREAMING-")
            log.append(
                done,
                method=self.command,
                bucket=bucket,
                key=key,
                status=answer.status,
                bytes=len(body),
                sha256=None if framed else hashlib.sha256(body).hexdigest(),
                if_none_match=self.headers.get("If-None-Match"),
                etag=answer.headers.get("ETag") or answer.headers.get("Etag"),
            )
            if is_upload({"event": done, "status": answer.status}):
                gate.after_effect(self.client_gone)
            self.reply(answer.status, answer.body, answer.headers or None)

    return ProxyHandler


def main() -> None:
    """Start the store, serve until the parent is gone, end the store."""
    options = child.parse_options("s3")
    die_with(options.leash)
    log = ServerLog(options.folder / "logs" / "s3.jsonl")
    weed = start_weed(options.folder / "s3", access.read_secrets(options.folder))
    gate = Gate()
    server = LoopbackServer(options.ports[0], make_handler(Upstream(weed.s3_port), log, gate))
    serve_in_thread(server)
    child.announce(port=server.server_port, door=open_door(gate), store_pid=weed.process.pid, store_ports=weed.ports)
    child.serve_until_orphaned(weed.kill)


if __name__ == "__main__":
    main()
