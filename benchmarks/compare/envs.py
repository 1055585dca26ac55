"""One virtual environment for each system, made from its hash-locked file in requirements/."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".compare"
INSTALL_SECONDS = 900


class CouldNotRun(Exception):
    """A system cannot be tried on this machine; the text says why and stands in its row."""


def _run(command: list[str]) -> str:
    env = {"UV_SYSTEM_CERTS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **os.environ}
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CouldNotRun(f"{type(error).__name__}: {error}") from None
    if done.returncode:
        last = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()][-3:]
        raise CouldNotRun(f"the installer ended with {done.returncode}: {' '.join(last)}")
    return done.stdout


def _installer(python: Path) -> list[str]:
    uv = shutil.which("uv")
    if uv is None:
        return [str(python), "-m", "pip", "install", "--quiet", "--no-compile"]
    return [uv, "pip", "install", "--quiet", "--python", str(python)]


def python_of(peer: str) -> Path:
    """Return the interpreter of a system's environment, whether it exists or not."""
    return HOME / peer / "bin" / "python"


def ensure(peer: str, *, this_project: bool = False, lock_name: str = "") -> Path:
    """Make the environment if it is missing or its lock has changed; return its interpreter.

    Args:
        peer: what the environment is called.
        this_project: install this checkout into it as well, anew each time.
        lock_name: of its lock in requirements/; compare-PEER when left out.

    Raises:
        CouldNotRun: the environment cannot be made here.
    """
    lock = ROOT / "requirements" / f"{lock_name or f'compare-{peer}'}.lock"
    folder, python = HOME / peer, python_of(peer)
    stamp = folder / "stamp"
    wanted = hashlib.sha256(f"{lock.read_text('utf-8')}{sys.version_info}{folder}".encode()).hexdigest()
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        print(f"installing {lock.relative_to(ROOT)}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        uv = shutil.which("uv")
        make = [uv, "venv", "--quiet", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
        _run([*make, str(folder)])
        locked = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", str(lock)]
        _run([*_installer(python), *locked])
        stamp.write_text(wanted, "utf-8")
    if this_project:
        again = ["--reinstall"] if shutil.which("uv") else ["--force-reinstall"]
        _run([*_installer(python), *again, "--no-deps", "--no-build-isolation", str(ROOT)])
    return python


def versions(python: Path, packages: tuple[str, ...]) -> dict[str, str]:
    """Ask an environment which versions of these packages it holds."""
    code = "import sys, importlib.metadata as m; [print(p, m.version(p)) for p in sys.argv[1:]]"
    told = _run([str(python), "-c", code, *packages])
    return dict(line.split() for line in told.splitlines())
