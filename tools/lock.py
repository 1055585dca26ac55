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

from tools.check_locks import EXTRAS_OF, ROOT

COMPILE = ["pip", "compile", "--quiet", "--no-config", "--universal", "--python-version", "3.11"]
FORMAT = ["--generate-hashes", "--no-header", "--no-annotate", "--only-binary", ":all:"]


def main() -> int:
    """Write the three locks, using uv, which is fetched into a temporary folder where it is missing."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    backend = "\n".join(pyproject["build-system"]["requires"]).encode()
    env = {key: value for key, value in os.environ.items() if not key.startswith(("UV_", "PIP_"))}
    env["UV_SYSTEM_CERTS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        uv = shutil.which("uv")
        if uv is None:
            fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, "uv"]
            subprocess.run(fetch, check=True)
            uv = str(Path(folder, "bin", "uv"))
        bound: list[str] = []
        for name, extras in reversed(EXTRAS_OF.items()):  # the smaller ones must agree with the largest
            new = Path(folder, f"{name}.lock")
            wanted = [*(f"--extra={extra}" for extra in extras), "pyproject.toml", "-"]
            command = [uv, *COMPILE, *FORMAT, *bound, f"--output-file={new}", *wanted]
            subprocess.run(command, cwd=ROOT, env=env, check=True, input=backend)
            bound = ["--constraint", str(new)]
            shutil.copyfile(new, ROOT / "requirements" / new.name)
    print("wrote requirements/*.lock")
    return 0


if __name__ == "__main__":
    sys.exit(main())
