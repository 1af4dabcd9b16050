"""All details of one job for clients. All functions are pure."""

from __future__ import annotations

import msgspec

from warpdeck.controller.launch.launching import output_paths
from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobState
from warpdeck.notation.values.dependencies import format_dependencies
from warpdeck.ports.ports import JournalEntry
from warpdeck.protocol.job_rows import JobDetail, JobEvent

from .gpu_readings import job_gpus
from .job_columns import job_row


def job_detail(state: State, job: Job, journal: list[JournalEntry]) -> JobDetail:
    """Return all details of a job except its environment."""
    request, ran_s = job.request, job.ran_s()
    stdout, stderr = output_paths(job)
    first = job.shares[0] if job.shares else None
    return JobDetail(
        row=job_row(state, job),
        script=request.script,
        argv=list(request.argv),
        submit_line=request.submit_line,
        submit_dir=request.submit_dir,
        work_dir=first.work_dir if first else "",
        stdout=stdout or (first.stdout_path if first else ""),
        stderr=stderr,
        gpus=job_gpus(state, job),
        dependency=format_dependencies(
            msgspec.to_builtins(request.dependencies) if request.dependencies else None
        ),
        snapshot=msgspec.to_builtins(request.snapshot) | {"uid": job.uid} if request.snapshot else None,
        recording=request.code_due_unix is not None and job.state is JobState.PENDING,
        message=job.exit.message if job.exit else "",
        notice=job.notice,
        predicted_s=job.predicted_s,
        prediction_error_s=None if job.predicted_s is None or ran_s is None else job.predicted_s - ran_s,
        events=[JobEvent(at=entry.at_unix, text=entry.text) for entry in journal],
    )
