"""DBOS Transact on its default store, SQLite. Steps and workflows as in its quickstart; launch() recovers.

The variant `patched` is its documented way to change running workflows: one application version, and DBOS.patch().
"""

import time

import outside
from dbos import DBOS, SetWorkflowID
from outside import CODE


@DBOS.step()
def send_mail(subject: str) -> dict:
    return outside.send(subject)


@DBOS.step()
def compute() -> str:
    return outside.look("compute")


@DBOS.step()
def calculate() -> str:
    return outside.look("calculate")


@DBOS.step()
def check() -> str:
    return outside.look("check")


def changed(name: str) -> bool:
    return DBOS.patch(name) if outside.VARIANT == "patched" else True


# The version of an application is a hash of the source of its workflows: each program stands on its own.
if CODE == "mail":

    @DBOS.workflow()
    def job() -> str:
        compute()
        send_mail("mail")
        return "done"

elif CODE == "v1":

    @DBOS.workflow()
    def job() -> str:
        send_mail("announce")
        compute()
        send_mail("report")
        return "done"

elif CODE == "added":

    @DBOS.workflow()
    def job() -> str:
        send_mail("announce")
        if changed("check"):
            check()
        compute()
        send_mail("report")
        return "done"

elif CODE == "renamed":

    @DBOS.workflow()
    def job() -> str:
        send_mail("announce")
        if changed("calculate"):
            calculate()
        else:
            compute()
        send_mail("report")
        return "done"

elif CODE == "mail_first":

    @DBOS.workflow()
    def job() -> str:
        if changed("greet"):
            send_mail("greet")
        send_mail("announce")
        compute()
        send_mail("report")
        return "done"


def main() -> None:
    config = {"name": "compare", "system_database_url": f"sqlite:///{outside.FOLDER}/dbos.sqlite"}
    if outside.VARIANT == "patched":
        config["application_version"] = "1"
    DBOS(config=config)
    DBOS.launch()
    if outside.LIFE == "start":
        with SetWorkflowID(outside.TRIAL):
            DBOS.start_workflow(job)
    outside.began_to_watch()
    while not outside.watch_over():
        status = DBOS.get_workflow_status(outside.TRIAL)
        if status is not None and status.status == "SUCCESS":
            outside.said("finished", status.status)
        if status is not None and status.status not in ("PENDING", "ENQUEUED", "DELAYED"):
            outside.said("failed", f"{status.status}: {status.error}")
        time.sleep(0.1)
    state = "unknown to it" if status is None else f"{status.status}, of application version {status.app_version}"
    outside.said("pending", f"{state}; this process is version {DBOS.application_version}")


if __name__ == "__main__":
    main()
