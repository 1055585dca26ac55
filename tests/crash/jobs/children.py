"""A tool whose sending is done by a child process, which may outlive the life that started it."""

import subprocess
import sys
from typing import Any

from reference import answered

from perdure import CallContext, Probe, tool
from perdure.testing.provider.request import __file__ as request_file
from perdure.testing.provider.request import get, post

SENDER = """
import json, runpy, sys
post = runpy.run_path(sys.argv[1])["post"]
print(json.dumps(post(sys.argv[2], json.loads(sys.argv[3]))[1]))
"""


@tool(side_effect_class="external", scope=["what"], probe_lag="0s")
def by_a_child(url: str, what: str, *, call: CallContext) -> dict[str, Any]:
    import json

    body = json.dumps({"marker": call.idempotency_key, "what": what})
    command = [sys.executable, "-S", "-c", SENDER, request_file, f"{url}/searchable", body]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return dict(json.loads(done.stdout))


@by_a_child.probe
def find(call: CallContext) -> Probe:
    status, body = get(f"{call.args['url']}/search?marker={call.idempotency_key}")
    if status != 200:
        return Probe.unknown(f"the search answered {status}")
    for item in body["items"]:
        return Probe.happened({"id": item["id"]}, ref=item["id"])
    return Probe.not_happened(complete=body["next_page"] is None)


@tool(side_effect_class="external", scope=["what"])
def plain(url: str, what: str) -> dict[str, Any]:
    return answered(post(f"{url}/plain", {"what": what}), 201)


def main(run: Any) -> dict[str, Any]:
    url, tag = run.inputs["url"], run.inputs["tag"]
    return {"sent": by_a_child(url, f"{tag}:sent")["id"], "told": plain(url, f"{tag}:told")["id"]}
