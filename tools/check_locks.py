"""Refuse a lock with an address, with a pin without a hash, or without what is asked for."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Each lock and the extras it must hold; every lock also holds the base and the build backend.
EXTRAS_OF: dict[str, tuple[str, ...]] = {
    "compare-perdure": (),
    "demo": ("toolbox", "demo"),
    "test": ("toolbox", "demo", "test"),
    "check": ("toolbox", "demo", "test", "check"),
}
# The other systems of `tasks.py compare`: each has an environment of its own, asked for by requirements/NAME.in.
PEERS = ("compare-absurd", "compare-dbos", "compare-langgraph", "compare-temporal")
# What `tasks.py prove logfire` runs in: the base, and what requirements/logfire.in adds to it.
WITH_BASE = ("logfire",)
HASHES = r"(?: \\ --hash=sha256:[0-9a-f]{64})+"
PIN = re.compile(rf"(?P<name>[a-z0-9-]+)==(?P<version>[\w.+!]+)(?: ; [^\\]+)?{HASHES}")


def pins_of(text: str) -> tuple[dict[str, str], list[str]]:
    """Read a lock: the version of each package, and every entry that is not a pin with hashes."""
    entries = re.sub(r"\\\n\s+", r"\\ ", text).splitlines()
    matches = [(entry, PIN.fullmatch(entry)) for entry in entries]
    pins = {match["name"]: match["version"] for _, match in matches if match}
    return pins, [entry[:80] for entry, match in matches if match is None]


def asked_by(pyproject: dict[str, Any], extras: tuple[str, ...]) -> set[str]:
    """Name the packages that pyproject asks for directly: base, build backend and these extras."""
    project = pyproject["project"]
    asked = [*project["dependencies"], *pyproject["build-system"]["requires"]]
    for extra in extras:
        asked += project["optional-dependencies"][extra]
    return _names(asked) - {project["name"]}


def _names(requirements: list[str]) -> set[str]:
    names = {re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in requirements}
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names}


def errors_of(name: str, text: str, asked: set[str], larger: dict[str, str]) -> Iterator[str]:
    """Tell what is wrong with one lock; `larger` holds the pins of the lock it must be a part of."""
    pins, others = pins_of(text)
    if "://" in text:
        yield f"{name}: holds an address"
    for entry in others:
        yield f"{name}: not a pin with hashes: {entry}"
    for missing in sorted(asked - pins.keys()):
        yield f"{name}: {missing} is asked for and missing; run: python3 tasks.py lock"
    for package, version in pins.items():
        if larger and larger.get(package) != version:
            yield f"{name}: {package}=={version} is not what the next larger lock holds"


def main() -> int:
    """Check all locks, of the project's own the largest first; 1 if anything is wrong."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    found: list[str] = []
    larger: dict[str, str] = {}
    for name, extras in reversed(EXTRAS_OF.items()):
        text = (ROOT / "requirements" / f"{name}.lock").read_text("utf-8")
        found += errors_of(f"requirements/{name}.lock", text, asked_by(pyproject, extras), larger)
        larger, _ = pins_of(text)
    for name in PEERS:
        text = (ROOT / "requirements" / f"{name}.lock").read_text("utf-8")
        asked = _names((ROOT / "requirements" / f"{name}.in").read_text("utf-8").splitlines())
        found += errors_of(f"requirements/{name}.lock", text, asked, {})
    for name in WITH_BASE:
        text = (ROOT / "requirements" / f"{name}.lock").read_text("utf-8")
        asked = _names((ROOT / "requirements" / f"{name}.in").read_text("utf-8").splitlines())
        found += errors_of(f"requirements/{name}.lock", text, asked | asked_by(pyproject, ()), {})
    print(*found, f"{len(EXTRAS_OF) + len(PEERS) + len(WITH_BASE)} locks, {len(found)} errors", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
