"""One server of the world, seen from the process that started it."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from perdure.demo.world.loopback import HOST
from perdure.model.errors import PerdureError

_PROXY_VARIABLES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}


class WorldError(PerdureError):
    """A server of the demo's outside world did not do what it was asked to."""

    code = "PERDURE-601"
    exit_code = 4
    default_safe = "No run was touched; the servers already started were stopped."
    default_next = "pip install 'perdure[demo]', or in a clone: python3 tasks.py demo"


class ServerProcess:
    """A server in a process and process group of its own, which ends when this process does.

    Args:
        name: the module of ``perdure.demo.world`` to run.
        folder: the world's folder.
        ports: where it is to listen; 0 lets the system choose.
        options: further arguments.
    """

    def __init__(self, name: str, folder: Path, ports: tuple[int, ...] = (), options: tuple[str, ...] = ()) -> None:
        # The kernel sends the parent-death signal when the *thread* that started the child ends, so only the
        # main thread asks for it; the pipe on the child's stdin does the same work everywhere, a little
        # later.
        leash = os.getpid() if threading.current_thread() is threading.main_thread() else 0
        command = [
            sys.executable,
            "-m",
            f"perdure.demo.world.{name}",
            f"--folder={folder}",
            f"--leash={leash}",
        ]
        command += [f"--port={port}" for port in ports]
        self.name = name
        self.facts: dict[str, object] = {}
        self._words = folder / "logs" / f"{name}.stderr.txt"
        self._words.parent.mkdir(parents=True, exist_ok=True)
        with self._words.open("ab") as words:
            self._process = subprocess.Popen(
                [*command, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                env={key: value for key, value in os.environ.items() if key.lower() not in _PROXY_VARIABLES},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def number(self, fact: str) -> int:
        """Return a number the server announced, a port for example."""
        return cast("int", self.facts[fact])

    def wait_ready(self, until: float) -> None:
        """Wait for the line that says the server answers.

        Args:
            until: the latest moment, by ``time.monotonic()``.

        Raises:
            WorldError: it ended, or it was not ready in time.
        """
        stdout = cast("IO[bytes]", self._process.stdout)
        told = b""
        while not told.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([stdout], [], [], left)[0]:
                raise WorldError(f"The demo's {self.name} server was not ready in time. {self._last_words()}")
            part = os.read(stdout.fileno(), 65536)
            if not part:
                raise WorldError(f"The demo's {self.name} server ended at its start. {self._last_words()}")
            told += part
        self.facts = cast("dict[str, object]", json.loads(told))

    def ask_door(self, method: str, target: str, timeout_seconds: float = 10.0) -> tuple[int, dict[str, int]]:
        """Send a request to the server's control door; return the status and the gate's state."""
        link = http.client.HTTPConnection(HOST, self.number("door"), timeout=timeout_seconds)
        try:
            link.request(method, target)
            got = link.getresponse()
            return got.status, cast("dict[str, int]", json.loads(got.read()))
        finally:
            link.close()

    def let_go(self) -> None:
        """Tell the server, by closing its stdin, that it may end."""
        with suppress(OSError):
            cast("IO[bytes]", self._process.stdin).close()

    def kill(self, grace_seconds: float = 0.0) -> None:
        """End the server and all of its group, and reap it.

        Args:
            grace_seconds: how long it may take to end by itself.
        """
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_seconds)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.let_go()
        cast("IO[bytes]", self._process.stdout).close()

    def _last_words(self) -> str:
        return self._words.read_text(errors="replace")[-600:].strip()
