"""Four steps: sleep, write a stamped line, list, DONE. Killed anywhere and resumed, it has written one line."""

from __future__ import annotations

from perdure import CallContext, Probe, Run, tool
from perdure.toolbox.files import list_dir

FILE = "resume_test.txt"


@tool(side_effect_class="external", scope=["name"], probe_lag=0)
def stamp(name: str, at: str, *, call: CallContext) -> str:
    """Add a line to a file: doing it twice would show."""
    with (call.workspace / "work_products" / name).open("a", encoding="utf-8") as file:
        file.write(f"{at}\n")
    return at


@stamp.probe
def find_stamp(call: CallContext) -> Probe:
    """Look whether the line stands there, for when nobody knows."""
    file = call.workspace / "work_products" / call.args["name"]
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    at = call.args["at"]
    return Probe.happened(at, ref=f"{call.run_id} {at}") if at in lines else Probe.not_happened(complete=True)


def main(run: Run) -> str:
    with run.step("sleep"):
        run.sleep(run.inputs["seconds"])  # its moment is stored: a new life waits for the rest only
    with run.step("write"):
        stamp(FILE, run.now())  # the same moment in every life
    with run.step("list"):
        names = [entry["name"] for entry in list_dir("work_products")]
    return "DONE" if FILE in names else f"there is no {FILE} among {names}"
