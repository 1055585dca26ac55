"""Build the documentation site from the pages as they stand: ``python3 tasks.py site``; it needs no network.

The README is its first page. What the pages say to the tests (``runnable``, ``file=``) is left out, links between the
README and the pages are turned, and the diagrams, which the pages hold as text, are drawn. A link that leads nowhere
fails the build.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from perdure.core.transitions import CALL_TRANSITIONS, RUN_TRANSITIONS
from perdure.model.run import RunStatus
from perdure.model.toolcall import CallStatus
from tools.diagrams import CALL_PLACES, RUN_PLACES, drawn

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "build"
_FENCE = re.compile(r"^```(\w+)[^\n`]*$", re.MULTILINE)
_DIAGRAM = re.compile(r"(<!-- generated: ([a-z-]+) -->\n)```mermaid\n.*?^```$", re.DOTALL | re.MULTILINE)
_BESIDE = re.compile(
    r"\[([^\]]*)\]\((?:\.\./)?(?:AGENTS\.md|LICENSE|examples/[^)]*)\)"
)  # in the repository, not on the site
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FIRST_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-reports.md",
}


def staged(text: str, *, is_first: bool, up: str = "") -> str:
    """Return a page as the site's builder reads it.

    Args:
        text: the page as it stands in the repository.
        is_first: whether it lies in the root of the repository.
        up: the way from the page to the site's root, such as ``../``.
    """
    text = _DIAGRAM.sub(rf"\1![\2]({up}states/\2.svg)", text)
    text = _BESIDE.sub(r"\1", _FENCE.sub(r"```\1", text))
    if is_first:
        text = text.replace("](docs/", "](")
    way = "" if is_first else f"../{up}"
    for name, page in _FIRST_PAGES.items():
        text = text.replace(f"]({way}{name}", f"]({up}{page}")
    return text


def diagrams() -> Mapping[str, str]:
    """Return the pictures of the state machines by the names of their generated blocks."""
    return {
        "call-states": drawn(
            CALL_TRANSITIONS, CALL_PLACES, [s for s in CallStatus if s.settled], "The states of a call"
        ),
        "run-states": drawn(RUN_TRANSITIONS, RUN_PLACES, [s for s in RunStatus if s.ended], "The states of a run"),
    }


def stage(root: Path, folder: Path) -> None:
    """Write every page of a checkout into a folder, ready for the builder."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, page in _FIRST_PAGES.items():
        _write(folder / page, staged((root / name).read_text("utf-8"), is_first=True))
    for source in sorted((root / "docs").rglob("*")):
        below = source.relative_to(root / "docs")
        if source.suffix == ".md":
            up = "../" * (len(below.parts) - 1)
            _write(folder / below, staged(source.read_text("utf-8"), is_first=False, up=up))
    for name, picture in diagrams().items():
        _write(folder / "states" / f"{name}.svg", picture)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def main() -> int:
    """Stage the pages and build the site into ``build/site``; a warning is an error."""
    stage(ROOT, BUILT / "pages")
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--clean"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, check=False
    )
    told = [line[:160] for line in _COLOUR.sub("", done.stdout + done.stderr).splitlines()]
    print("\n".join(told) if done.returncode else f"the site stands in {BUILT / 'site'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
