"""The control door: a server is told to hold a reply back after its effect has happened.

A process that waits for such a reply can be killed exactly between "accepted" and its receipt. The door is a
separate loopback port, so that using it leaves no trace in what the server counts.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from perdure.demo.world.loopback import Handler, LoopbackServer, serve_in_thread

_POLL_SECONDS = 0.05


class Gate:
    """Holds replies back after their effect, as many as were asked for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._armed = 0
        self._held = 0
        self._releases = 0
        self._max_seconds = 0.0

    def pause(self, count: int, max_seconds: float) -> None:
        """Hold the next ``count`` replies, each for at most ``max_seconds``."""
        with self._changed:
            self._armed = count
            self._max_seconds = max_seconds

    def release(self) -> None:
        """Let every held reply go, and hold no further one."""
        with self._changed:
            self._armed = 0
            self._releases += 1
            self._changed.notify_all()

    def state(self) -> dict[str, int]:
        """Return how many replies are still to be held and how many are held now."""
        with self._changed:
            return {"armed": self._armed, "held": self._held}

    def wait_held(self, count: int, timeout_seconds: float) -> bool:
        """Wait until exactly ``count`` replies are held; return whether that came to pass."""
        with self._changed:
            return self._changed.wait_for(lambda: self._held == count, timeout_seconds)

    def after_effect(self, client_gone: Callable[[], bool]) -> None:
        """Block the caller while its reply is to be held.

        Args:
            client_gone: says whether nobody waits for the reply any more; then it is not held any longer.
        """
        with self._changed:
            if self._armed == 0:
                return
            self._armed -= 1
            self._held += 1
            self._changed.notify_all()
            releases, until = self._releases, time.monotonic() + self._max_seconds
            while self._releases == releases and time.monotonic() < until and not client_gone():
                self._changed.wait(_POLL_SECONDS)
            self._held -= 1
            self._changed.notify_all()


def open_door(gate: Gate) -> int:
    """Serve the gate's control door on a free loopback port and return the port.

    ``POST /pause?count=1&seconds=30``, ``POST /release``, ``GET /state``, ``GET /held?count=1&seconds=5``:
    the last answers as soon as so many replies are held, with 504 if they are not in time.
    """

    class Door(Handler):
        def handle_request(self, body: bytes) -> None:
            target = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(target.query).items()}
            count = int(query.get("count", "1"))
            status = 200
            if (self.command, target.path) == ("POST", "/pause"):
                gate.pause(count, float(query.get("seconds", "30")))
            elif (self.command, target.path) == ("POST", "/release"):
                gate.release()
            elif (self.command, target.path) == ("GET", "/held"):
                status = 200 if gate.wait_held(count, float(query.get("seconds", "5"))) else 504
            elif (self.command, target.path) != ("GET", "/state"):
                status = 404
            self.reply(status, json.dumps(gate.state()).encode(), {"Content-Type": "application/json"})

    server = LoopbackServer(0, Door)
    serve_in_thread(server)
    return server.server_port
