"""Resolve the newest allowed versions anew and write requirements/*.lock: pins and hashes, no address.

Nothing of this machine's own package settings may reach the files: they are left out of the environment.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tools.check_locks import EXTRAS_OF, PEERS, ROOT, WITH_BASE

COMPILE = ["pip", "compile", "--quiet", "--no-config", "--universal", "--python-version", "3.11"]
FORMAT = ["--generate-hashes", "--no-header", "--no-annotate", "--only-binary", ":all:"]


def main(names: list[str]) -> int:
    """Write all locks, or those of the other systems that are named, using uv (fetched if it is missing)."""
    alone = (*PEERS, *WITH_BASE)
    if strange := set(names) - set(alone):
        print(f"only these can be written alone: {', '.join(alone)}; not {', '.join(strange)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        uv = shutil.which("uv")
        if uv is None:
            fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "uv"]
            subprocess.run(fetch, check=True)
            uv = str(Path(folder, "bin", "uv"))
        if not names:
            _write_own(uv, Path(folder))
        for name in names or alone:
            wanted = [f"requirements/{name}.in"]
            if name in WITH_BASE:  # the versions are those that the suite runs with
                wanted += ["pyproject.toml", "--constraint", "requirements/check.lock", "-"]
            _compile(uv, Path(folder, f"{name}.lock"), wanted, told=_backend() if name in WITH_BASE else "")
    print("wrote requirements/*.lock")
    return 0


def _backend() -> str:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return "\n".join(pyproject["build-system"]["requires"])


def _write_own(uv: str, folder: Path) -> None:
    backend = _backend()
    bound: list[str] = []
    for name, extras in reversed(EXTRAS_OF.items()):  # the smaller ones must agree with the largest
        new = folder / f"{name}.lock"
        wanted = [*(f"--extra={extra}" for extra in extras), "pyproject.toml", "-"]
        _compile(uv, new, [*bound, *wanted], told=backend)
        bound = ["--constraint", str(new)]


def _compile(uv: str, new: Path, wanted: list[str], told: str = "") -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("UV_", "PIP_"))}
    env["UV_SYSTEM_CERTS"] = "1"
    command = [uv, *COMPILE, *FORMAT, f"--output-file={new}", *wanted]
    subprocess.run(command, cwd=ROOT, env=env, check=True, input=told.encode())
    shutil.copyfile(new, ROOT / "requirements" / new.name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
