"""The lives of the demo's run: each a process of its own, some of them killed with SIGKILL at a chosen moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perdure.config.settings import HOME_VARIABLE, POLICIES_VARIABLE
from perdure.demo.errors import DemoError
from perdure.demo.moments import Kill, Moment
from perdure.demo.story import Story
from perdure.demo.world import World, leash

POINT_VARIABLE = "PERDURE_TEST_CRASH_AT_POINT"
CRASH_EXIT = 137
_LOOK_EVERY_SECONDS = 0.03
_LONGEST_LIFE_SECONDS = 120.0
_PROXIES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}


def environment(folder: Path, world: World, *, probe: bool, policies: Sequence[Path]) -> dict[str, str]:
    """Return the environment of the job: nothing of the caller's Perdure settings, and where the servers are.

    Args:
        folder: the ledger's.
        probe: whether the job may search the mailbox; without it a lost mail asks a person.
        policies: overlays on top of the job's own.
    """
    s3, smtp, imap = world.s3, world.smtp, world.imap
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PERDURE_") and name.lower() not in _PROXIES
    }
    told = {
        HOME_VARIABLE: str(folder),
        "PERDURE_S3_ENDPOINT": s3.endpoint,
        "PERDURE_S3_BUCKET": s3.bucket,
        "PERDURE_S3_REGION": s3.region,
        "PERDURE_S3_ACCESS_KEY_ID": s3.access_key,
        "PERDURE_S3_SECRET_ACCESS_KEY": s3.secret_key,
        "PERDURE_SMTP_HOST": smtp.host,
        "PERDURE_SMTP_PORT": str(smtp.port),
        "PERDURE_SMTP_FROM": "reports@example.org",
        "PERDURE_NOTIFY_URL": world.webhook_url,
    }
    if probe:
        told |= {
            "PERDURE_IMAP_HOST": imap.host,
            "PERDURE_IMAP_PORT": str(imap.port),
            "PERDURE_IMAP_USER": imap.user,
            "PERDURE_IMAP_PASSWORD": imap.password,
            "PERDURE_IMAP_MAILBOX": imap.mailbox,
        }
    if policies:
        told[POLICIES_VARIABLE] = os.pathsep.join(str(path.absolute()) for path in policies)
    return kept | told


@dataclass(frozen=True, slots=True)
class Ended:
    """How a life ended; ``killed`` only if it was this module that killed it, or the crash point it was given."""

    pid: int
    exit_code: int
    killed: bool
    words: str


class Lives:
    """Starts the run's lives one after the other.

    Args:
        folder: the ledger's; what each life prints goes to its ``lives``.
        world: whose servers hold replies back.
        environ: what each life gets.
        story: looked at many times a second while a life goes on.
    """

    def __init__(self, folder: Path, world: World, environ: Mapping[str, str], story: Story) -> None:
        self._folder = folder
        self._world = world
        self._environ = environ
        self._story = story
        self._count = 0
        self._words = folder / "lives"
        self._words.mkdir()

    def live(self, arguments: Sequence[str], kill: Kill | None, begun: Callable[[int], None]) -> Ended:
        """Run ``perdure`` with these arguments, to its end or to its death.

        Args:
            kill: when it is to be killed.
            begun: told the process id as soon as there is one.

        Raises:
            DemoError: it neither ended nor came to the moment at which it was to be killed.
        """
        self._count += 1
        words = self._words / f"life-{self._count}.txt"
        process = self._start(arguments, kill, words)
        try:
            begun(process.pid)
            killed = self._watch(process, kill.moment if kill is not None else None)
        finally:
            _end(process)
        self._story.look()
        code = process.returncode
        crashed = kill is not None and kill.point is not None and code == CRASH_EXIT
        return Ended(process.pid, code, killed or crashed, words.read_text(errors="replace"))

    def _start(self, arguments: Sequence[str], kill: Kill | None, words: Path) -> subprocess.Popen[bytes]:
        environ = dict(self._environ)
        if kill is not None and kill.point is not None:
            environ[POINT_VARIABLE] = str(kill.point)
        # The kernel ends a process on this leash with the thread that started it, so only the main thread uses it.
        main = threading.current_thread() is threading.main_thread()
        on_leash = [sys.executable, "-I", "-S", leash.__file__, str(os.getpid())] if main else []
        command = [*on_leash, sys.executable, "-P", "-m", "perdure", *arguments]
        with words.open("wb") as told:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=told,
                env=environ,
                start_new_session=True,
            )

    def _watch(self, process: subprocess.Popen[bytes], moment: Moment | None) -> bool:
        """Return whether the process was killed; it was not if it ended by itself."""
        until = time.monotonic() + _LONGEST_LIFE_SECONDS
        if moment is not None and moment.server is not None:
            self._world.pause(moment.server)
        while process.poll() is None:
            self._story.look()
            if moment is not None and self._has_come(moment):
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                return True
            if time.monotonic() > until:
                raise DemoError(f"a life did not end within {_LONGEST_LIFE_SECONDS:.0f} s")
            time.sleep(_LOOK_EVERY_SECONDS)
        if moment is not None and moment.server is not None:
            self._world.release(moment.server)
        return False

    def _has_come(self, moment: Moment) -> bool:
        if moment.server is not None:
            return self._world.held(moment.server) > 0
        done, under_way = self._story.progress(moment.tool)
        return done >= moment.receipts_first and under_way > 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of a life behind, whatever happened here."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
