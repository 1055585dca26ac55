"""Run every check of the source, two side by side, also after one failed, and say at the end which did."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SIDE_BY_SIDE = 2
CHECKS = {
    "ruff check": [str(BIN / "ruff"), "check", "."],
    "ruff format": [str(BIN / "ruff"), "format", "--check", "."],
    "mypy": [sys.executable, "-m", "mypy"],
    "basedpyright": [str(BIN / "basedpyright"), "--pythonpath", sys.executable],
    "imports": [str(BIN / "lint-imports"), "--no-cache"],
    "lengths": [sys.executable, "-m", "tools.check_lengths"],
    "locks": [sys.executable, "-m", "tools.check_locks"],
    "pages": [sys.executable, "-m", "tools.docs", "--check"],
    "site": [sys.executable, "-m", "tools.site"],
}


def run(command: list[str]) -> tuple[int, str, float]:
    """Run one check and return its exit code, what it said, and how many seconds it took."""
    began = time.monotonic()
    ended = subprocess.run(command, cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return ended.returncode, ended.stdout, time.monotonic() - began


def main() -> int:
    """Run the checks from the repository's root, tell of them in their order; 1 if any failed."""
    lines: list[str] = []
    failed = False
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for name, (code, said, seconds) in zip(CHECKS, pool.map(run, CHECKS.values()), strict=True):
            print(f"== {name}", said.rstrip(), sep="\n", flush=True)
            failed = failed or code != 0
            lines.append(f"{'FAILED' if code else 'ok':7}{name} ({seconds:.1f} s)")
    print("== summary", *lines, sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
