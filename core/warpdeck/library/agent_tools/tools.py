"""The tools of a coding agent: submit, look at, wait for and cancel jobs.

An agent acts as the user who started it. Each of its jobs carries its name in the comment, and it cancels only jobs that carry
its name. The answers are plain data and bounded in size, because a language model reads them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.client.runs.run import known
from warpdeck.client.runs.run_reader import ClientRuns, read_run
from warpdeck.client.submission import Draft
from warpdeck.library.asyncclient import AsyncClient
from warpdeck.library.drafting import draft
from warpdeck.model.request import Request
from warpdeck.notation.values.job_ids import parse_job_id
from warpdeck.protocol import requests
from warpdeck.protocol.job_rows import JobRow

Option = str | int | float | bool
MAX_LOG_BYTES = 64 * 1024
MAX_DIFF_CHARS = 64 * 1024
MAX_WAIT_S = 600.0
MAX_JOBS = 200
MAX_PURPOSE_CHARS = 200
_ARGUMENTS = {"text", "command", "cwd", "env", "snapshot"}
"""Keyword arguments of `AsyncClient.submit` that are not options of sbatch."""
SECONDS_PER_HOUR = 3600.0
_ROW_FIELDS = (
    "label", "name", "user", "state", "partition", "nodes", "node_list", "gpus", "cpus", "time_limit_s",
    "submit", "start", "end", "exit_code", "gpu_util_pct", "comment",
)  # fmt: skip


class AgentTools:
    """The tools of the agent with this name. All methods raise UserError."""

    def __init__(self, deck: AsyncClient, agent: str) -> None:
        self._deck = deck
        self._tag = f"agent {agent}"

    async def plan(
        self,
        *,
        folder: str,
        command: str = "",
        script: str = "",
        arguments: Sequence[str] = (),
        options: Mapping[str, Option] | None = None,
    ) -> dict[str, Any]:
        """Return when a job would start, and the GPU-hours that it uses at most. Nothing is submitted.

        The arguments are those of `submit`.
        """
        drafted = await self._draft("plan", folder, command, script, arguments, options)
        request = msgspec.convert(drafted.request, Request)
        question = requests.DryRun(request=request)
        row = await self._deck.ask(lambda link: link.ask(question))
        return {
            "verdict": row.verdict,
            "reason": row.sentence,
            "advice": row.hint,
            "expected_start": row.expected_start,
            "nodes": row.node_list,
            "cpus": row.cpus,
            "changes_that_start_it_now": row.changes,
            "gpu_hours_at_most": _gpu_hours(request),
            "notes": drafted.notes,
        }

    async def submit(
        self,
        *,
        purpose: str,
        folder: str,
        command: str = "",
        script: str = "",
        arguments: Sequence[str] = (),
        options: Mapping[str, Option] | None = None,
    ) -> dict[str, Any]:
        """Submit a job with a snapshot of the code in the folder, and return its id.

        Give either a shell `command`, or the path of a batch `script` with its `arguments`. `purpose` is one line for people.
        """
        own: dict[str, Any] = dict(self._options(purpose, options))
        job = await self._deck.submit(script or None, *arguments, command=command or None, cwd=folder, **own)
        return {"job": job.id, "notes": list(job.notes)}

    async def jobs(self, *, of_all_users: bool = False, finished: bool = False) -> list[dict[str, Any]]:
        """Return the jobs of this agent, or those of all users and agents, the latest last."""
        rows = await self._deck.jobs(finished=finished)
        return [_row(row) for row in rows if of_all_users or self._is_own(row)][-MAX_JOBS:]

    async def job(self, job: str) -> dict[str, Any]:
        """Return one job, and why it waits."""
        found = self._deck.job(job)
        detail = await found.detail()
        answer = _row(detail.row) | {"work_dir": detail.work_dir, "stdout": detail.stdout}
        if detail.row.state == "PENDING":
            forecast = await found.why()
            answer |= {
                "reason": forecast.sentence,
                "expected_start": forecast.expected_start,
                "changes_that_start_it_now": forecast.changes,
            }
        return answer

    async def wait(self, job: str, *, seconds: float = 60.0) -> dict[str, Any]:
        """Wait until the job has ended, but at most `seconds`, and return its state."""
        found = self._deck.job(job)
        if not 0.0 <= seconds <= MAX_WAIT_S:
            raise UserError(f"cannot wait {seconds} seconds", f"wait at most {MAX_WAIT_S:.0f}, and ask again")
        try:
            await found.wait(timeout_s=seconds)
        except TimeoutError:
            return {"ended": False, "state": await found.state()}
        return {"ended": True, **await self.job(job)}

    async def logs(self, job: str, *, last_bytes: int = 8192, errors: bool = False) -> str:
        """Return the end of the job's output."""
        if not 0 < last_bytes <= MAX_LOG_BYTES:
            raise UserError(f"cannot read {last_bytes} bytes", f"read between 1 and {MAX_LOG_BYTES} bytes")
        found = self._deck.job(job)
        lines = [line async for line in found.logs(follow=False, stderr=errors, offset=-last_bytes)]
        return "\n".join(lines)

    async def metrics(self, job: str) -> dict[str, Any]:
        """Return the parameters of a run and the metrics that it printed."""
        row = (await self._deck.detail(job)).row
        run = await self._deck.ask(lambda link: read_run(ClientRuns(link), row, asyncio.Semaphore()))
        return {
            "params": dict(run.params),
            "metrics": {
                name: {
                    "first": values[0],
                    "last": values[-1],
                    "lowest": min(values),
                    "highest": max(values),
                    "count": len(values),
                }
                for name, points in run.readings.items()
                if (values := known(points))
            },
        }

    async def diff(self, job: str, *, other: str = "") -> str:
        """Return the difference from the code of `other` to the code of `job`, or from `job` to the folder now."""
        text = await self._deck.diff(job, other)
        return text if len(text) <= MAX_DIFF_CHARS else text[:MAX_DIFF_CHARS] + "\n... (shortened)"

    async def cancel(self, jobs: Sequence[str]) -> list[str]:
        """Cancel jobs of this agent, or all of them for ["all"], and return their ids."""
        if list(jobs) == ["all"]:
            chosen = [str(row.id) for row in await self._deck.jobs() if self._is_own(row)]
        else:
            for job in jobs:
                parse_job_id(job)
                if not self._is_own((await self._deck.detail(job)).row):
                    raise UserError(
                        f"job {job} does not belong to this agent",
                        "ask the user to cancel it, or submit your own job",
                    )
            chosen = list(jobs)
        if chosen:
            changed = await self._deck.cancel(*chosen)
            if changed.errors:
                raise UserError(changed.errors[0], "ask for the job's state")
        return chosen

    async def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes with their free CPUs, memory and GPUs."""
        return [
            {
                "name": node.name,
                "state": node.state,
                "cpus": node.cpus,
                "cpus_in_use": node.cpus_used,
                "gpus": len(node.gpus),
                "gpus_in_use": sum(1 for gpu in node.gpus if gpu.job or gpu.sharers),
                "gpu_types": sorted({gpu.type for gpu in node.gpus}),
            }
            for node in await self._deck.nodes()
        ]

    def _is_own(self, row: JobRow) -> bool:
        return row.comment == self._tag or row.comment.startswith(f"{self._tag}: ")

    def _options(self, purpose: str, options: Mapping[str, Option] | None) -> dict[str, Option]:
        given = dict(options or {})
        if "comment" in given:
            raise UserError("the option comment names the agent", "describe the job in `purpose`")
        if wrong := given.keys() & _ARGUMENTS:
            raise UserError(f"{min(wrong)} is not an option of sbatch", "use the arguments of the tool")
        text = " ".join(purpose.split())[:MAX_PURPOSE_CHARS]
        return given | {"comment": f"{self._tag}: {text}" if text else self._tag}

    async def _draft(
        self,
        purpose: str,
        folder: str,
        command: str,
        script: str,
        arguments: Sequence[str],
        options: Mapping[str, Option] | None,
    ) -> Draft:
        return await asyncio.to_thread(
            draft,
            script or None,
            arguments,
            text=None,
            command=command or None,
            cwd=folder,
            env=None,
            options=self._options(purpose, options),
            now=time.time(),
        )


def _row(row: JobRow) -> dict[str, Any]:
    fields = {name: getattr(row, name) for name in _ROW_FIELDS}
    return {
        "job": fields.pop("label"),
        **{name: value for name, value in fields.items() if value not in ("", None)},
    }


def _gpu_hours(request: Request) -> float | None:
    """Return the GPUs times the time limit, in hours and for one task of an array, or None without a time limit."""
    if not request.time_limit_s:
        return None
    return request.resources.gpu_count() * request.time_limit_s / SECONDS_PER_HOUR
