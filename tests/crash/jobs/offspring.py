"""A tool whose sending is done by a child process, started in each manner that a program may choose."""

import json
import os
import subprocess
import sys
from typing import Any

from children import SENDER, find, plain

from perdure import CallContext, tool
from perdure.testing.provider.request import __file__ as request_file
from perdure.testing.provider.request import post


@tool(side_effect_class="external", scope=["what"], probe_lag="0s")
def by_offspring(url: str, what: str, manner: str, *, call: CallContext) -> dict[str, Any]:
    body = {"marker": call.idempotency_key, "what": what}
    note = call.workspace / "child.pid"
    if manner == "forked":
        return _forked(url, body, note)
    if manner == "toolbox":
        return _by_the_toolbox(url, body, note)
    words = [sys.executable, "-S", "-c", SENDER, request_file, f"{url}/searchable", json.dumps(body)]
    environ = {} if manner == "without our environment" else None
    own_session = manner == "in a session of its own"
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ, start_new_session=own_session)
    note.write_text(str(child.pid))
    answer, _ = child.communicate()
    return dict(json.loads(answer))


by_offspring.probe(find)


def _forked(url: str, body: dict[str, Any], note: Any) -> dict[str, Any]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, json.dumps(post(f"{url}/searchable", body)[1]).encode())
        os._exit(0)
    os.close(writing)
    note.write_text(str(pid))
    with os.fdopen(reading) as answer:
        found = answer.read()
    os.waitpid(pid, 0)
    return dict(json.loads(found))


def _by_the_toolbox(url: str, body: dict[str, Any], note: Any) -> dict[str, Any]:
    from perdure.toolbox.shell import run_child

    words = [sys.executable, "-S", "-c", SENDER, request_file, f"{url}/searchable", json.dumps(body)]
    done = run_child(words, started=lambda pid: note.write_text(str(pid)))
    return dict(json.loads(done["stdout"]))


def main(run: Any) -> dict[str, Any]:
    url, tag = run.inputs["url"], run.inputs["tag"]
    sent = by_offspring(url, f"{tag}:sent", run.inputs["manner"])
    return {"sent": sent["id"], "told": plain(url, f"{tag}:told")["id"]}
