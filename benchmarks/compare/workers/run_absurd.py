"""Absurd's Python SDK on PostgreSQL: one task, a named step a step.

A worker's claim lasts 120 s by default, and a dead worker's task is claimed again after that. It is 5 s here, in
both lives, only so that a trial does not take two minutes.
"""

import threading

import outside
from absurd_sdk import Absurd
from outside import CODE

CLAIM_SECONDS = 5
QUEUE = f"q{outside.TRIAL}".replace("-", "_")
app = Absurd(outside.SERVER, queue_name=QUEUE)

if CODE == "mail":

    @app.register_task(name="job")
    def job(params, ctx):
        ctx.step("compute", lambda: outside.look("compute"))
        ctx.step("mail", lambda: outside.send("mail"))
        return "done"

elif CODE == "v1":

    @app.register_task(name="job")
    def job(params, ctx):
        ctx.step("announce", lambda: outside.send("announce"))
        ctx.step("compute", lambda: outside.look("compute"))
        ctx.step("report", lambda: outside.send("report"))
        return "done"

elif CODE == "added":

    @app.register_task(name="job")
    def job(params, ctx):
        ctx.step("announce", lambda: outside.send("announce"))
        ctx.step("check", lambda: outside.look("check"))
        ctx.step("compute", lambda: outside.look("compute"))
        ctx.step("report", lambda: outside.send("report"))
        return "done"

elif CODE == "renamed":

    @app.register_task(name="job")
    def job(params, ctx):
        ctx.step("announce", lambda: outside.send("announce"))
        ctx.step("calculate", lambda: outside.look("calculate"))
        ctx.step("report", lambda: outside.send("report"))
        return "done"

elif CODE == "mail_first":

    @app.register_task(name="job")
    def job(params, ctx):
        ctx.step("greet", lambda: outside.send("greet"))
        ctx.step("announce", lambda: outside.send("announce"))
        ctx.step("compute", lambda: outside.look("compute"))
        ctx.step("report", lambda: outside.send("report"))
        return "done"


def main() -> None:
    note = f"{outside.FOLDER}/task_id"
    if outside.LIFE == "start":
        app.create_queue(QUEUE)
        with open(note, "w") as file:
            file.write(str(app.spawn("job", {})["task_id"]))
    with open(note) as file:
        task_id = file.read()
    outside.began_to_watch()
    threading.Thread(target=app.start_worker, kwargs={"claim_timeout": CLAIM_SECONDS}, daemon=True).start()
    asking = Absurd(outside.SERVER, queue_name=QUEUE)
    pause = threading.Event()
    while not outside.watch_over():
        told = asking.fetch_task_result(task_id)
        if told is not None and told.state == "completed":
            outside.said("finished", told.state)
        if told is not None and told.state in ("failed", "cancelled"):
            outside.said("failed", f"{told.state}: {told.failure}")
        pause.wait(0.1)
    outside.said("pending", "unknown to it" if told is None else told.state)


if __name__ == "__main__":
    main()
