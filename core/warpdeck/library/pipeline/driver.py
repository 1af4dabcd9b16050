"""Brings a pipeline forward: reads its stages from the record of jobs, decides, cancels and submits.

All stages are submitted at once, and dependencies start them in their order. So nothing has to run while the pipeline does.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.submission import submit
from warpdeck.library.drafting import draft
from warpdeck.protocol.job_rows import JobRow

from .pipeline_file import Pipeline
from .stages import Attempts, StageState, Submission, attempts_of, comment_of, decide

MAX_ROUNDS = 20
"""Maximum number of looks at the record. Each one after the first follows a cancellation or another driver's submission."""
MAX_ROWS = 100_000
NONCE_DIGITS = 32

Report = Callable[[Submission, int], None]
"""Gets each submitted stage and the number of its job."""


def advance(
    pipeline: Pipeline,
    client: SyncClient,
    paths: Paths,
    *,
    again: Collection[str] = (),
    report: Report,
) -> Attempts:
    """Submit the stages that have to run, and return all stages. Raises UserError.

    If this is killed, another call submits the rest. Two calls at the same time submit no stage twice. `again` names stages that run
    again even though they are complete.
    """
    for _ in range(MAX_ROUNDS):
        attempts = read_stages(pipeline, client)
        plan = decide(pipeline, attempts, again=again)
        if plan.cancel:
            _cancel(client, plan.cancel)
        elif not plan.submit:
            return attempts
        else:
            job_ids = {
                stage: attempt.job_id for stage, attempt in attempts.items() if not _is_over(attempt.state)
            }
            _submit_all(pipeline, plan.submit, client, paths, job_ids, report)
            again = ()
    raise UserError("other commands submit or cancel the same stages", "try again when they have ended")


def _cancel(client: SyncClient, jobs: Collection[int]) -> None:
    client.repeat(lambda: client.call("cancel", jobs=[str(job) for job in jobs]))


def read_stages(pipeline: Pipeline, client: SyncClient) -> Attempts:
    """Return the last job of each stage. Raises UserError."""
    names = [pipeline.job_name(stage) for stage in pipeline.stages]
    answer = client.repeat(
        lambda: client.call(
            "jobs", users=[client.welcome["user"]], names=names, finished=True, limit=MAX_ROWS
        )
    )
    return attempts_of(pipeline, msgspec.convert(answer["jobs"], list[JobRow]))


def _is_over(state: StageState) -> bool:
    return state in (StageState.COMPLETE, StageState.FAILED)


def _submit_all(
    pipeline: Pipeline,
    submissions: Collection[Submission],
    client: SyncClient,
    paths: Paths,
    job_ids: dict[str, int],
    report: Report,
) -> None:
    """Submit these stages, or return early if another driver is faster. `job_ids` are the jobs of stages that have not ended."""
    for each in submissions:
        try:
            job_ids[each.stage] = _submit(pipeline, each, client, paths, job_ids)
        except UserError as error:
            if error.code != "nonce":
                raise
            return
        report(each, job_ids[each.stage])


def _submit(
    pipeline: Pipeline, submission: Submission, client: SyncClient, paths: Paths, job_ids: dict[str, int]
) -> int:
    stage = pipeline.stages[submission.stage]
    awaited = [job_ids[each] for each in stage.after if each in job_ids]
    own = {
        "job_name": pipeline.job_name(submission.stage),
        "comment": comment_of(pipeline, submission),
        "dependency": f"afterok:{':'.join(map(str, awaited))}" if awaited else None,
        "kill_on_invalid_dep": "yes" if awaited else None,
    }
    drafted = draft(
        None,
        stage.args,
        text=stage.text or None,
        command=stage.run or None,
        cwd=pipeline.folder,
        env=os.environ,
        options={**stage.options, **own},
        now=time.time(),
    )
    identity = f"pipeline {pipeline.key} {submission.stage} {submission.attempt}".encode()
    return submit(
        client, drafted, paths=paths, nonce=hashlib.sha256(identity).hexdigest()[:NONCE_DIGITS]
    ).job_id
