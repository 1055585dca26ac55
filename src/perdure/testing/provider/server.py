"""The provider process: `python -m perdure.testing.provider.server --log FILE`.

It prints one JSON line with its port when it is ready, and ends when its standard input is closed: a provider
never outlives the test that started it, however that test ended.
"""

import argparse
import asyncio
import json
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

from perdure.testing.provider.control import Changes, Control
from perdure.testing.provider.effect_log import EffectLog
from perdure.testing.provider.faults import EFFECT_PATHS, NO_FAULT, READ_PATHS, Fault, FaultBook, Holds
from perdure.testing.provider.wire import BadRequest, Reply, Request, encode_reply, read_request
from perdure.testing.provider.world import World, what_of


class Server:
    """Takes each request through its fault: what happens before, at and after its effect."""

    def __init__(self, log_path: Path, *, fsync: bool) -> None:
        self._changes = Changes()
        log = EffectLog(log_path, fsync=fsync, on_append=self._changes.announce)
        self._world = World(log)
        self._faults = FaultBook()
        self._holds = Holds()
        self._control = Control(log, self._world, self._faults, self._holds, self._changes)
        self._landing: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client closes it or a fault drops it.

        A client that goes away does not stop its request: the effect of a sender that was killed still lands.
        """
        try:
            while (reply := await self._next_reply(reader)) is not None:
                if reply.dropped:
                    writer.transport.abort()
                    return
                whole = encode_reply(reply)
                writer.write(whole[: len(whole) - len(whole) // 4] if reply.cut else whole)
                await writer.drain()
                if reply.last or reply.cut:
                    return
        except ConnectionError:
            return
        finally:
            writer.close()

    async def _next_reply(self, reader: asyncio.StreamReader) -> Reply | None:
        try:
            request = await read_request(reader)
        except BadRequest as error:
            return Reply(error.status, {"error": str(error)}, last=True)
        if request is None:
            return None
        try:
            reply = await self._answer(request)
        except BadRequest as error:
            reply = Reply(error.status, {"error": str(error)})
        return replace(reply, last=request.headers.get("connection", "").lower() == "close")

    async def _answer(self, request: Request) -> Reply:
        if request.path == "/control":
            return await self._control.answer(request)
        if request.method == "POST" and request.path in EFFECT_PATHS:
            reply = await self._effect(request, self._faults.take(request, what_of(request)))
        elif request.method == "GET" and request.path in (*READ_PATHS, "/create"):
            reply = await self._look(request, self._faults.take(request, what_of(request)))
        else:
            reply = Reply(404, {"error": f"no such endpoint: {request.method} {request.path}"})
        return reply

    async def _effect(self, request: Request, fault: Fault) -> Reply:
        if fault.reject_before_effect is not None:
            return self._reject(request, fault.reject_before_effect)
        refused = self._world.admit(request)
        if refused is not None:
            return await self._leave(request, fault, refused)
        if fault.lands_late:
            return self._accept_late(request, fault)
        await self._stand_before(request, fault)
        stored_status = fault.status_after_effect if fault.status_is_stored else None
        reply = self._world.act(request, stored_status=stored_status)
        return await self._leave(request, fault, reply)

    async def _look(self, request: Request, fault: Fault) -> Reply:
        if fault.reject_before_effect is not None:
            return self._reject(request, fault.reject_before_effect)
        await self._stand_before(request, fault)
        return await self._leave(request, fault, self._world.look(request))

    def _reject(self, request: Request, status: int) -> Reply:
        self._world.note("rejected", request, status=status)
        return Reply(status, {"error": "rejected on purpose, nothing was done"})

    def _accept_late(self, request: Request, fault: Fault) -> Reply:
        self._world.note("accepted_late", request)
        task = asyncio.create_task(self._land(request, fault))
        self._landing.add(task)
        task.add_done_callback(self._landing.discard)
        if fault.drop_reply_after_effect:
            self._world.note("dropped", request, status=504)
        return Reply(504, {"error": "no answer in time"}, dropped=fault.drop_reply_after_effect)

    async def _land(self, request: Request, fault: Fault) -> None:
        if fault.land_late_on_release:
            await self._hold(request)
        await asyncio.sleep(fault.land_late_seconds or 0)
        self._world.act(request, late=True)

    async def _stand_before(self, request: Request, fault: Fault) -> None:
        if fault.hold_before_effect:
            await self._hold(request)
        if fault.delay_before_effect_seconds:
            await self._delay(request, fault.delay_before_effect_seconds)

    async def _hold(self, request: Request) -> None:
        self._world.note("held", request)
        await self._holds.wait(request.path, what_of(request))

    async def _delay(self, request: Request, seconds: float) -> None:
        self._world.note("delayed", request, seconds=seconds)
        await asyncio.sleep(seconds)

    async def _leave(self, request: Request, fault: Fault, reply: Reply) -> Reply:
        """What happens to a reply on its way out."""
        if fault is NO_FAULT:
            return reply
        if fault.hold:
            await self._hold(request)
        if fault.delay_after_effect_seconds:
            await self._delay(request, fault.delay_after_effect_seconds)
        if fault.drop_reply_after_effect:
            self._world.note("dropped", request, status=reply.status)
            return Reply(reply.status, reply.body, dropped=True)
        if fault.cut_reply_after_effect:
            self._world.note("cut", request, status=reply.status)
            return replace(reply, cut=True)
        if fault.status_after_effect is not None:
            return Reply(fault.status_after_effect, {"error": "something broke after your request"})
        return reply


def end_with_parent() -> None:
    """End this process at once when its standard input is closed, whatever it is doing."""
    sys.stdin.buffer.read()
    os._exit(0)


async def run(log_path: Path, port: int, *, fsync: bool) -> None:
    """Serve on the loopback until the process ends."""
    server = Server(log_path, fsync=fsync)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", port)
    print(json.dumps({"port": listener.sockets[0].getsockname()[1], "pid": os.getpid()}), flush=True)
    threading.Thread(target=end_with_parent, daemon=True).start()
    async with listener:
        await listener.serve_forever()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description="An independent provider for crash tests.")
    parser.add_argument("--log", type=Path, required=True, help="append-only log, one JSON object a line")
    parser.add_argument("--port", type=int, default=0, help="0 lets the system choose")
    parser.add_argument("--no-fsync", action="store_true", help="faster; the log may lose lines at power loss")
    options = parser.parse_args()
    asyncio.run(run(options.log, options.port, fsync=not options.no_fsync))


if __name__ == "__main__":
    main()
