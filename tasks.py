"""One command for everything: make .venv from a hash-locked file, then run a task.

usage: python3 tasks.py TASK [arguments passed on]

  demo    watch a real job being killed three times and finish anyway
  test    run the tests (pytest)
  check   ruff, mypy, basedpyright, import layers, lengths, locks
  bench   print the benchmarks
  compare do the same job on other systems, killed, and count its mails
  soak    hunt for a schedule that loses or repeats an effect
  prove   show one promise at a time; without a name, list them
  figures measure what docs/reliability.md tells
  docs    make or check the generated pages
  site    build the documentation site; no network needed
  lock    resolve requirements/*.lock anew
  clean   remove .venv and caches

Standard library only, so that it runs on a machine that has nothing but Python. PERDURE_VENV=DIR takes
another folder than .venv, for a second Python version beside the first.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this very line is for those who have an older one
    found = ".".join(str(part) for part in sys.version_info[:3])
    print("perdure needs Python 3.11 or newer; this is " + found + ": " + sys.executable, file=sys.stderr)
    sys.exit(2)

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = Path(os.environ.get("PERDURE_VENV") or ROOT / ".venv").absolute()
BIN = VENV / "bin"
PYTHON = str(BIN / "python")
STAMP = VENV / "perdure-stamp"
# Each lock holds all of the one before it at the same versions: the larger one serves the smaller's tasks.
LOCKS = ("demo", "test", "check")
COMMANDS = {
    "demo": ("demo", [str(BIN / "perdure"), "demo"]),
    "bench": ("demo", [PYTHON, "-m", "benchmarks"]),
    "compare": ("demo", [PYTHON, "-m", "benchmarks.compare"]),
    "soak": ("test", [PYTHON, "-m", "tests.soak"]),
    "prove": ("test", [PYTHON, "-m", "tools.prove"]),
    "figures": ("test", [PYTHON, "-m", "tools.figures"]),
    "docs": ("demo", [PYTHON, "-m", "tools.docs"]),
    "site": ("check", [PYTHON, "-m", "tools.site"]),
    "test": ("test", [PYTHON, "-m", "pytest"]),
    "check": ("check", [PYTHON, "-m", "tools.check"]),
    "lock": (None, [sys.executable, "-m", "tools.lock"]),
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def stamp_of(lock: str) -> str:
    """What an install depends on: the pins, the project's own metadata, the place, the Python version."""
    pins = (ROOT / "requirements" / f"{lock}.lock").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    told = [pins, project["project"], project["build-system"], str(ROOT), sys.version_info[:2]]
    return f"{lock} {hashlib.sha256(json.dumps(told).encode()).hexdigest()}"


def is_installed(lock: str) -> bool:
    try:
        return STAMP.read_text("utf-8") in [stamp_of(other) for other in LOCKS[LOCKS.index(lock) :]]
    except OSError:
        return False


def output_of(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def run(command: list[str]) -> None:
    # Without this uv trusts its own list of certificates only, and not what a company's proxy needs.
    env = {"UV_SYSTEM_CERTS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **os.environ}
    code = subprocess.run(command, env=env, check=False).returncode
    if code:
        sys.exit(code)


def make_venv(uv: str | None) -> None:
    wanted = "{}.{}".format(*sys.version_info[:2])
    same = output_of([PYTHON, "-c", "import sys; print('{}.{}'.format(*sys.version_info[:2]))"]) == wanted
    if same and (uv or output_of([PYTHON, "-m", "pip", "--version"])):
        return
    if not uv and importlib.util.find_spec("ensurepip") is None:
        say("apt install python3-venv   # then once more: this Python cannot make a virtual environment")
        sys.exit(2)
    # Only what is a virtual environment is ever emptied, whatever PERDURE_VENV names.
    clear = ["--clear"] if not same and (VENV / "pyvenv.cfg").exists() else []
    say(f"making {VENV} for Python {wanted}")
    make = [uv, "venv", "--quiet", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
    run([*make, *clear, str(VENV)])


def install(lock: str) -> None:
    """Install the lock and the project itself into the venv, unless the stamp says that this was done."""
    with open(__file__, "rb") as guard:  # two terminals may start at once: the second one waits
        fcntl.flock(guard, fcntl.LOCK_EX)
        if is_installed(lock):
            return
        began = time.monotonic()
        uv = shutil.which("uv") if output_of(["uv", "--version"]) else None
        make_venv(uv)
        STAMP.unlink(missing_ok=True)
        say(f"installing requirements/{lock}.lock (only this once)")
        pip = [uv, "pip", "install", "--python", PYTHON] if uv else [PYTHON, "-m", "pip", "install", "--no-compile"]
        # The lock is complete: nothing is resolved, and nothing is built, which would fetch unlocked tools.
        locked = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
        run([*pip, "--quiet", *locked, "-r", str(ROOT / "requirements" / f"{lock}.lock")])
        run([*pip, "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)])
        STAMP.write_text(stamp_of(lock), "utf-8")
        say(f"installed in {time.monotonic() - began:.0f} s")


def clean() -> None:
    """Remove what tasks and builds made; sources, locks and the data of jobs stay."""
    caches = (".compare", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", "build", "dist")
    venv = [VENV] if (VENV / "pyvenv.cfg").exists() else []
    for path in [*venv, *(ROOT / name for name in caches), *ROOT.glob("[!.]*/**/__pycache__")]:
        shutil.rmtree(path, ignore_errors=True)


def main(arguments: list[str]) -> int:
    task, passed_on = (arguments or ["(none)"])[0], arguments[1:]
    if task == "clean":
        clean()
        return 0
    if task not in COMMANDS:
        say(__doc__ or "")
        return 0 if task in ("-h", "--help") else 2
    lock, command = COMMANDS[task]
    if lock:
        install(lock)
        os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    if task != "demo":  # the demo keeps its data in the folder it is started from
        os.chdir(ROOT)
    if task == "test" and not set(passed_on) - {"--all"}:  # side by side: most tests wait for processes they started
        passed_on += ["-n", str(min(3 * (os.cpu_count() or 1), 8)), "--dist", "worksteal"]
    os.execv(command[0], [*command, *passed_on])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
