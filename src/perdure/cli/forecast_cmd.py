"""``perdure runs show --if-killed-now``: what the next life would do with each open call."""

from __future__ import annotations

import argparse

from perdure.cli.opening import engine_of
from perdure.cli.output import Output

_THEN = {
    "probed": "the provider is asked by its probe",
    "sent_again": "the same key and request are sent again",
    "run_again": "it is run again when it is asked for",
    "person_asked": "a person is asked",
    "still_waits": "it goes on waiting for a person",
    "sent_when_asked_for": "it is sent only if it is asked for again",
    "nothing": "nothing",
}


def if_killed_now(options: argparse.Namespace, output: Output) -> int:
    """Run ``perdure runs show --if-killed-now``."""
    with engine_of(options) as engine:
        document = engine.forecast(options.run)

    def text() -> str:
        if not document["calls"]:
            return f"nothing is open in run {document['run_id']} ({document['status']}): nothing would be done again\n"
        header = ("CALL", "TOOL", "STATUS", "THEN", "WHY")
        rows = [
            (call["tool_call_id"], call["tool_name"], call["status"], _THEN[call["then"]], call["why"])
            for call in document["calls"]
        ]
        met = f"{document['receipts']} finished calls would return their receipts.\n"
        return f"if the process of run {document['run_id']} were killed now:\n" + output.table(header, rows) + met

    output.answer(document, text)
    return 0
