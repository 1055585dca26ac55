"""Starts lives quickly: a process that has imported the library forks one real child for each order.

A fresh interpreter needs a quarter of a second before the first line of a job, and the loops start thousands of lives. The
child opens its own ledger after the fork, has its own pid and start time, and ends like any process: by itself, by its
crash knob, or by a signal. One JSON object a line on stdin and stdout; it ends when its stdin is closed.
"""

import atexit
import gc
import json
import os
import signal
import sys
import tempfile
import traceback
from typing import Any

LIFE_SECONDS = 150  # longer than a request of a tool waits for an answer that does not come


def warm_up() -> None:
    """Import and cache what every life needs, by a whole run in a ledger that is thrown away."""
    import encodings.idna  # noqa: F401 - imported by the first connection

    import perdure
    import perdure.cli.decide_cmd
    import perdure.cli.main

    async def main(run: Any) -> str:
        return str(await run.memo("nothing", str))

    with tempfile.TemporaryDirectory() as folder, perdure.open(state_dir=folder) as engine:
        engine.run(main)
    gc.collect()
    gc.freeze()  # the children share these pages instead of copying them at their first collection


def serve() -> None:
    """Answer orders until the parent closes the pipe."""
    warm_up()
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            pid = os.fork()
            if pid == 0:
                _become(request, out.fileno(), err.fileno())
            if request.get("announce"):  # for those who mean to stop or kill it from outside
                print(json.dumps({"pid": pid}), flush=True)
            _, status = os.waitpid(pid, 0)
            answer = {"pid": pid, "exit_code": os.waitstatus_to_exitcode(status),
                      "stdout": _text(out), "stderr": _text(err)}  # fmt: skip
        print(json.dumps(answer), flush=True)


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode())


def _become(request: dict[str, Any], out: int, err: int) -> None:
    """Live the life in the forked child, and do what an interpreter does at its end, but for freeing its memory."""
    from tests.crash.child import Order, obey

    signal.alarm(LIFE_SECONDS)  # a life that hangs is killed, and its parent sees the signal
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.environ.update(request["environ"])
    exit_code = 1
    try:
        exit_code = obey(Order(**request["order"]))
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()  # the crash knob's last word is said there
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    serve()
