"""One life of a fork, in a process of its own that may be killed at a numbered point."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure import Engine, tool
from perdure.model.run import RunStatus
from perdure.testing.provider.request import post
from tests.crash.planting import plant
from tests.integration.engine_support import FAST

AT_POINT = "PERDURE_TEST_CRASH_AT_POINT"


def agent(url: str) -> Callable[..., Any]:
    """Return a program of three effects at a provider that knows keys; two of them are named by the inputs."""

    @tool(name="put", side_effect_class="external", scope=["name"], key_ttl="24h")
    def put(name: str, *, call: Any) -> str:
        post(f"{url}/keyed", {"event": "effect", "what": name}, {"Idempotency-Key": call.idempotency_key})
        return f"put {name}"

    @put.simulate
    def pretend(name: str) -> str:
        return f"as if {name}"

    def main(run: Any) -> list[str]:
        found: list[str] = []
        for name in ("first", *run.inputs["rest"]):
            with run.step(name):
                found.append(put(name))
        return found

    return main


def live(folder: Path, url: str, effects: str, rest: list[str], point: int | None, bug: str = "") -> None:
    """Make the fork ``f`` of run ``p``, or go on with it, and leave with 0 if it has succeeded."""
    environ = {} if point is None else {AT_POINT: str(point)}
    if bug:
        plant(bug)
    main = agent(url)
    store = f"sqlite:///{folder}/state/runtime_state.db"
    with Engine(store, tuning=FAST, environ=environ) as engine:
        engine.fork("p", at="c2", effects=effects, inputs={"rest": rest}, main=main, new_run_id="f")
        found = engine.resume("f", main=main) if engine.outcome("f").status is not RunStatus.WAITING else None
        os._exit(4 if found is None else 0 if found.status is RunStatus.SUCCEEDED else 3)
