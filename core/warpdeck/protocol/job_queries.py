"""Requests that read jobs, steps and their records; part of the protocol."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from . import results
from .job_rows import JobDetail, JobVariables
from .request_base import Name, Names, Reference, References, RequestMessage
from .site_rows import ForecastRow


class Jobs(RequestMessage[results.JobList], frozen=True, kw_only=True, tag="jobs"):
    """Ask for jobs, oldest first.

    By default these are the unfinished jobs of all users; `finished` adds finished ones.

    Answer: {"jobs": [JobRow]}
    """

    users: Names = ()
    """User names or numeric uids."""
    states: tuple[Name, ...] = ()
    """State names or squeue's state codes. This filter and `ids` also find finished jobs in memory."""
    ids: References = ()
    names: Names = ()
    names_in_any_case: bool = False
    partitions: Names = ()
    accounts: Names = ()
    qos: Names = ()
    reservations: Names = ()
    licenses: Names = ()
    """Select jobs that request one of these licenses, in any number."""
    nodes: Names = ()
    """Select jobs that run on one of these nodes."""
    finished: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    fields: tuple[Name, ...] = ()
    """Fields to send for each row; () means all.

    A client needs longer to decode 10,000 whole rows than for anything else.
    """


class Steps(RequestMessage[dict[str, Any]], frozen=True, kw_only=True, tag="steps"):
    """Ask for the running job steps, ordered by job and step.

    Answer: {"steps": [LiveStep]}
    """

    users: Names = ()
    ids: References = ()
    partitions: Names = ()
    nodes: Names = ()


class JobInfo(RequestMessage[JobDetail], frozen=True, kw_only=True, tag="job"):
    """Ask for the details of a job. Answer: JobDetail"""

    job: Reference


class JobEnvironment(RequestMessage[JobVariables], frozen=True, kw_only=True, tag="job_environment"):
    """Ask for the environment with which a job was submitted.

    Only its owner gets it, because it may hold secrets.

    Answer: JobVariables
    """

    job: Reference


class Records(RequestMessage[dict[str, Any]], frozen=True, kw_only=True, tag="records"):
    """Ask for job records, ordered by id and sent in pages.

    They cover the jobs in memory and, with `ended`, all jobs ever recorded. An empty list filters nothing.
    `since` and `until` bound the time in which a job ran, or was in one of the `states`: see api.history.
    `fields` works as in Jobs. `steps` adds [records.StepRecord]. `scripts` adds the scripts of the caller's
    own jobs. `runs` adds a row for each earlier start of a job, before the job's own row.

    Answer: {"jobs": [JobRow and JobFacts]}
    """

    ids: References = ()
    states: Names = ()
    users: Names = ()
    names: Names = ()
    names_in_any_case: bool = False
    accounts: Names = ()
    qos: Names = ()
    partitions: Names = ()
    reservations: Names = ()
    licenses: Names = ()
    nodes: References = ()
    since: float = 0.0
    until: float | None = None
    ended: bool = False
    fields: tuple[Name, ...] = ()
    steps: bool = False
    scripts: bool = False
    runs: bool = False


class Forecast(RequestMessage[ForecastRow], frozen=True, kw_only=True, tag="forecast"):
    """Ask when a job is expected to start, and which changes would start it now.

    Answer: site_rows.ForecastRow
    """

    job: Reference
