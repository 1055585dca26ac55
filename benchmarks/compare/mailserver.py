"""The judge: a real SMTP server in a process of its own, ``python -m benchmarks.compare.mailserver --log FILE``.

A line of its log is on the disk before the client gets its 250. It prints its port when it is ready, and ends with
its standard input: it never outlives the driver. No system under test sees the log.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def count(log: Path, event: str) -> Counter[str]:
    """Count the accepted mails by subject (`mail`), or the reads by what was asked for (`read`).

    A last line without its end is still being written: its 250 never left.
    """
    whole, _, _ = log.read_text("utf-8").rpartition("\n") if log.exists() else ("", "", "")
    lines = [json.loads(line) for line in whole.splitlines()]
    return Counter(line["what"] for line in lines if line["event"] == event)


class MailServer:
    """One server process: `with MailServer(folder / "mails.jsonl") as server`, then `server.port`.

    Args:
        log: where it writes what it accepted.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self.port = 0

    def __enter__(self) -> "MailServer":
        command = [sys.executable, "-m", "benchmarks.compare.mailserver", "--log", str(self.log)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ready = self._process.stdout.readline() if self._process.stdout else b""
        if not ready:
            self.__exit__(None, None, None)
            raise RuntimeError("the mail server did not start; its own message is on stderr")
        self.port = int(ready)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def mails(self) -> Counter[str]:
        """Count the accepted mails by subject."""
        return count(self.log, "mail")

    def reads(self) -> Counter[str]:
        """Count the reads by what was asked for."""
        return count(self.log, "read")


class Handler:
    """Logs each mail and each read durably, then answers (the method names are aiosmtpd's)."""

    def __init__(self, log: Path) -> None:
        self._log = log.open("ab")

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Accept a mail."""
        subject = message_from_bytes(envelope.original_content, policy=default)["Subject"]
        self._write("mail", str(subject), to=envelope.rcpt_tos)
        return "250 OK, accepted"

    async def handle_VRFY(self, server: Any, session: Any, envelope: Any, address: str) -> str:
        """Answer a read, which changes nothing."""
        self._write("read", address.partition("@")[0])
        return f"252 {address}"

    def _write(self, event: str, what: str, **more: object) -> None:
        self._log.write(json.dumps({"event": event, "what": what, **more}).encode() + b"\n")
        self._log.flush()
        os.fsync(self._log.fileno())


async def _serve(log: Path) -> None:
    from aiosmtpd.smtp import SMTP

    handler = Handler(log)
    listener = await asyncio.get_running_loop().create_server(
        lambda: SMTP(handler, hostname="mail.example.org"), "127.0.0.1", 0
    )
    print(listener.sockets[0].getsockname()[1], flush=True)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    async with listener:
        await listener.serve_forever()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, required=True, help="append-only, one JSON object a line")
    asyncio.run(_serve(parser.parse_args().log))
