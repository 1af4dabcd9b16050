"""Drives a study: reads its trials from the record of jobs, decides, submits and cancels, until it is over."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.asyncio_client import AsyncioClient
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.runs.run import RunData
from warpdeck.client.runs.run_reader import AT_ONCE, ClientRuns, read_run
from warpdeck.client.submission import submit
from warpdeck.library.drafting import draft
from warpdeck.protocol import requests
from warpdeck.protocol.job_rows import JobRow

from .proposals import Proposals
from .study_file import MAX_TRIALS, Choice, Study, script_of
from .trials import Decision, Trial, comment_of, decide, is_open, trials_of

LOOK_S = 2.0
"""Seconds between two looks at the metrics of running trials, if a pruner needs them."""
IDLE_LOOK_S = 30.0
"""Longest time in seconds between two looks without news of jobs."""
GATHER_S = 0.05
"""Seconds after news of a job in which more news is awaited."""

NONCE_DIGITS = 32

Report = Callable[[Sequence[Trial]], None]


class StudyReader:
    """Reads the trials of a study. The output of a trial that has ended is read once."""

    def __init__(self, study: Study, client: AsyncioClient) -> None:
        self._study = study
        self._client = client
        self._source = ClientRuns(client)
        self._ended: dict[int, RunData] = {}

    async def trials(self, *, with_running: bool) -> list[Trial]:
        """Return all trials. The metrics of running ones are read if `with_running`. Raises UserError."""
        wanted = requests.Jobs(
            users=(self._client.welcome.user,), names=(self._study.name,), finished=True, limit=MAX_TRIALS
        )
        rows = (await self._client.ask(wanted)).jobs
        turn = asyncio.Semaphore(AT_ONCE)
        runs = await asyncio.gather(*(self._run(row, turn, with_running) for row in rows))
        return trials_of(self._study, runs)

    async def _run(self, row: JobRow, turn: asyncio.Semaphore, with_running: bool) -> RunData:
        if row.id in self._ended:
            return self._ended[row.id]
        if is_open(row) and not with_running:
            return RunData(row)
        run = await read_run(self._source, row, turn)
        if not is_open(row):
            self._ended[row.id] = run
        return run


async def drive(study: Study, paths: Paths, *, cwd: str, report: Report) -> list[Trial]:
    """Run the study to its end and return its trials. `report` gets them after each change. Raises UserError.

    Another call with the same study continues it, also while this one runs.
    """
    proposals = Proposals(study)
    async with await AsyncioClient.connect(paths, name="study") as client:
        reader = StudyReader(study, client)
        news = asyncio.Event()
        listening = asyncio.create_task(_listen(client, news))
        try:
            while True:
                news.clear()
                trials = await reader.trials(with_running=study.pruner != "none")
                hopeless = await asyncio.to_thread(proposals.follow, trials)
                if hopeless:
                    jobs = tuple(str(trial.job.id) for trial in hopeless)
                    await client.ask(requests.Cancel(jobs=jobs))
                decision = decide(study, trials)
                await asyncio.to_thread(_submit_all, study, decision, proposals, paths, cwd)
                report(trials)
                if decision.is_over:
                    if decision.problem:
                        raise UserError(
                            decision.problem, f"see the output of job {trials[-1].job.label}: `warpdeck logs`"
                        )
                    return trials
                await _wait(news, LOOK_S if study.pruner != "none" else IDLE_LOOK_S, client)
        finally:
            listening.cancel()
            await asyncio.wait([listening])


async def _listen(client: AsyncioClient, news: asyncio.Event) -> None:
    """Set `news` when jobs of the user change, and when the connection has ended."""
    try:
        with contextlib.suppress(UserError):
            async for _ in client.subscribe(finished_s=0.0, user=client.welcome.user, topics=("jobs",)):
                news.set()
    finally:
        news.set()


async def _wait(news: asyncio.Event, longest_s: float, client: AsyncioClient) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(longest_s):
            await news.wait()
    await asyncio.sleep(GATHER_S)
    if client.lost:
        raise UserError(
            "the connection to the controller has ended", "run the same command again; it continues the study"
        )


def _submit_all(study: Study, decision: Decision, proposals: Proposals, paths: Paths, cwd: str) -> None:
    """Submit the trials. Each has a nonce of its own, so another driver of this study submits none of them again."""
    if not decision.submit:
        return
    with SyncClient.connect(paths, start=False) as client:
        for number in decision.submit:
            params = proposals.propose(number)
            try:
                _submit(study, number, params, client, paths, cwd)
            except UserError as error:
                proposals.withdraw(number)
                if error.code != "nonce":
                    raise
                return  # Another driver has submitted this trial. The next look shows it.


def _submit(
    study: Study, number: int, params: Mapping[str, Choice], client: SyncClient, paths: Paths, cwd: str
) -> None:
    values = {name: _text(value) for name, value in params.items()}
    drafted = draft(
        None,
        (),
        text=script_of(study, values),
        command=None,
        cwd=cwd,
        env=os.environ,
        options={**study.options, "job_name": study.name, "comment": comment_of(study, number, params)},
        now=time.time(),
    )
    identity = f"study {study.name} {number}".encode()
    submit(client, drafted, paths=paths, nonce=hashlib.sha256(identity).hexdigest()[:NONCE_DIGITS])


def _text(value: Choice) -> str:
    return repr(value) if isinstance(value, float) else str(value)
