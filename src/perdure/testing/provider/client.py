"""Start the provider, tell it what to do wrong, and ask it what happened."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

from perdure.testing.provider.effect_log import Line, count_lines, newest_part, read_lines
from perdure.testing.provider.request import get, post

__all__ = ["Provider", "ProviderError", "get", "post"]

ADDRESS_VARIABLE = "PERDURE_TEST_PROVIDER"
PACKAGE_ROOT = Path(__file__).resolve().parents[3]  # the folder that holds `perdure`


class ProviderError(Exception):
    """The provider did not start, refused a control request, or waited in vain."""


class Provider:
    """A provider process of its own, for one test: `with Provider(tmp_path / "provider.jsonl") as provider`.

    It ends with the `with` block, and also when the process that started it is killed.
    The log may be read before, during and after its life.
    """

    def __init__(self, log_path: Path, *, fsync: bool = True) -> None:
        self.log_path = log_path.resolve()
        self.url = ""
        self._fsync = fsync
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Provider":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> "Provider":
        """Start the process, or start it again on the same log after `stop`; the port may then differ."""
        if self._process is not None:
            raise ProviderError("the provider runs already")
        command = [sys.executable, "-P", "-S", "-m", "perdure.testing.provider.server", "--log", str(self.log_path)]
        command += [] if self._fsync else ["--no-fsync"]
        self._process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        ready = self._process.stdout.readline() if self._process.stdout else b""
        if not ready:
            self.stop()
            raise ProviderError("the provider did not start; its own message is on stderr")
        self.url = f"http://127.0.0.1:{json.loads(ready)['port']}"
        return self

    def stop(self) -> None:
        """Kill the process (SIGKILL) and wait for its end; what it logged stays."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def log(self) -> list[Line]:
        """Every line of the log: effects, reads, refusals, drops."""
        return read_lines(self.log_path)

    def effects(self, kind: str | None = None, what: str | None = None) -> list[Line]:
        """The effects that happened, in order; `kind` is `create`, `keyed`, `searchable` or `plain`.

        After `begin_again` they are those since then, and so are the counts.
        """
        path = None if kind is None else "/" + kind.strip("/")
        found = [line for line in newest_part(self.log()) if line["event"] == "effect"]
        return [line for line in found if path in (None, line["path"]) and what in (None, line["what"])]

    def counts(self, kind: str | None = None) -> dict[str, int]:
        """How often each logical effect (`what`) happened; reads are counted only for `kind="read"`."""
        by_path = count_lines(newest_part(self.log()))
        if kind is not None:
            return by_path.get("/" + kind.strip("/"), {})
        total: dict[str, int] = {}
        for path, by_what in by_path.items():
            for what, count in by_what.items() if path != "/read" else ():
                total[what] = total.get(what, 0) + count
        return total

    def control(self, kind: str, **fault: Any) -> None:
        """Arm a fault for the next requests of a kind: the members of `faults.Fault`."""
        self._command("", {"path": "/" + kind.strip("/"), **fault})

    def set(self, **settings: Any) -> None:
        """Change the members of `world.Settings`, such as `key_ttl_seconds` or `clock_ahead_seconds`."""
        self._command("set", settings)

    def release(self, kind: str | None = None, what: str | None = None) -> int:
        """Let held requests (and late landings that wait for it) go, and say how many they were."""
        path = None if kind is None else "/" + kind.strip("/")
        return int(self._command("release", {"path": path, "what": what})["released"])

    def forget_keys(self, key: str | None = None) -> int:
        """Let the provider forget one idempotency key, or all, and say how many it knew."""
        return int(self._command("forget_keys", {"key": key})["forgotten"])

    def begin_again(self) -> None:
        """Let the provider forget objects, keys, markers and faults; counts begin at nothing, the log goes on.

        Raises ProviderError while requests are held: they belong to what was before.
        """
        self._command("begin_again", {})

    def clear_faults(self) -> None:
        """Drop the faults that no request has used up."""
        self._command("clear", {})

    def state(self) -> dict[str, Any]:
        """How many requests are held, how many faults are left, and the settings."""
        status, body = get(f"{self.url}/control/state")
        return self._checked(status, body)

    def wait_for(self, event: str, *, count: int = 1, timeout_seconds: float = 5.0, **fields: str) -> None:
        """Return once the log holds `count` lines with this event (`effect`, `held`, …) and these fields.

        Raises ProviderError after `timeout_seconds`.
        """
        query = urlencode({"event": event, "count": count, "timeout_seconds": timeout_seconds, **fields})
        started = time.monotonic()
        status, body = get(f"{self.url}/control/wait?{query}", timeout_seconds=timeout_seconds + 5)
        if status == 408:
            waited = time.monotonic() - started
            raise ProviderError(f"{event} {fields} seen {body['count']} of {count} times in {waited:.1f} s")
        self._checked(status, body)

    def _command(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        status, answer = post(f"{self.url}/control/{name}" if name else f"{self.url}/control", body)
        return self._checked(status, answer)

    @staticmethod
    def _checked(status: int, body: Any) -> dict[str, Any]:
        if status != 200 or not isinstance(body, dict):
            raise ProviderError(f"the provider answered {status}: {body}")
        return cast("dict[str, Any]", body)
