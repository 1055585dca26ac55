"""The webhook receiver of the demo: ``python -m perdure.demo.world.webhook --folder DIR``.

``POST /notices`` honours ``Idempotency-Key`` as the IETF draft (draft-ietf-httpapi-idempotency-key-header)
and the providers that inspired it do: the same key with the same body gets the stored reply and makes no
second notice, with another body 422, while the first is being worked on 409; keys are forgotten after a time.
A notice without a key is always a new one.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from perdure.demo.world import child
from perdure.demo.world.access import NOTICES_PATH
from perdure.demo.world.faults import Gate, open_door
from perdure.demo.world.leash import die_with
from perdure.demo.world.loopback import Handler, LoopbackServer, serve_in_thread
from perdure.demo.world.serverlog import ServerLog

_SHOWN_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a client; ``event`` is the word the log has for it."""

    status: int
    event: str
    body: dict[str, object]


@dataclass(frozen=True, slots=True)
class _Kept:
    sha256: str
    at: float
    notice: str | None  # None while the first request is being worked on


class Notices:
    """Accepted notices and the keys they came with, rebuilt from the log after a restart.

    Args:
        log: a notice is accepted when its line is in it.
        key_ttl_seconds: how long a key is remembered.
        now: seconds since the epoch.
    """

    def __init__(self, log: ServerLog, key_ttl_seconds: float, now: Callable[[], float] = time.time) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._ttl = key_ttl_seconds
        self._now = now
        self._keys: dict[str, _Kept] = {}
        self._count = 0
        for line in log.before:
            if line["event"] == "notice":
                self._count += 1
                if line["key"] is not None:
                    at = datetime.fromisoformat(str(line["at"])).timestamp()
                    self._keys[str(line["key"])] = _Kept(str(line["sha256"]), at, str(line["notice"]))

    def take(self, key: str | None, body: bytes, in_effect: Callable[[], None]) -> Reply:
        """Accept, repeat or refuse a notice.

        Args:
            key: the client's idempotency key, if it sent one.
            body: the notice.
            in_effect: called when a new notice is accepted and logged, before the reply may leave.
        """
        sha256 = hashlib.sha256(body).hexdigest()
        refusal = self._claim(key, sha256) if key is not None else None
        if refusal is not None:
            self._log.append(refusal.event, key=key, sha256=sha256, notice=refusal.body.get("notice"))
            return refusal
        try:
            notice = self._accept(key, sha256, body)
        except OSError:
            if key is not None:  # nothing was accepted: the key must not stay in flight for ever
                with self._lock:
                    del self._keys[key]
            raise
        in_effect()
        if key is not None:
            with self._lock:
                self._keys[key] = _Kept(sha256, self._now(), notice)
        return Reply(201, "notice", {"notice": notice})

    def _accept(self, key: str | None, sha256: str, body: bytes) -> str:
        with self._lock:
            self._count += 1
            notice = f"n-{self._count:06d}"
        text = body.decode(errors="replace")[:_SHOWN_CHARACTERS]
        self._log.append("notice", notice=notice, key=key, sha256=sha256, bytes=len(body), text=text)
        return notice

    def _claim(self, key: str, sha256: str) -> Reply | None:
        """Return the answer a known key has, or mark an unknown one as being worked on."""
        with self._lock:
            kept = self._keys.get(key)
            if kept is None or (kept.notice is not None and self._now() - kept.at > self._ttl):
                self._keys[key] = _Kept(sha256, self._now(), None)
                return None
        if kept.sha256 != sha256:
            return Reply(422, "refused", {"title": "This Idempotency-Key came with another body before."})
        if kept.notice is None:
            return Reply(409, "in_flight", {"title": "A request with this Idempotency-Key is being worked on."})
        return Reply(201, "repeat", {"notice": kept.notice})


def make_handler(notices: Notices, gate: Gate) -> type[Handler]:
    """Return the request handler of one receiver."""

    class NoticeHandler(Handler):
        def handle_request(self, body: bytes) -> None:
            if (self.command, urlsplit(self.path).path) != ("POST", NOTICES_PATH):
                self.reply(404, b"")
                return
            # The draft has the key as a quoted string, most providers have it bare; both name the same key.
            key = self.headers.get("Idempotency-Key", "").strip().strip('"') or None
            reply = notices.take(key, body, lambda: gate.after_effect(self.client_gone))
            headers = {"Content-Type": "application/problem+json" if reply.status >= 400 else "application/json"}
            if reply.event == "repeat":
                headers["Idempotent-Replayed"] = "true"
            self.reply(reply.status, json.dumps(reply.body).encode(), headers)

    return NoticeHandler


def main() -> None:
    """Serve until the parent is gone."""
    options = child.parse_options("webhook")
    die_with(options.leash)
    gate = Gate()
    notices = Notices(ServerLog(options.folder / "logs" / "webhook.jsonl"), options.key_ttl_seconds)
    server = LoopbackServer(options.ports[0], make_handler(notices, gate))
    serve_in_thread(server)
    child.announce(port=server.server_port, door=open_door(gate))
    child.serve_until_orphaned()


if __name__ == "__main__":
    main()
