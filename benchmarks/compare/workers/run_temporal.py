"""Temporal's Python SDK against a real server; one activity a step, the sandboxed workflow runner.

The SDK demands a start-to-close timeout of each activity and has no default for it: 10 s here. The retry policy is
the default one, or with the variant `one-attempt` has maximum_attempts=1. The variant `patched` is the documented way
to change running workflows, workflow.patched().
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    import outside

TIMEOUT = timedelta(seconds=10)
POLICY = RetryPolicy(maximum_attempts=1) if outside.VARIANT == "one-attempt" else None


@activity.defn
def send_mail(subject: str) -> dict:
    return outside.send(subject)


@activity.defn
def compute() -> str:
    return outside.look("compute")


@activity.defn
def calculate() -> str:
    return outside.look("calculate")


@activity.defn
def check() -> str:
    return outside.look("check")


async def do(step, *args):
    return await workflow.execute_activity(step, *args, start_to_close_timeout=TIMEOUT, retry_policy=POLICY)


def changed(name: str) -> bool:
    return workflow.patched(name) if outside.VARIANT == "patched" else True


@workflow.defn(name="job")
class MailJob:
    @workflow.run
    async def run(self) -> str:
        await do(compute)
        await do(send_mail, "mail")
        return "done"


@workflow.defn(name="job")
class FirstJob:
    @workflow.run
    async def run(self) -> str:
        await do(send_mail, "announce")
        await do(compute)
        await do(send_mail, "report")
        return "done"


@workflow.defn(name="job")
class AddedJob:
    @workflow.run
    async def run(self) -> str:
        await do(send_mail, "announce")
        if changed("check"):
            await do(check)
        await do(compute)
        await do(send_mail, "report")
        return "done"


@workflow.defn(name="job")
class RenamedJob:
    @workflow.run
    async def run(self) -> str:
        await do(send_mail, "announce")
        if changed("calculate"):
            await do(calculate)
        else:
            await do(compute)
        await do(send_mail, "report")
        return "done"


@workflow.defn(name="job")
class MailFirstJob:
    @workflow.run
    async def run(self) -> str:
        if changed("greet"):
            await do(send_mail, "greet")
        await do(send_mail, "announce")
        await do(compute)
        await do(send_mail, "report")
        return "done"


JOBS = {"mail": MailJob, "v1": FirstJob, "added": AddedJob, "renamed": RenamedJob, "mail_first": MailFirstJob}
STEPS = {
    "mail": [compute, send_mail],
    "v1": [send_mail, compute],
    "added": [send_mail, compute, check],
    "renamed": [send_mail, calculate, compute] if outside.VARIANT == "patched" else [send_mail, calculate],
    "mail_first": [send_mail, compute],
}


async def last_trouble(handle: WorkflowHandle) -> str:
    """Return what the newest failed workflow task says, or the last failure of an activity that is retried."""
    found = "no workflow task failed"
    for pending in (await handle.describe()).raw_description.pending_activities:
        found = f"attempt {pending.attempt} of activity {pending.activity_type.name}: {pending.last_failure.message}"
    async for event in handle.fetch_history_events():
        if event.HasField("workflow_task_failed_event_attributes"):
            failed = event.workflow_task_failed_event_attributes
            found = f"{WorkflowTaskFailedCause.Name(failed.cause)}: {failed.failure.message}"
    return found


async def causes(error: BaseException | None) -> str:
    """Return the messages of an error and of its causes."""
    told = []
    while error is not None:
        told.append(str(error))
        error = getattr(error, "cause", None)
    return ": ".join(told)


async def watch(handle: WorkflowHandle) -> None:
    while not outside.watch_over():
        status = (await handle.describe()).status
        if status == WorkflowExecutionStatus.COMPLETED:
            outside.said("finished", "COMPLETED")
        if status != WorkflowExecutionStatus.RUNNING:
            try:
                await handle.result()
            except WorkflowFailureError as error:
                outside.said("failed", f"{status.name}: {await causes(error)}")
        await asyncio.sleep(0.2)
    outside.said("pending", f"{status.name}; {await last_trouble(handle)}")


async def main() -> None:
    client = await Client.connect(outside.SERVER)
    queue = f"queue-{outside.TRIAL}"
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[JOBS[outside.CODE]],
        activities=STEPS[outside.CODE],
        activity_executor=ThreadPoolExecutor(5),
    )
    async with worker:
        if outside.LIFE == "start":
            await client.start_workflow("job", id=outside.TRIAL, task_queue=queue)
        outside.began_to_watch()
        await watch(client.get_workflow_handle(outside.TRIAL))


if __name__ == "__main__":
    asyncio.run(main())
