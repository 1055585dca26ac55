"""Stopwatches, medians and pairs: a machine's speed changes by the minute, a ratio of neighbours hardly."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

Measured = Callable[[Path], "Run"]


@dataclass(frozen=True, slots=True)
class Run:
    """One timed run; a gap is the time from one entry of the tool to the next, on the clock and of the CPU."""

    calls: int
    seconds: float
    gaps_seconds: tuple[float, ...]
    cpu_gaps_seconds: tuple[float, ...]
    cpu_seconds: float

    @property
    def calls_per_second(self) -> float:
        """The speed of the whole run."""
        return self.calls / self.seconds

    def gap_milliseconds(self, quantile: float) -> float:
        """One quantile of the gaps on the clock."""
        return _quantile(self.gaps_seconds, quantile) * 1000


def last_to_first_tenth(gaps: Sequence[float]) -> float:
    """How much longer a call takes at the end of a run than at its beginning.

    The lowest tenths of the gaps are compared: what else goes on in the machine moves every other quantile.
    """
    tenth = max(1, len(gaps) // 10)
    return _quantile(gaps[-tenth:], 0.1) / _quantile(gaps[:tenth], 0.1)


def _quantile(values: Sequence[float], quantile: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * quantile))]


class Stopwatch:
    """Measures one run; `enter` is called by the tool itself."""

    def __init__(self) -> None:
        self._entries: list[float] = []
        self._cpu_entries: list[float] = []
        self._cpu = time.process_time()
        self._start = time.perf_counter()

    def enter(self) -> None:
        """Note that the tool was entered."""
        self._entries.append(time.perf_counter())
        self._cpu_entries.append(time.process_time())

    def stop(self, calls: int) -> Run:
        """End the run. Raises RuntimeError if the tool was not entered once for each call."""
        seconds = time.perf_counter() - self._start
        if len(self._entries) != calls:
            raise RuntimeError(f"{calls} calls were asked for, the tool was entered {len(self._entries)} times")
        cpu_seconds = time.process_time() - self._cpu
        return Run(calls, seconds, _gaps(self._entries), _gaps(self._cpu_entries), cpu_seconds)


def _gaps(moments: Sequence[float]) -> tuple[float, ...]:
    return tuple(after - before for before, after in pairwise(moments))


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
