"""Where schedules are played: providers, launchers and a folder of one's own, renewed before they grow large."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from perdure.testing.provider.client import Provider
from perdure.testing.provider.effect_log import Line
from tests.crash.child import Order
from tests.crash.support import Ended, Launcher, LogReader

SCHEDULES_A_PROVIDER = 40
SEARCH_LAG_SECONDS = 0.1
LOOK_SECONDS = 0.002
PATIENCE_SECONDS = 10.0


class Broken(Exception):
    """The harness itself cannot go on with this schedule."""


class World:
    """One provider and what it wrote."""

    def __init__(self, log_path: Path, *, lags: bool) -> None:
        self.provider = Provider(log_path, fsync=False)
        self.provider.start()
        if lags:
            self.provider.set(search_lag_seconds=SEARCH_LAG_SECONDS)
        self.log = LogReader(log_path)

    def lines(self, tag: str) -> list[Line]:
        """What was written about one run, searches by a key aside."""
        begins = f"{tag}:"
        return [line for line in self.log.lines() if str(line["what"]).startswith(begins)]

    def effects(self, tag: str) -> list[Line]:
        """The effects of one run, oldest first."""
        return [line for line in self.lines(tag) if line["event"] == "effect"]

    def counts(self, tag: str) -> dict[str, int]:
        """How often each effect of one run happened, by the end of its name."""
        return dict(Counter(line["what"].partition(":")[2] for line in self.effects(tag)))

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Look until something holds.

        Raises:
            Broken: it does not for a long time.
        """
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > give_up:
                raise Broken(f"waited in vain: {what}")
            threading.Event().wait(LOOK_SECONDS)

    def let_land(self, tag: str) -> None:
        """Return when no request of a run is on its way to a late effect any more."""
        self.wait_until(lambda: not self._flying(tag), "late effects")

    def _flying(self, tag: str) -> int:
        lines = [line for line in self.lines(tag) if line["path"] != "/create"]
        landed = sum(1 for line in lines if line["event"] == "effect" and line["late"])
        return sum(1 for line in lines if line["event"] == "accepted_late") - landed

    def stop(self) -> None:
        """End the provider."""
        self.provider.stop()


class Stand:
    """Plays one schedule after another; a worker has one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._worlds: dict[bool, World] = {}
        self._launchers: dict[str, Launcher] = {}
        self._played = 0
        self._opened = 0

    def __enter__(self) -> Stand:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._end_worlds()
        for launcher in self._launchers.values():
            launcher.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def world(self, *, lags: bool) -> World:
        """The calm provider, or the one whose search lags."""
        if lags not in self._worlds:
            self._opened += 1
            self._worlds[lags] = World(self.folder / f"provider{self._opened}.jsonl", lags=lags)
        return self._worlds[lags]

    def live(
        self, order: Order, environ: dict[str, str], started: Callable[[int], None] | None = None, who: str = "first"
    ) -> Ended:
        """Live one life; `second` is another process beside the `first`."""
        if who not in self._launchers:
            self._launchers[who] = Launcher()
        return self._launchers[who].live(order, environ, started)

    def begin(self) -> None:
        """Make room for one more schedule."""
        self._played += 1
        if self._played % SCHEDULES_A_PROVIDER == 0:
            self._end_worlds()

    def _end_worlds(self) -> None:
        for world in self._worlds.values():
            world.stop()
            world.provider.log_path.unlink(missing_ok=True)
        self._worlds.clear()
