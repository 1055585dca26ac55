"""The command ``perdure`` in a process of its own, forked from one that has imported the library already.

A fresh interpreter needs a quarter of a second before it reads its first word, and the tests type hundreds of commands. The
child has its own pid, its own working folder and environment, opens its own ledger, and ends like any process. What is about
the start of an interpreter, or gets signals from outside, starts one instead.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Left(NamedTuple):
    """What a process left behind."""

    exit_code: int
    out: str
    err: str


class Forker:
    """Starts commands side by side, each forked from the next process that is free."""

    def __init__(self) -> None:
        self._free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()

    def type(self, words: Sequence[str], folder: Path, environ: Mapping[str, str]) -> Left:
        """Run ``perdure`` with these words in a folder, with this environment and no other, to its end."""
        try:
            server = self._free.get_nowait()
        except Empty:
            server = self._start()
        pipe_in, pipe_out = server.stdin, server.stdout
        assert pipe_in is not None and pipe_out is not None
        print(json.dumps([list(words), str(folder), dict(environ)]), file=pipe_in, flush=True)
        line = pipe_out.readline()
        assert line, "the process that forks has ended; its own message is on stderr"
        self._free.put(server)
        return Left(*json.loads(line))

    def _start(self) -> "subprocess.Popen[str]":
        """Start a process that forks: it ends when its standard input does, at the latest with this process."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.forked"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )


FORKER = Forker()


def _serve() -> None:
    _warm_up()
    for line in iter(sys.stdin.readline, ""):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            pid = os.fork()
            if pid == 0:
                _become(*json.loads(line), out.fileno(), err.fileno())
            _, status = os.waitpid(pid, 0)
            print(json.dumps([os.waitstatus_to_exitcode(status), _text(out), _text(err)]), flush=True)


def _warm_up() -> None:
    import perdure.cli

    for module in pkgutil.walk_packages(perdure.cli.__path__, "perdure.cli."):
        importlib.import_module(module.name)
    with tempfile.TemporaryDirectory() as folder, perdure.open(state_dir=folder) as engine:
        engine.run(lambda run: run.memo("nothing", str))
    gc.collect()
    gc.freeze()  # the children share these pages instead of copying them at their first collection


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode())


def _become(words: list[str], folder: str, environ: dict[str, str], out: int, err: int) -> None:
    """Be the process of ``python -m perdure`` in the forked child, up to its end."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    command = sys.modules["perdure.cli.main"]
    sys.argv[:] = [str(Path(command.__file__ or "").parent.parent / "__main__.py"), *words]
    sys.path[0] = folder
    importlib.invalidate_caches()
    exit_code = 1
    try:
        exit_code = command.main()
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined] # what an interpreter does at its end, but for freeing memory
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


if __name__ == "__main__":
    _serve()
