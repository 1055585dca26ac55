"""The engine's side of the comparison: lives one program per forked process, and stops it dead at a numbered point.

Run as a module it is a small server: it imports the engine once and forks for every life, so that a life costs
milliseconds and still ends as a process does, with nothing run after it.
"""

import asyncio
import base64
import json
import os
import pickle
import random
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apsw

import perdure
from perdure.engine import Engine
from tests.model.engine_models import Conversation
from tests.model.words import Call, Fail, Gather, Loop, Memo, Only, Program, Step, Timeout, Tool, Try

RUN = "r"
FAST = perdure.Tuning(quiet_seconds=0.05, first_retry_seconds=0.01, wait_poll_seconds=0.02)


class Order(NamedTuple):
    """What the server is asked to do in a process of its own."""

    do: str  # live · answer
    folder: str
    program: Program
    sync: bool
    seed: int
    life: int = 1
    crash_at: int | None = None
    reopen: bool = False


class OwnError(Exception):
    """What `Fail` raises."""


class Provider:
    """An append-only file that every life of a run writes to."""

    def __init__(self, folder: str) -> None:
        self.path = Path(folder, "provider.log")

    def entries(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def serve(self, tool: Tool, text: str, key: str) -> str:
        """Do it, decline it, or find that it was done under this key; a ref."""
        log = self.entries()
        for number, entry in enumerate(log):
            if tool.kind == "keyed" and entry["key"] == key:
                return f"{tool.name}-{number}"
        before = sum(1 for entry in log if (entry["tool"], entry["args"]) == (tool.name, text))
        accepted = before >= tool.declines and text != tool.refuses
        with self.path.open("a") as file:
            file.write(json.dumps({"tool": tool.name, "args": text, "key": key, "accepted": accepted}) + "\n")
        if not accepted:
            raise perdure.ToolFailed("declined", retry=False)
        return f"{tool.name}-{len(log)}"

    def refs(self, tool: str, text: str) -> list[str]:
        """What a search by arguments finds."""
        return [
            f"{tool}-{number}"
            for number, entry in enumerate(self.entries())
            if entry["accepted"] and (entry["tool"], entry["args"]) == (tool, text)
        ]


class Script:
    """A program as a Python agent, sync or async."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.provider = Provider(order.folder)
        self.tools_named = tools_of(order.program.steps)
        self.tools = {tool.name: self.declared(tool) for tool in self.tools_named}
        self.draw = random.Random(f"{order.seed} {order.life}")

    def declared(self, tool: Tool) -> Any:
        """The tool as a user would write it."""
        how: dict[str, Any] = {"side_effect_class": "read_only" if tool.kind == "read" else "external"}
        if tool.kind == "keyed":
            how["key_ttl"] = "24h"
        if tool.repeat is not None:
            how["repeat"] = tool.repeat
        if tool in scoped(self.order.program.steps):
            how["scope"] = ["to"]

        def sync_send(text: str, to: str = "", *, call: perdure.CallContext) -> str:
            return self.provider.serve(tool, text, call.idempotency_key) if tool.kind != "read" else text

        async def send(text: str, to: str = "", *, call: perdure.CallContext) -> str:
            await self.dawdle()
            ref = sync_send(text, to, call=call)
            await self.dawdle()
            return ref

        made = perdure.tool(name=tool.name, probe_lag=0, **how)(sync_send if self.order.sync else send)
        if tool.kind == "probed":

            @made.probe
            def search(call: perdure.CallContext) -> perdure.Probe:
                found = self.provider.refs(tool.name, str(call.args["text"]))
                if not found:
                    return perdure.Probe.not_happened(complete=True)
                return perdure.Probe.happened(found[-1], ref=found[-1])

        return made

    async def dawdle(self) -> None:
        """Let other branches go first, now and then."""
        for _ in range(self.draw.choice((0, 0, 1, 2, 5))):
            await asyncio.sleep(0)

    def words(self, step: Call) -> str:
        return f"{step.args}@{min(self.order.life, 2)}" if step.varies else step.args

    def options(self, step: Call) -> dict[str, Any]:
        scope = {"to": step.scope} if step.scope is not None else {}
        manner = {"on_challenge": step.manner} if step.manner != "wait" else {}
        return scope | ({"dedupe_key": step.key} if step.key else {}) | manner

    def main(self, run: Any) -> str:
        self.body(run, self.order.program.steps)
        return "done"

    def body(self, run: Any, steps: tuple[Step, ...]) -> None:
        for step in steps:
            match step:
                case Call():
                    run.call(self.tools[step.tool.name], text=self.words(step), **self.options(step))
                case Memo(name, inner):
                    run.memo(name, partial(self.body, run, inner))
                case Try(inner, fallback):
                    try:
                        self.body(run, inner)
                    except (perdure.CallError, OwnError):
                        self.body(run, fallback)
                case Loop():
                    Conversation(step, self.order.life).live(run)
                case Only(lives, inner):
                    if self.order.life in lives:
                        self.body(run, inner)
                case Fail():
                    raise OwnError

    async def amain(self, run: Any) -> str:
        await self.abody(run, self.order.program.steps)
        return "done"

    async def abody(self, run: Any, steps: tuple[Step, ...]) -> None:
        for step in steps:
            await self.dawdle()
            await self.astep(run, step)

    async def astep(self, run: Any, step: Step) -> None:
        match step:
            case Call():
                await run.call(self.tools[step.tool.name], text=self.words(step), **self.options(step))
            case Memo(name, inner):
                await run.memo(name, partial(self.abody, run, inner))
            case Gather(branches):
                await self.gather(run, branches)
            case Try(inner, fallback):
                try:
                    await self.abody(run, inner)
                except (perdure.CallError, OwnError):
                    await self.abody(run, fallback)
            case Timeout():
                await self.bounded(run, step)
            case Loop():
                await Conversation(step, self.order.life).alive(run)
            case Only(lives, inner) if self.order.life in lives:
                await self.abody(run, inner)
            case Fail():
                raise OwnError

    async def bounded(self, run: Any, step: Timeout) -> None:
        """Lose patience at once, soon or never."""
        try:
            async with asyncio.timeout(self.draw.choice((0, 0.001, 0.004, 0.01, 9))):
                await self.abody(run, step.body)
        except TimeoutError:
            await self.abody(run, step.fallback)

    async def gather(self, run: Any, branches: tuple[tuple[Step, ...], ...]) -> None:
        """All to their end, then the first error in their order."""
        sides = (self.abody(run, branch) for branch in branches)
        for outcome in await asyncio.gather(*sides, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome


def scoped(steps: tuple[Any, ...]) -> set[Tool]:
    """The tools whose scope the program declares."""
    found: set[Tool] = set()
    for step in steps:
        if isinstance(step, Call) and step.scope is not None:
            found.add(step.tool)
        elif isinstance(step, tuple):
            found |= scoped(step)
    return found


def tools_of(steps: tuple[Any, ...]) -> set[Tool]:
    """Every tool that a program names."""
    found: set[Tool] = set()
    for step in steps:
        if isinstance(step, Call):
            found.add(step.tool)
        elif isinstance(step, tuple):
            found |= tools_of(step)
    return found


def live(order: Order) -> dict[str, Any]:
    """One life of the run, to its end or to the crash point."""
    script = Script(order)
    environ = {} if order.crash_at is None else {"PERDURE_TEST_CRASH_AT_POINT": str(order.crash_at)}
    with opened(order, script, environ) as engine:
        main: Callable[..., Any] = script.main if order.sync else script.amain
        if order.sync:
            outcome = engine.resume(RUN, main=main) if order.reopen else engine.run(main, run_id=RUN)
        else:
            started = engine.aresume(RUN, main=main) if order.reopen else engine.arun(main, run_id=RUN)
            outcome = asyncio.run(started)
    return {
        "status": str(outcome.status),
        "reason": outcome.reason,
        "unmet": outcome.unmet,
        "challenged": outcome.challenged,
    }


def opened(order: Order, script: Script, environ: dict[str, str]) -> Engine:
    return Engine(
        f"sqlite:///{order.folder}/runtime_state.db",
        tools=script.tools.values(),
        state_dir=order.folder,
        tuning=FAST,
        environ=environ,
    )


def answer(order: Order) -> dict[str, Any]:
    """A truthful person answers every question, after looking at the provider."""
    script = Script(order)
    challenges = 0
    with opened(order, script, {}) as engine:
        for run_id, item in engine.inbox():
            assert run_id == RUN and item.tool_call_id is not None
            rows = ledger(order.folder)
            row = next(row for row in rows if row["id"] == item.tool_call_id)
            if item.kind == "challenge":
                challenges += 1
                same = [
                    other["id"] for other in rows if other["status"] == "succeeded" and meaning(other) == meaning(row)
                ]
                if same:
                    engine.resolve(row["id"], "same", same_as=same[-1])
                else:
                    engine.resolve(row["id"], "another")
                continue
            if item.kind == "in_doubt" and row["tool"] in given_up(script):
                engine.resolve(row["id"], "abandon")
                continue
            equal = [other for other in rows if other["status"] == "succeeded" and other["args"] == row["args"]]
            equal = [other for other in equal if other["tool"] == row["tool"]]
            owned = {other["ref"] for other in equal}
            refs = script.provider.refs(row["tool"], row["args"])
            fresh = [ref for ref in refs if ref not in owned]
            if len(refs) > len(equal):
                engine.resolve(row["id"], "happened", result=fresh[-1], ref=fresh[-1])
            else:
                engine.resolve(row["id"], "did_not_happen")
    return {"challenges": challenges}


def given_up(script: Script) -> set[str]:
    """The tools of which nobody can ever tell what became of a call."""
    return {tool.name for tool in script.tools_named if tool.gone}


def meaning(row: dict[str, Any]) -> tuple[str, str]:
    """What the program's author would call it, however a life worded it."""
    return row["tool"], row["args"].partition("@")[0]


def ledger(folder: str) -> list[dict[str, Any]]:
    """The rows as anyone may read them."""
    query = (
        "SELECT tool_call_id, tool_namespace, tool_name, request_ref, status, response_ref, external_correlation_id, "
        "same_as, repeat_of FROM tool_calls ORDER BY call_no"
    )
    # The engine's own SQLite library: two copies of SQLite in one process do not see each other's locks.
    connection = apsw.Connection(str(Path(folder, "runtime_state.db")), flags=apsw.SQLITE_OPEN_READWRITE)
    rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
    connection.close()
    found: list[dict[str, Any]] = []
    for tool_call_id, namespace, name, request, status, receipt, ref, same_as, repeat_of in rows:
        if namespace == "model":
            continue
        memo = namespace == "memo"
        args = name if memo else json.loads(request)["text"]
        known = ref or (json.loads(receipt) if status == "succeeded" and receipt and not memo else None)
        found.append(
            {
                "id": tool_call_id,
                "tool": "memo" if memo else name,
                "args": args,
                "status": status,
                "ref": known,
                "same": same_as,
                "cited": repeat_of,
            }
        )
    return found


def serve() -> None:
    """Fork for each order that arrives on stdin; its end is one line on stdout."""
    for line in sys.stdin:
        order: Order = pickle.loads(base64.b64decode(line))
        child = os.fork()
        if child == 0:
            try:
                result = live(order) if order.do == "live" else answer(order)
                Path(order.folder, "result.json").write_text(json.dumps(result))
            except BaseException:
                Path(order.folder, "result.json").write_text(json.dumps({"error": traceback.format_exc()}))
            finally:
                os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
