"""The list of safety rules that can be broken on purpose: each `planted*.py` beside this file adds its own to it.

A plant is a function whose docstring says in one sentence what is wrong then. `docs/reliability.md` lists them all with the
test that catches each, so a plant without such a test cannot be added (`tests/docs/test_reliability.py`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

AREAS = ("store", "gateway", "settle", "lease")
HELP = "help"  # not a broken rule: a fault or a moment that another plant is to be seen in
FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Plant:
    """One rule broken on purpose.

    Args:
        area: one of `AREAS`, or `HELP`.
        caught_by: the test that must go red, as `file.py::test` in this folder.
    """

    name: str
    area: str
    why: str
    caught_by: str
    install: Callable[[], None]


PLANTS: dict[str, Plant] = {}


def planting(area: str, caught_by: str = "") -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Put the decorated function on the list under its own name.

    Raises:
        ValueError: the area is unknown, a broken rule names no test, or the name is taken.
    """

    def add(install: Callable[[], None]) -> Callable[[], None]:
        name, why = install.__name__, " ".join((install.__doc__ or "").split())
        if area not in (*AREAS, HELP) or (area != HELP and "::" not in caught_by) or name in PLANTS or not why:
            raise ValueError(f"{name} cannot be planted like this: {area=}, {caught_by=}, {why=}")
        PLANTS[name] = Plant(name, area, why, caught_by, install)
        return install

    return add


def load() -> dict[str, Plant]:
    """Return the whole list, by name."""
    for path in sorted(FOLDER.glob("planted*.py")):
        importlib.import_module(f"tests.crash.{path.stem}")
    return PLANTS


def plant(names: str) -> None:
    """Break the rules of these names, apart by commas, in this process."""
    known = load()
    for name in names.split(","):
        known[name].install()
