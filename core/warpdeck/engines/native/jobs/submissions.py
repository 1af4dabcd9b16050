"""Submissions, and the code snapshots that they use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import Submitted
from warpdeck.controller.launch.code_trees import TreeFiles
from warpdeck.controller.launch.resubmission import nested_submission
from warpdeck.controller.launch.tree_collection import TreeCollector
from warpdeck.controller.launch.whole_request import with_whole_request
from warpdeck.controller.loop.site_rules import SiteRules
from warpdeck.controller.planning.forecast import Forecaster
from warpdeck.controller.state.state import State
from warpdeck.engines.native.outcomes import Apply
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.engines.shared.resubmit import asked_again
from warpdeck.model import Request, Snapshot
from warpdeck.model.created_by_nonce import RequestId
from warpdeck.ports.caller import Caller, Principal
from warpdeck.ports.engine import TreeUpload
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.nonces import mark_of
from warpdeck.protocol.site_rows import ForecastRow


@dataclass(frozen=True, kw_only=True)
class NativeSubmissions:
    """The `EngineSubmissions` of the controller."""

    state: State
    rules: SiteRules
    apply: Apply
    lookup: JobLookup
    trees: TreeFiles
    collector: TreeCollector
    forecaster: Forecaster

    async def submit(self, caller: Caller, message: ask.Submit) -> results.SubmittedJob:
        return await self._submit(caller.who, self._nested(caller, message), mark_of(message))

    async def rerun(self, caller: Caller, message: ask.Rerun) -> results.SubmittedJob:
        task = message.job.partition("_")[2]
        number = int(task) if task.isdecimal() else None
        family = await self.lookup.components_of(await self.lookup.seen(caller.who, message.job))
        # The parts are read and stored again, because the old ones may be removed at any time.
        requests = [
            asked_again(
                await with_whole_request(each, self.lookup.store),
                who=caller.who,
                task=number,
                settings=message.settings,
            )
            for each in family
        ]
        return await self._submit(caller.who, requests, mark_of(message))

    async def dry_run(self, caller: Caller, message: ask.DryRun) -> ForecastRow:
        event = await self.event(caller.who, self._nested(caller, message))
        found = await self.forecaster.of_request(self.state, event)
        return self.lookup.visibility(caller.who).forecast(found)

    async def find_tree(self, caller: Caller, message: ask.HaveTree) -> results.StoredTree:
        found = self.trees.find(caller.who.uid, message.tree)
        if found is None:
            return results.StoredTree(have=False)
        return results.StoredTree(have=True, sha256=found.sha256, size_bytes=found.size_bytes)

    async def receive_tree(self, caller: Caller, message: ask.PutTree) -> TreeUpload:
        if not caller.who.admin:
            self.collector.make_room(caller.who.uid, message.size_bytes)
        return self.trees.receive(
            caller.who.uid, message.tree, sha256=message.sha256, size_bytes=message.size_bytes
        )

    def uploaded(self, who: Principal, snapshot: Snapshot | None) -> Snapshot | None:
        """Return the snapshot with the facts of the tree that the caller has uploaded. Raises UserError."""
        return self.trees.uploaded(who.uid, snapshot) if snapshot else None

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
        ended = await self.lookup.finished(numbers)
        await self.rules.learn_groups([who.user])
        request, *components = requests
        return Submitted(
            principal=who, request=request, components=tuple(components), ended=ended, request_id=request_id
        )

    async def _submit(
        self, who: Principal, requests: Sequence[Request], request_id: RequestId | None
    ) -> results.SubmittedJob:
        own = [msgspec.structs.replace(each, snapshot=self.uploaded(who, each.snapshot)) for each in requests]
        made = (await self.apply(await self.event(who, own, request_id))).created
        assert made is not None
        return results.SubmittedJob(
            job_id=made.job_id, label=made.label, tasks=made.tasks, notes=[*made.notes]
        )

    def _nested(self, caller: Caller, message: ask.Submit | ask.DryRun) -> Sequence[Request]:
        """Return the requests of all components.

        If a job's process submits, they are adapted to the submit host.
        """
        process, requests = caller.process, (message.request, *message.components)
        job = self.state.jobs.get(process.job_id) if process is not None else None
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
