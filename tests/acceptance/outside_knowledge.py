"""What only the tests know: how to change every Python process that a command starts, without a word in the product.

A folder with a ``sitecustomize.py`` stands first on ``PYTHONPATH``; each interpreter imports it before anything else. The
provider process is started with ``-S`` and is never changed: it stays the judge.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = (
    "aiosmtpd",
    "aiosmtplib",
    "httpx2",
    "hypothesis",
    "lede",
    "obstore",
    "protego",
    "pymap",
    "trafilatura",
    "typst",
)

PLANT = """
import os
name = os.environ.get("CRASH_LOOP_PLANTED_BUG")
if name:
    from tests.crash.planting import load
    load()[name].install()
"""
BARE = f"""
import sys
for name in {EXTRAS!r}:
    sys.modules[name] = None  # how Python itself marks a module that cannot be had

def watch(event, arguments):
    if event == "socket.connect" and arguments[1][0] not in ("127.0.0.1", "localhost"):
        raise RuntimeError(f"this leaves the machine: {{arguments[1]}}")

sys.addaudithook(watch)
"""


def changed(folder: Path, code: str, **more: str) -> dict[str, str]:
    """Return the variables under which every Python process runs ``code`` first."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(code, "utf-8")
    return {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))), **more}


def planted(folder: Path, name: str) -> dict[str, str]:
    """Return the variables under which a safety rule is broken in every process of the engine."""
    return changed(folder, PLANT, CRASH_LOOP_PLANTED_BUG=name)
