"""Stopwatches, medians and pairs: a machine's speed changes by the minute, a ratio of neighbours hardly."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

Measured = Callable[[Path], "Run"]


@dataclass(frozen=True, slots=True)
class Run:
    """One timed run: how many calls in how many seconds, and the gaps between two entries of the tool."""

    calls: int
    seconds: float
    gaps_seconds: tuple[float, ...]
    cpu_seconds: float

    @property
    def calls_per_second(self) -> float:
        """The speed of the whole run."""
        return self.calls / self.seconds

    def gap_milliseconds(self, quantile: float) -> float:
        """One quantile of the time from one entry of the tool to the next."""
        ordered = sorted(self.gaps_seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * quantile))] * 1000

    def last_to_first_tenth(self) -> float:
        """How much longer a call takes at the end of the run than at its beginning (medians)."""
        tenth = max(1, len(self.gaps_seconds) // 10)
        return statistics.median(self.gaps_seconds[-tenth:]) / statistics.median(self.gaps_seconds[:tenth])


class Stopwatch:
    """Measures one run; `enter` is called by the tool itself."""

    def __init__(self) -> None:
        self._entries: list[float] = []
        self._cpu = time.process_time()
        self._start = time.perf_counter()

    def enter(self) -> None:
        """Note that the tool was entered."""
        self._entries.append(time.perf_counter())

    def stop(self, calls: int) -> Run:
        """End the run. Raises RuntimeError if the tool was not entered once for each call."""
        seconds = time.perf_counter() - self._start
        if len(self._entries) != calls:
            raise RuntimeError(f"{calls} calls were asked for, the tool was entered {len(self._entries)} times")
        gaps = tuple(b - a for a, b in zip(self._entries, self._entries[1:], strict=False))
        return Run(calls, seconds, gaps, time.process_time() - self._cpu)


@dataclass(frozen=True, slots=True)
class Pairs:
    """A scenario beside its yardstick, run in turns."""

    runs: tuple[Run, ...]
    yardsticks: tuple[Run, ...]

    @property
    def ratios(self) -> list[float]:
        """Speed over the speed of the neighbouring yardstick, pair by pair."""
        return [a.calls_per_second / b.calls_per_second for a, b in zip(self.runs, self.yardsticks, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def middle(self) -> Run:
        """The run of median speed."""
        return sorted(self.runs, key=lambda run: run.calls_per_second)[len(self.runs) // 2]


def alternate(folder: Path, measured: Measured, yardstick: Measured, pairs: int) -> Pairs:
    """Run both in turns, each time in a new folder; which one goes first changes from pair to pair."""
    runs: list[Run] = []
    yardsticks: list[Run] = []
    for pair in range(pairs):
        order: Sequence[tuple[Measured, list[Run]]] = [(yardstick, yardsticks), (measured, runs)]
        for turn, (function, results) in enumerate(order if pair % 2 == 0 else reversed(order)):
            place = folder / f"pair{pair}-{turn}"
            place.mkdir(parents=True)
            results.append(function(place))
    return Pairs(tuple(runs), tuple(yardsticks))
