"""Starts the outside world, says where it is, counts what it saw, and ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from perdure.demo.world.access import (
    BUCKET,
    MAIL_USER,
    NOTICES_PATH,
    REGION,
    ImapAccess,
    S3Access,
    Secrets,
    SmtpAccess,
    make_secrets,
)
from perdure.demo.world.loopback import HOST
from perdure.demo.world.server_process import ServerProcess, WorldError
from perdure.demo.world.serverlog import LogLine, read_log
from perdure.demo.world.tally import TALLIES
from perdure.demo.world.weed import remove_sockets

SERVERS = ("s3", "mail", "site", "webhook")  # the slowest first
_GRACE_SECONDS = 2.0


class World:
    """The running servers; made by ``start``.

    Args:
        folder: where their files are; absolute.
        servers: which of them run.
        key_ttl_seconds: how long the webhook receiver remembers an idempotency key.
    """

    def __init__(self, folder: Path, servers: Sequence[str], key_ttl_seconds: float) -> None:
        self.folder = folder
        self._names = tuple(name for name in SERVERS if name in servers)
        self.logs = {name: folder / "logs" / f"{name}.jsonl" for name in SERVERS}
        self._secrets: Secrets = make_secrets(folder)
        self._options = {"webhook": (f"--key-ttl-seconds={key_ttl_seconds}",)}
        self._servers: dict[str, ServerProcess] = {}
        self._lock = threading.Lock()

    @property
    def site_url(self) -> str:
        """The address of the index page."""
        return f"http://{HOST}:{self._server('site').number('port')}/"

    @property
    def webhook_url(self) -> str:
        """Where notices are posted."""
        return f"http://{HOST}:{self._server('webhook').number('port')}{NOTICES_PATH}"

    @property
    def s3(self) -> S3Access:
        """The S3 server, through the proxy that counts."""
        endpoint = f"http://{HOST}:{self._server('s3').number('port')}"
        return S3Access(endpoint, BUCKET, self._secrets.s3_access_key, self._secrets.s3_secret_key, REGION)

    @property
    def smtp(self) -> SmtpAccess:
        """The mail server."""
        return SmtpAccess(HOST, self._server("mail").number("port"))

    @property
    def imap(self) -> ImapAccess:
        """The mailbox of the mail server."""
        return ImapAccess(HOST, self._server("mail").number("imap_port"), MAIL_USER, self._secrets.mail_password)

    def endpoints(self) -> dict[str, object]:
        """Return the addresses and secrets of the running servers as one JSON object."""
        running = self._servers
        told: dict[str, object] = {"folder": str(self.folder)}
        if "site" in running:
            told["site_url"] = self.site_url
        if "s3" in running:
            told["s3"] = asdict(self.s3)
        if "mail" in running:
            told |= {"smtp": asdict(self.smtp), "imap": asdict(self.imap)}
        if "webhook" in running:
            told["webhook_url"] = self.webhook_url
        told["doors"] = {name: one.facts["door"] for name, one in running.items() if "door" in one.facts}
        return told | {"pids": self.pids(), "logs": {name: str(self.logs[name]) for name in running}}

    def pids(self) -> dict[str, int]:
        """Return the process ids of the servers, and of the ``store`` behind ``s3``."""
        told = {name: server.pid for name, server in self._servers.items()}
        return told | ({"store": self._servers["s3"].number("store_pid")} if "s3" in told else {})

    def events(self, server: str) -> list[LogLine]:
        """Return the lines of one server's log, oldest first."""
        return read_log(self.logs[server])

    def counts(self) -> dict[str, int]:
        """Count what the servers logged; `tally.py` says what each word means."""
        return {word: count for name in SERVERS for word, count in TALLIES[name](self.events(name)).items()}

    def pause(self, server: str, count: int = 1, max_seconds: float = 30.0) -> None:
        """Let the next effects of ``s3``, ``mail`` or ``webhook`` happen, but hold their replies back.

        Args:
            server: which one.
            count: how many replies.
            max_seconds: how long each is held at most; ``release`` or a client that is gone ends it earlier.
        """
        self._server(server).ask_door("POST", f"/pause?count={count}&seconds={max_seconds}")

    def wait_held(self, server: str, count: int = 1, timeout_seconds: float = 10.0) -> None:
        """Wait until so many replies are held back: their effects have happened and are in the log.

        Raises:
            WorldError: it did not come to that in time.
        """
        target = f"/held?count={count}&seconds={timeout_seconds}"
        status, state = self._server(server).ask_door("GET", target, timeout_seconds + 5.0)
        if status != 200:
            raise WorldError(f"The demo's {server} server holds {state['held']} replies back, not {count}.")

    def held(self, server: str) -> int:
        """Return how many replies a server holds back now."""
        return self._server(server).ask_door("GET", "/state")[1]["held"]

    def release(self, server: str) -> None:
        """Let the replies go that a server holds back."""
        self._server(server).ask_door("POST", "/release")

    def kill(self, server: str) -> None:
        """End one server as a crash would, the store behind ``s3`` with it."""
        self._server(server).kill()
        self._sweep(server)

    def restart(self, server: str, timeout_seconds: float = 60.0) -> None:
        """Start a killed server again, at the same addresses and with the files it left."""
        before = self._server(server)
        if before.is_running:
            self.kill(server)
        ports = tuple(before.number(fact) for fact in ("port", "imap_port") if fact in before.facts)
        self._servers[server] = ServerProcess(server, self.folder, ports, self._options.get(server, ()))
        self._servers[server].wait_ready(time.monotonic() + timeout_seconds)

    def open(self, timeout_seconds: float) -> None:
        """Start all servers at once and wait until each answers."""
        try:
            for name in self._names:
                self._servers[name] = ServerProcess(name, self.folder, options=self._options.get(name, ()))
            until = time.monotonic() + timeout_seconds
            for server in self._servers.values():
                server.wait_ready(until)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End and reap every server; a second call does nothing."""
        with self._lock:
            servers = list(self._servers.values())
            for server in servers:
                server.let_go()
            until = time.monotonic() + _GRACE_SECONDS
            for server in servers:
                server.kill(max(0.0, until - time.monotonic()))
                self._sweep(server.name)

    def _server(self, name: str) -> ServerProcess:
        if name not in self._servers:
            raise WorldError(f"The demo's {name} server is not part of this world.")
        return self._servers[name]

    def _sweep(self, server: str) -> None:
        ports = self._servers[server].facts.get("store_ports")
        remove_sockets(tuple(cast("list[int]", ports or ())))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(
    folder: Path,
    *,
    servers: Sequence[str] = SERVERS,
    key_ttl_seconds: float = 86400.0,
    timeout_seconds: float = 60.0,
) -> World:
    """Start the outside world.

    Args:
        folder: where it keeps its files; made if absent, continued if not.
        servers: which of ``site``, ``s3``, ``mail`` and ``webhook``.
        key_ttl_seconds: how long the webhook receiver remembers an idempotency key.
        timeout_seconds: how long the start may take.

    Returns:
        The running world; ``stop`` it, or use it as a context manager.

    Raises:
        WorldError: a server did not start; those that did were stopped.
    """
    folder = folder.absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    world = World(folder, servers, key_ttl_seconds)
    world.open(timeout_seconds)
    return world
