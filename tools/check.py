"""Run every check of the source, also after one failed, and say at the end which did."""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
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


def main() -> int:
    """Run the checks in turn from the repository's root; 1 if any failed."""
    lines: list[str] = []
    failed = False
    for name, command in CHECKS.items():
        print(f"== {name}", flush=True)
        began = time.monotonic()
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        failed = failed or code != 0
        lines.append(f"{'FAILED' if code else 'ok':7}{name} ({time.monotonic() - began:.1f} s)")
    print("== summary", *lines, sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
