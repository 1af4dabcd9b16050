"""Submissions, and the code snapshots that they use."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import Submitted
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.launch.resubmission import nested_submission
from warpdeck.controller.loop.site_rules import SiteRules
from warpdeck.controller.planning.forecast import Forecaster
from warpdeck.controller.state.state import State
from warpdeck.engines.native.outcomes import Apply
from warpdeck.model import Request, Snapshot
from warpdeck.model.created_by_nonce import RequestId
from warpdeck.ports.caller import ClientIdentity, Principal
from warpdeck.ports.engine import TreeUpload
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.nonces import mark_of
from warpdeck.protocol.site_rows import ForecastRow

from .job_lookup import JobLookup
from .resubmit import asked_again


class NativeSubmissions:
    """The `EngineSubmissions` of the controller."""

    def __init__(
        self,
        state: State,
        rules: SiteRules,
        *,
        apply: Apply,
        lookup: JobLookup,
        trees: TreeFiles,
        forecaster: Forecaster,
    ) -> None:
        self._state = state
        self._rules = rules
        self._apply = apply
        self._lookup = lookup
        self._trees = trees
        self._forecaster = forecaster

    async def submit(self, client: ClientIdentity, message: ask.Submit) -> results.SubmittedJob:
        return await self._submit(client.who, self._nested(client, message), mark_of(message))

    async def rerun(self, client: ClientIdentity, message: ask.Rerun) -> results.SubmittedJob:
        task = message.job.partition("_")[2]
        number = int(task) if task.isdecimal() else None
        family = await self._lookup.components_of(await self._lookup.find(message.job))
        requests = [asked_again(each, who=client.who, task=number) for each in family]
        return await self._submit(client.who, requests, mark_of(message))

    async def dry_run(self, client: ClientIdentity, message: ask.DryRun) -> ForecastRow:
        event = await self.event(client.who, self._nested(client, message))
        return await self._forecaster.of_request(self._state, event)

    async def find_tree(self, client: ClientIdentity, message: ask.HaveTree) -> results.StoredTree:
        found = self._trees.find(client.who.uid, message.tree)
        if found is None:
            return results.StoredTree(have=False)
        return results.StoredTree(have=True, sha256=found.sha256, size_bytes=found.size_bytes)

    async def receive_tree(self, client: ClientIdentity, message: ask.PutTree) -> TreeUpload:
        return self._trees.receive(
            client.who.uid, message.tree, sha256=message.sha256, size_bytes=message.size_bytes
        )

    def uploaded(self, who: Principal, snapshot: Snapshot | None) -> Snapshot | None:
        """Return the snapshot with the facts of the tree that the caller has uploaded. Raises UserError."""
        return self._trees.uploaded(who.uid, snapshot) if snapshot else None

    async def event(
        self, who: Principal, requests: Sequence[Request], request_id: RequestId | None = None
    ) -> Submitted:
        """Return the submission event together with the data that must be looked up for it.

        The requests are those of all components of the job. Raises UserError.
        """
        for each in requests:
            _refuse_nul(each)
        asked = dict.fromkeys(each.dependencies for each in requests if each.dependencies)
        clauses = [clause for dependencies in asked for clause in dependencies.clauses]
        numbers = [clause.job_id for clause in clauses if clause.kind != "singleton"]
        ended = await self._lookup.finished(numbers)
        await self._rules.learn_groups([who.user])
        request, *components = requests
        return Submitted(
            principal=who, request=request, components=tuple(components), ended=ended, request_id=request_id
        )

    async def _submit(
        self, who: Principal, requests: Sequence[Request], request_id: RequestId | None
    ) -> results.SubmittedJob:
        own = [msgspec.structs.replace(each, snapshot=self.uploaded(who, each.snapshot)) for each in requests]
        made = (await self._apply(await self.event(who, own, request_id))).created
        assert made is not None
        return results.SubmittedJob(
            job_id=made.job_id, label=made.label, tasks=made.tasks, notes=[*made.notes]
        )

    def _nested(self, client: ClientIdentity, message: ask.Submit | ask.DryRun) -> Sequence[Request]:
        """Return the requests of all components.

        If a job's process submits, they are adapted to the submit host.
        """
        process, requests = client.process, (message.request, *message.components)
        job = self._state.jobs.get(process.job_id) if process is not None else None
        if process is None or job is None:
            return requests
        return [nested_submission(each, job, process.node) for each in requests]


def _refuse_nul(request: Request) -> None:
    """Refuse a request with a NUL character, because no process can receive one. Raises UserError."""
    resources = request.resources
    words = (
        *(request.name, request.script, request.output, request.error, request.submit_dir, request.chdir),
        *(*request.script_args, *request.argv, *request.env, *request.env.values()),
        *(*resources.nodelist, *resources.exclude),
    )
    if any("\0" in word for word in words):
        raise UserError(
            "the request contains a NUL character", "remove it from the script, arguments and environment"
        )
