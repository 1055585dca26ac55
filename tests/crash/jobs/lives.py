"""Programs that crash, and programs that sleep."""

import os
from typing import Any


def crashes(run: Any) -> None:
    os._exit(9)


def sleeps(run: Any) -> str:
    run.sleep("1h")
    return "rested"
