"""Compare what a provider saw with what was asked for, each effect by its name and exactly as often."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from perdure.testing.order import Order
    from perdure.testing.provider.client import Provider
    from perdure.testing.provider.effect_log import Line

Counts = Mapping[str, int] | Iterable[str]


class WrongEffects(AssertionError):
    """The effects are not exactly those that were asked for.

    Args:
        asked_for: how often each effect was to happen.
        seen: how often it did.
        message: the difference, readable.
    """

    def __init__(self, asked_for: Mapping[str, int], seen: Mapping[str, int], message: str) -> None:
        super().__init__(message)
        self.repeated = {name for name, times in seen.items() if times > asked_for.get(name, 0) > 0}
        self.lost = {name for name, times in asked_for.items() if times > seen.get(name, 0)}
        self.uninvited = {name for name in seen if not asked_for.get(name, 0)}


def assert_effects(
    seen: Provider | Counts,
    expected: Counts,
    *,
    kind: str | None = None,
    state_dir: str | Path | None = None,
    run_id: str | None = None,
) -> None:
    """Demand that exactly these effects happened: none repeated, none lost, none that nobody asked for.

    Args:
        seen: a provider of the kit; or counts of your own, by the name of the effect; or the names, as often as seen.
        expected: how often each was asked for, or the names.
        kind: only effects of ``create keyed searchable plain``; of a provider only.
        state_dir, run_id: the ledger, for the commands with which one looks closer.

    Raises:
        WrongEffects: with ``repeated``, ``lost`` and ``uninvited``.
    """
    __tracebackhide__ = True
    asked_for = _counts(expected)
    lines: list[Line] = []
    if isinstance(seen, Iterable):
        counts = _counts(seen)
    else:
        lines = seen.effects(kind)
        counts = Counter(str(line["what"]) for line in lines)
    if counts != asked_for:
        told = ["the effects are not exactly those that were asked for:", *_difference(asked_for, counts, lines)]
        raise WrongEffects(asked_for, counts, "\n".join([*told, *_closer(seen, state_dir, run_id)]))


class AssertEffects:
    """What the fixture ``assert_effects`` is: ``assert_effects`` that knows the newest run of ``crash_at``.

    Args:
        newest: what that run was told.
    """

    def __init__(self, newest: Callable[[], Order | None]) -> None:
        self._newest = newest

    def __call__(self, seen: Provider | Counts, expected: Counts, *, kind: str | None = None) -> None:
        """Demand that exactly these effects happened.

        Args:
            seen: the provider; or counts of your own, by the name of the effect; or the names, as often as seen.
            expected: how often each was asked for, or the names.
            kind: only effects of ``create keyed searchable plain``; of a provider only.

        Raises:
            WrongEffects: one was repeated, lost or uninvited.
        """
        __tracebackhide__ = True
        order = self._newest()
        state_dir, run_id = (None, None) if order is None else (order.state_dir, order.run_id)
        assert_effects(seen, expected, kind=kind, state_dir=state_dir, run_id=run_id)


def _counts(given: Counts) -> Counter[str]:
    if isinstance(given, str):
        raise TypeError(f"effects are counts by name, or names; this is {given!r}")
    if not isinstance(given, Mapping):
        return Counter(given)
    by_name = cast("Mapping[str, int]", given)
    return Counter({name: times for name, times in by_name.items() if times})


def _difference(asked_for: Counter[str], seen: Counter[str], lines: list[Line]) -> list[str]:
    wrong = [name for name in sorted({*asked_for, *seen}) if asked_for[name] != seen[name]]
    width = max(len(name) for name in wrong)
    told: list[str] = []
    for name in wrong:
        told.append(f"  {_verdict(asked_for[name], seen[name]):<12}{name:<{width}}  "
                    f"asked for {asked_for[name]}, seen {seen[name]}")  # fmt: skip
        told += [f"      {_described(line)}" for line in lines if line["what"] == name]
    right = len({*asked_for, *seen}) - len(wrong)
    return [*told, f"  ({right} other effects are right)"] if right else told


def _verdict(asked_for: int, seen: int) -> str:
    if seen < asked_for:
        return "LOST"
    return "REPEATED" if asked_for else "UNINVITED"


def _described(line: Line) -> str:
    how = [f"key {line['key']}"] if "key" in line else []
    how += ["landed late"] if line.get("late") else []
    at = datetime.fromtimestamp(line["at"], UTC).isoformat(sep=" ", timespec="milliseconds")
    return ", ".join([f"{line['id']} by POST {line['path']} at {at}", *how, f"body {line['body']}"])


def _closer(seen: object, state_dir: str | Path | None, run_id: str | None) -> list[str]:
    told: list[str] = []
    if state_dir is not None:
        flags = f"--state-dir {shlex.quote(str(state_dir))}"
        ledger = shlex.quote(str(Path(state_dir, "runtime_state.db")))
        of_run = f" WHERE run_id = '{run_id}'" if run_id else ""
        told = [
            f"  perdure calls ls {flags}",
            f"  perdure calls explain {run_id or 'RUN'}.1 {flags}   # why a call is in its state, on what evidence",
            f'  sqlite3 -readonly {ledger} "SELECT tool_call_id, tool_name, status, attempt FROM v_effects{of_run}"',
        ]
    log = getattr(seen, "log_path", None)
    told += [f"  {shlex.quote(str(log))}   # all that the provider saw"] if log is not None else []
    return ["look closer:", *told] if told else []
