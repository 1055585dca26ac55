"""``python -m perdure.demo.world --folder DIR``: the outside world in the foreground, for a job of your own.

Prints where everything is as one JSON object, then waits for Ctrl-C or SIGTERM and prints what was counted.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

from perdure.demo.world.launch import start
from perdure.demo.world.server_process import WorldError


def main() -> int:
    """Run the world until a signal comes; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m perdure.demo.world", description="The demo's outside world.")
    parser.add_argument("--folder", type=Path, required=True, help="where it keeps its files and logs")
    parser.add_argument("--key-ttl-seconds", type=float, default=86400.0, help="how long a webhook key is remembered")
    told = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: ended.set())
    try:
        world = start(told.folder, key_ttl_seconds=told.key_ttl_seconds)
    except WorldError as error:
        sys.stderr.write(f"error[{error.code}]: {error}\n{error.safe}\n{error.next_command}\n")
        return error.exit_code
    with world:
        sys.stdout.write(json.dumps(world.endpoints(), indent=2) + "\n")
        sys.stdout.flush()
        ended.wait()
        sys.stdout.write(json.dumps({"counts": world.counts()}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
