"""The contract of ports.engine: what the API server may expect of every engine.

A test module for an engine derives a class from `EngineContract` and gives it a fixture `rig`. The jobs of the tests are
real processes, so that the same tests run on any scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import secrets
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.engines.rig import Client, Keyboard, Rig, code, labels, nonce
from tests.support.waiting import WAIT_S

from warpdeck.base.errors import UserError
from warpdeck.model import JobId, NodeName, PtySize, Request, Reservation, Resources
from warpdeck.model.annotations import AnnotationsChange
from warpdeck.model.change import JobChange
from warpdeck.model.config_edit import Amendment
from warpdeck.model.finished_jobs import FinishedQuery
from warpdeck.ports.engine import Action
from warpdeck.ports.engine_streams import CommandText, EndedStep, RunningStep, StreamEnd
from warpdeck.protocol import requests as ask
from warpdeck_agent.wire.steps import EVERY_TASK, OUT, TASK_HEADER

Test = Callable[[Any, Rig], Coroutine[Any, Any, None]]


async def _ignore(line: str) -> None:
    """Drop a line of progress."""


def needs(*actions: Action) -> Callable[[Test], Test]:
    """Return a decorator for a test of these actions.

    If the engine cannot perform one of them, the test asserts that the engine tells the reason.
    """

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        async def run(self: EngineContract, rig: Rig) -> None:
            reasons = [rig.engine.site.capabilities()[action] for action in actions]
            if not any(reasons):
                await test(self, rig)
            assert all(reason == "" or len(reason.split()) > 3 for reason in reasons), reasons

        return run

    return decorate


class EngineContract:
    """The tests. They share one engine, so each uses jobs of its own."""

    # ---- The scheduler as a whole

    async def test_it_has_an_identity_and_says_what_it_can_do(self, rig: Rig) -> None:
        site = rig.engine.site
        assert site.identity and site.identity == rig.engine.site.identity
        capabilities = site.capabilities()
        assert set(capabilities) == set(Action)
        assert all(isinstance(reason, str) for reason in capabilities.values())

    async def test_the_summary_counts_jobs_and_nodes(self, rig: Rig) -> None:
        job = await rig.held()
        site = rig.engine.site.summary()
        assert site.nodes == 1 and site.jobs["PENDING"] >= 1
        await rig.cancel(job)

    async def test_the_tables_of_the_site_are_listed(self, rig: Rig) -> None:
        site, accounting = rig.engine.site, rig.engine.accounting
        partitions = (await site.partitions(rig.user, ask.Partitions())).partitions
        assert any(row.node_list == rig.node for row in partitions)
        assert (await site.settings(rig.user, ask.Settings())).settings["ClusterName"]
        assert isinstance((await site.plugin_options(rig.user, ask.PluginOptions())).options, dict)
        assert isinstance((await site.licenses(rig.user, ask.Licenses())).licenses, list)
        assert isinstance((await accounting.qos(rig.user, ask.QosList())).qos, list)
        assert isinstance((await accounting.shares(rig.user, ask.Shares())).shares, list)
        assert isinstance((await accounting.limit_use(rig.user, ask.LimitUse())).uses, list)

    async def test_only_admins_reset_the_statistics(self, rig: Rig) -> None:
        site = rig.engine.site
        site.count_request("jobs", "ann", 0.5)
        found = await site.diagnosis(rig.user, ask.Diagnosis())
        assert found.requests["jobs"].count >= 1 and found.users["ann"].last_s == 0.5
        with pytest.raises(UserError) as refused:
            await site.diagnosis(rig.user, ask.Diagnosis(reset=True))
        assert code(refused) == "not_admin"
        assert (await site.diagnosis(rig.admin, ask.Diagnosis(reset=True))).requests == {}

    @needs(Action.CONFIG, Action.RELOAD, Action.AMEND)
    async def test_a_configuration_comes_into_force_completely_or_not_at_all(self, rig: Rig) -> None:
        site, key = rig.engine.site, ("scheduler",)
        await site.amend(
            rig.admin, ask.Amend(changes=(Amendment(path=key, values={"default_time": "2:00:00"}),))
        )
        found = await site.config(rig.admin, ask.ConfigInForce())
        assert "2:00:00" in found.text and any(path == [*key, "default_time"] for path, _ in found.lines)
        file = Path(found.file)
        written = file.read_text()
        file.write_text("[scheduler]\ndefault_time = 5.5\n")
        with pytest.raises(UserError):
            await site.reload(rig.admin, ask.Reload())
        assert (await site.config(rig.admin, ask.ConfigInForce())).text == found.text
        file.write_text(written)
        assert (await site.reload(rig.admin, ask.Reload())).changes == []

    @needs(Action.TAKEOVER)
    async def test_a_takeover_begins_a_start_with_a_higher_epoch(self, rig: Rig) -> None:
        site = rig.engine.site
        before = site.summary().epoch
        taken = await site.take_over(rig.admin, ask.Takeover())
        assert taken.epoch == site.summary().epoch > before and not site.summary().fenced

    @needs(Action.RECOVER)
    async def test_a_recovery_finds_nothing_if_the_database_explains_all_launches(self, rig: Rig) -> None:
        found = await rig.engine.site.recover(rig.admin, ask.Recover(dry_run=True))
        assert (found.jobs, found.silent, found.needed) == ([], {}, False)

    @needs(Action.STANDBY, Action.STANDBY_SET, Action.STANDBY_REMOVE)
    async def test_a_standby_that_cannot_be_reached_is_refused_and_changes_nothing(self, rig: Rig) -> None:
        standby, wanted = rig.engine.standby, ask.StandbySet(target="root@127.0.0.1:1")
        for caller, reason in ((rig.other, "only root"), (rig.admin, "refused the connection")):
            with pytest.raises(UserError, match=reason):
                await standby.set_up(caller, wanted, _ignore)
        with pytest.raises(UserError, match="no standby"):
            await standby.remove(rig.admin, ask.StandbyRemove())
        assert (await standby.look(rig.user, ask.Standby())).standby is None

    # ---- Submissions

    async def test_a_submitted_job_runs_and_its_end_is_recorded(self, rig: Rig) -> None:
        job = await rig.ran("exit 3", name="three", comment="a comment")
        row = (await rig.detail(job)).row
        assert (row.state, row.exit_code, row.name, row.comment) == ("FAILED", "3:0", "three", "a comment")
        assert row.user == rig.user.who.user and row.node_list == rig.node
        assert row.start is not None and row.end is not None and row.submit <= row.start <= row.end

    async def test_a_repeated_submission_creates_nothing(self, rig: Rig) -> None:
        submissions = rig.engine.submissions
        message = ask.Submit(request=rig.request("true", hold=True), nonce=nonce())
        first = await submissions.submit(rig.user, message)
        assert await submissions.submit(rig.user, message) == first
        changed = msgspec.structs.replace(message, request=rig.request("false", hold=True))
        with pytest.raises(UserError) as refused:
            await submissions.submit(rig.user, changed)
        assert code(refused) == "nonce"
        await rig.cancel(first.label)

    async def test_a_request_that_no_node_can_hold_is_refused(self, rig: Rig) -> None:
        impossible = rig.request("true", resources=Resources(nodes_min=99, nodes_max=99))
        found = await rig.engine.submissions.dry_run(rig.user, ask.DryRun(request=impossible))
        assert found.verdict == "never" and found.sentence
        with pytest.raises(UserError):
            await rig.engine.submissions.submit(rig.user, ask.Submit(request=impossible))

    async def test_a_dry_run_submits_nothing(self, rig: Rig) -> None:
        before = len(await rig.engine.jobs.rows(rig.user, ask.Jobs(finished=True)))
        found = await rig.engine.submissions.dry_run(rig.user, ask.DryRun(request=rig.request("true")))
        assert found.verdict in ("now", "later")
        assert len(await rig.engine.jobs.rows(rig.user, ask.Jobs(finished=True))) == before

    async def test_a_recorded_job_is_submitted_again_by_its_owner_only(self, rig: Rig) -> None:
        job = await rig.held(name="first")
        again = await rig.engine.submissions.rerun(rig.user, ask.Rerun(job=job))
        detail = await rig.detail(again.label)
        assert again.label != job and (detail.row.name, detail.script) == ("first", "#!/bin/sh\ntrue\n")
        with pytest.raises(UserError, match="only the owner"):
            await rig.engine.submissions.rerun(rig.other, ask.Rerun(job=job))
        await rig.cancel(job, again.label)

    async def test_a_recorded_job_is_submitted_again_with_another_value(self, rig: Rig) -> None:
        job = await rig.submit("echo --lr 0.1 --seed=1", hold=True)
        rerun = rig.engine.submissions.rerun
        again = await rerun(rig.user, ask.Rerun(job=job, settings=("lr=3e-4", "seed=2")))
        assert (await rig.detail(again.label)).script == "#!/bin/sh\necho --lr 3e-4 --seed=2\n"
        assert (await rig.detail(job)).script == "#!/bin/sh\necho --lr 0.1 --seed=1\n"
        with pytest.raises(UserError, match="no parameter momentum"):
            await rerun(rig.user, ask.Rerun(job=job, settings=("momentum=0.9",)))
        with pytest.raises(UserError, match="only the owner"):
            await rerun(rig.other, ask.Rerun(job=job, settings=("lr=1",)))
        await rig.cancel(job, again.label)

    async def test_an_uploaded_tree_is_found_by_its_user_only(self, rig: Rig) -> None:
        submissions, data = rig.engine.submissions, b"packed " * 1000
        tree, digest = secrets.token_hex(20), hashlib.sha256(data).hexdigest()
        put = ask.PutTree(tree=tree, sha256=digest, size_bytes=len(data))
        assert not (await submissions.find_tree(rig.user, ask.HaveTree(tree=tree))).have
        damaged = await submissions.receive_tree(rig.user, put)
        damaged.write(bytes(len(data)))
        with pytest.raises(UserError, match="damaged"):
            damaged.finish()
        upload = await submissions.receive_tree(rig.user, put)
        for at in range(0, len(data), 1000):
            upload.write(data[at : at + 1000])
        upload.finish()
        found = await submissions.find_tree(rig.user, ask.HaveTree(tree=tree))
        assert (found.have, found.sha256, found.size_bytes) == (True, digest, len(data))
        assert not (await submissions.find_tree(rig.other, ask.HaveTree(tree=tree))).have

    # ---- Jobs in the queue

    async def test_rows_are_filtered_and_have_the_selected_fields(self, rig: Rig) -> None:
        first, second = await rig.held(name="row-a"), await rig.held(name="row-b")
        jobs = rig.engine.jobs
        rows = await jobs.rows(rig.user, ask.Jobs(names=("row-a", "row-b")))
        assert len(rows) == 2 and labels(rows[0:2]) == [first, second]
        newest = await jobs.rows(rig.user, ask.Jobs(names=("row-a", "row-b"), limit=1))
        assert labels(newest[0:1]) == [second]
        selected = await jobs.rows(rig.user, ask.Jobs(ids=(first,), fields=("label", "state", "batch")))
        assert list(selected[0:1]) == [{"label": first, "state": "PENDING", "batch": True}]
        assert len(await jobs.rows(rig.user, ask.Jobs(ids=(first,), states=("RUNNING",)))) == 0
        with pytest.raises(UserError, match="unknown job field"):
            await jobs.rows(rig.user, ask.Jobs(fields=("nothing",)))
        await rig.cancel(first, second)

    async def test_a_row_is_built_when_it_is_read(self, rig: Rig) -> None:
        job = await rig.held()
        rows = await rig.engine.jobs.rows(rig.user, ask.Jobs(ids=(job,)))
        await rig.engine.orders.change(rig.user, ask.JobUpdate(jobs=(job,), change=JobChange(name="later")))
        [row] = rows[0:1]
        assert not isinstance(row, dict) and row.name in ("job", "later")
        await rig.cancel(job)

    async def test_details_are_for_the_owner_and_the_environment_for_nobody_else(self, rig: Rig) -> None:
        job, jobs = await rig.held(env={"SECRET": "s"}), rig.engine.jobs
        assert (await rig.detail(job)).script == "#!/bin/sh\ntrue\n"
        variables = await jobs.environment(rig.user, ask.JobEnvironment(job=job))
        assert variables.variables["SECRET"] == "s"
        with pytest.raises(UserError):
            await jobs.detail(rig.other, ask.JobInfo(job=job))
        with pytest.raises(UserError):
            await jobs.environment(rig.other, ask.JobEnvironment(job=job))
        with pytest.raises(UserError) as unknown:
            await jobs.detail(rig.user, ask.JobInfo(job="999999"))
        assert code(unknown) == "not_found"
        await rig.cancel(job)

    async def test_a_waiting_job_has_a_reason(self, rig: Rig) -> None:
        job = await rig.held()
        found = await rig.engine.jobs.forecast(rig.user, ask.Forecast(job=job))
        assert found.code == "JobHeldUser" and found.sentence
        ranked = await rig.engine.accounting.priorities(rig.user, ask.Priorities(ids=(job,)))
        assert labels(ranked.jobs) == [job]
        await rig.cancel(job)
        with pytest.raises(UserError):
            await rig.engine.accounting.priorities(rig.user, ask.Priorities(ids=(job,)))

    async def test_a_subscriber_gets_all_rows_and_then_the_changes(self, rig: Rig) -> None:
        old, seen, nodes = await rig.held(), dict[str, str](), set[str]()
        new = ""
        changes = rig.engine.jobs.changes(rig.user, ask.Subscribe(finished_s=3600.0))
        async with asyncio.timeout(WAIT_S), contextlib.aclosing(changes):
            async for build in changes:
                delta = await build()
                seen.update((row.label, row.state) for row in delta.jobs)
                nodes.update(row.name for row in delta.nodes)
                if delta.ready:
                    assert seen[old] == "PENDING" and nodes == {rig.node}
                    new = await rig.held()
                    await rig.cancel(old)
                if new in seen and seen[old] == "CANCELLED":
                    break
        await rig.cancel(new)

    async def test_each_start_and_end_is_told_once(self, rig: Rig) -> None:
        job, later = await rig.submit("true"), await rig.held()
        feed = rig.engine.jobs.ends(rig.user, ask.AwaitEnds(jobs=(int(job), 999_999), begun=True))
        ended, done, unknown = list[str](), set[int](), list[int]()
        async with asyncio.timeout(WAIT_S), contextlib.aclosing(feed.messages()) as messages:
            async for message in messages:
                ended += labels(message.ended)
                done.update(message.done)
                unknown += message.unknown
                if done == {int(job), 999_999}:
                    assert ended == [job] and unknown == [999_999] and len(feed) == 0
                    feed.add([int(later)])
                    await rig.cancel(later)
                if int(later) in done:
                    break
        feed.close()
        assert ended == [job, later]

    async def test_the_running_steps_are_listed(self, rig: Rig) -> None:
        job = await rig.running()
        rows = await rig.engine.jobs.steps(rig.user, ask.Steps(ids=(job,)))
        assert [(step.row.id, step.user) for step in rows[0:10]] == [(f"{job}.batch", rig.user.who.user)]
        await rig.cancel(job)

    # ---- Orders

    async def test_a_held_job_waits_until_it_is_released(self, rig: Rig) -> None:
        job, orders = await rig.held(), rig.engine.orders
        assert (await rig.detail(job)).row.held
        await orders.change(rig.user, ask.Release(jobs=(job,)))
        await rig.reached(job)
        assert await rig.state(job) == "COMPLETED"

    async def test_a_running_job_is_canceled_and_signaled(self, rig: Rig) -> None:
        job = await rig.running("trap 'exit 7' USR1; echo ready; while true; do sleep 0.1; done")
        log = Client()
        source = await rig.engine.output.log(rig.user, ask.Log(job=job, follow=True), log.progress)
        await source(log)
        await log.until(lambda: log.received == b"ready\n")  # Now the trap is set.
        signal = ask.Cancel(jobs=(job,), signal="USR1", whom="batch")
        await rig.engine.orders.cancel(rig.user, signal)
        await rig.reached(job)
        assert (await rig.detail(job)).row.exit_code == "7:0"
        job = await rig.running()
        assert (await rig.cancel(job)).jobs == [job]
        await rig.reached(job)
        assert await rig.state(job) == "CANCELLED"

    async def test_an_order_names_the_jobs_that_refuse_it(self, rig: Rig) -> None:
        job, orders = await rig.held(), rig.engine.orders
        changed = await orders.change(rig.user, ask.Hold(jobs=(job, "999999")))
        assert changed.jobs == [job] and len(changed.errors) == 1 and "999999" in changed.errors[0]
        with pytest.raises(UserError):
            await orders.change(rig.user, ask.Hold(jobs=("999999",)))
        canceled = await rig.cancel(job, "999999")
        assert (canceled.jobs, canceled.refused, canceled.codes) == ([job], ["999999"], ["not_found"])

    async def test_jobs_of_others_stay_as_they_are(self, rig: Rig) -> None:
        job, orders = await rig.held(), rig.engine.orders
        with pytest.raises(UserError):
            await rig.cancel(job, caller=rig.other)
        with pytest.raises(UserError):
            await orders.change(rig.other, ask.Release(jobs=(job,)))
        assert await rig.state(job) == "PENDING"
        await rig.cancel(job, caller=rig.admin)
        assert await rig.state(job) == "CANCELLED"

    async def test_a_job_is_changed_and_annotated(self, rig: Rig) -> None:
        job, orders = await rig.held(), rig.engine.orders
        change = JobChange(time_limit_s=120, name="renamed")
        await orders.change(rig.user, ask.JobUpdate(jobs=(job,), change=change))
        row = (await rig.detail(job)).row
        assert (row.time_limit_s, row.name) == (120, "renamed")
        await rig.cancel(job)
        note = ask.JobAnnotate(ids=(int(job),), annotating=AnnotationsChange(comment="wrong seed"))
        with pytest.raises(UserError):
            await orders.annotate(rig.other, note)
        await orders.annotate(rig.user, note)
        fields = ("recorded_comment",)
        [found] = (await rig.engine.jobs.rows(rig.user, ask.Jobs(ids=(job,), fields=fields)))[0:1]
        assert found == {"recorded_comment": "wrong seed"}

    async def test_a_requeued_job_starts_again(self, rig: Rig) -> None:
        job = await rig.running(requeue=True)
        await rig.engine.orders.change(rig.user, ask.Requeue(jobs=(job,), hold=True))
        await rig.until(job, lambda row: row.state == "PENDING" and row.restarts == 1)
        assert (await rig.detail(job)).row.held
        await rig.cancel(job)

    @needs(Action.PAUSE)
    async def test_a_paused_job_waits_held_until_it_is_released(self, rig: Rig) -> None:
        job, orders = await rig.running(requeue=True), rig.engine.orders
        with pytest.raises(UserError):
            await orders.change(rig.other, ask.Pause(jobs=(job,)))
        await orders.change(rig.user, ask.Pause(jobs=(job,), hold=True, saving_s=60))
        await rig.until(job, lambda row: row.state == "PENDING" and row.restarts == 1)
        assert (await rig.detail(job)).row.held
        with pytest.raises(UserError, match="not running"):
            await orders.change(rig.user, ask.Pause(jobs=(job,)))
        await orders.change(rig.user, ask.Release(jobs=(job,)))
        await rig.until(job, lambda row: row.state == "RUNNING")
        await rig.cancel(job)

    async def test_an_admin_suspends_a_job_and_lets_it_continue(self, rig: Rig) -> None:
        job, orders = await rig.running(), rig.engine.orders
        with pytest.raises(UserError):
            await orders.change(rig.user, ask.Suspend(jobs=(job,)))
        await orders.change(rig.admin, ask.Suspend(jobs=(job,)))
        await rig.until(job, lambda row: row.state == "SUSPENDED")
        await orders.change(rig.admin, ask.Resume(jobs=(job,)))
        await rig.until(job, lambda row: row.state == "RUNNING")
        await rig.cancel(job)

    @needs(Action.TELL)
    async def test_a_line_is_shown_to_the_users_of_a_running_job(self, rig: Rig) -> None:
        job = await rig.running()
        await rig.engine.orders.change(rig.user, ask.Tell(jobs=(job,), text="back at work"))
        await rig.cancel(job)

    async def test_a_job_waits_for_its_code_until_that_is_recorded(self, rig: Rig) -> None:
        job = await rig.submit("true", code_due_unix=time.time() + 600)
        assert (await rig.detail(job)).recording
        await rig.engine.orders.record_code(rig.user, ask.CodeRecorded(jobs=(job,), note="not in git"))
        await rig.reached(job)
        assert await rig.state(job) == "COMPLETED"

    # ---- Nodes

    async def test_nodes_are_listed_with_rows_or_facts(self, rig: Rig) -> None:
        nodes = rig.engine.nodes
        [row] = (await nodes.rows(rig.user, ask.Nodes()))[0:10]
        [facts] = (await nodes.rows(rig.user, ask.Nodes(name=rig.node, facts=True)))[0:10]
        assert row.name == facts.name == rig.node and facts.cpus == row.cpus > 0
        with pytest.raises(UserError) as refused:
            await nodes.rows(rig.user, ask.Nodes(name="nowhere"))
        assert code(refused) == "not_found"

    @needs(Action.NODE_CHECK)
    async def test_the_health_of_nodes_is_told(self, rig: Rig) -> None:
        for caller in (rig.user, rig.admin):
            [row] = (await rig.engine.nodes.health(caller, ask.NodeCheck())).nodes
            assert row.name == rig.node and row.error == ""

    async def test_a_drained_node_starts_nothing_until_it_is_resumed(self, rig: Rig) -> None:
        nodes = rig.engine.nodes
        row = await nodes.drain(rig.admin, ask.NodeDrain(name=rig.node, reason="a fan"))
        assert row.state.startswith("drain") and row.reason == "a fan"
        job = await rig.submit("true")
        assert (await rig.engine.jobs.forecast(rig.user, ask.Forecast(job=job))).verdict in ("later", "never")
        row = await nodes.resume(rig.admin, ask.NodeResume(name=rig.node))
        assert not row.state.startswith("drain")
        await rig.reached(job)

    @needs(Action.NODE_REMOVE)
    async def test_a_node_with_jobs_is_not_removed(self, rig: Rig) -> None:
        job = await rig.running()
        with pytest.raises(UserError):
            await rig.engine.nodes.remove(rig.admin, ask.NodeRemove(name=rig.node))
        assert len(await rig.engine.nodes.rows(rig.user, ask.Nodes())) == 1
        await rig.cancel(job)

    async def test_nodes_have_a_past_and_no_future(self, rig: Rig) -> None:
        job = await rig.running()
        [row] = (await rig.engine.nodes.past(rig.user, ask.NodesAt(at=time.time())))[0:10]
        assert row.name == rig.node and job in row.jobs
        await rig.cancel(job)
        with pytest.raises(UserError, match="future"):
            await rig.engine.nodes.past(rig.user, ask.NodesAt(at=time.time() + 3600))

    async def test_a_timeline_has_the_drains_of_its_range(self, rig: Rig) -> None:
        nodes, since = rig.engine.nodes, time.time()
        await nodes.drain(rig.admin, ask.NodeDrain(name=rig.node, reason="a fan"))
        await nodes.resume(rig.admin, ask.NodeResume(name=rig.node))
        told = await nodes.timeline(rig.user, ask.NodeTimeline(since=since, until=time.time() + 60, steps=3))
        kinds = [(event.kind, event.text) for event in told.events if event.node == rig.node]
        assert [each for each in kinds if each[0] in ("drain", "resume")] == [
            ("drain", "a fan"),
            ("resume", ""),
        ]
        assert len(told.allocated) == len(told.util_pct) == 3
        with pytest.raises(UserError, match="too long"):
            await nodes.timeline(rig.user, ask.NodeTimeline(since=0, until=since))

    async def test_reservations_are_made_once_and_removed(self, rig: Rig) -> None:
        nodes, site = rig.engine.nodes, rig.engine.site
        later = time.time() + 86_400
        reservation = Reservation(
            name="course", start_unix=later, end_unix=later + 60, users=(rig.user.who.user,)
        )
        message = ask.ReservationMake(reservation=reservation, nonce=nonce())
        for _ in range(2):
            await nodes.reserve(rig.admin, message)
        [row] = (await site.reservations(rig.user, ask.Reservations())).reservations
        assert (row.name, row.state) == ("course", "future")
        await nodes.unreserve(rig.admin, ask.ReservationRemove(name="course"))
        assert (await site.reservations(rig.user, ask.Reservations())).reservations == []

    # ---- History

    async def test_records_come_in_pages_with_their_steps(self, rig: Rig) -> None:
        job = await rig.ran("true", name="recorded")
        rows: list[dict[str, Any]] = []
        message = ask.Records(names=("recorded",), ended=True, fields=("label", "state"), steps=True)
        async with contextlib.aclosing(rig.engine.history.records(rig.user, message)) as pages:
            async for page in pages:
                rows += page.rows
        assert [(row["label"], row["state"]) for row in rows] == [(job, "COMPLETED")]
        assert "batch" in [step.row.name for step in rows[0]["steps"]]

    async def test_scripts_of_records_are_for_their_owner(self, rig: Rig) -> None:
        await rig.ran("true", name="scripted")
        message = ask.Records(names=("scripted",), ended=True, fields=("label",), scripts=True)
        for caller, script in ((rig.user, "#!/bin/sh\ntrue\n"), (rig.other, "")):
            async with contextlib.aclosing(rig.engine.history.records(caller, message)) as pages:
                assert [row["script"] async for page in pages for row in page.rows] == [script]

    async def test_ended_jobs_are_found_with_their_costs_and_events(self, rig: Rig) -> None:
        job, history = await rig.ran("true"), rig.engine.history
        query = FinishedQuery(user=rig.user.who.user)
        page = await history.past(rig.user, ask.Past(query=query, counted=True))
        assert job in labels(page.jobs) and page.total is not None and page.total >= 1
        assert (await history.costs(rig.user, ask.PastCosts(query=query))).groups
        events = (await history.events(rig.user, ask.Events(limit=500))).events
        assert job in labels(events)

    async def test_the_usage_of_jobs_and_nodes_is_told(self, rig: Rig) -> None:
        job, history = await rig.ran("true"), rig.engine.history
        found = await history.curves(rig.user, ask.Curves(job=job))
        assert found.used is not None and found.errors == []
        assert (await history.curves(rig.user, ask.Curves(node=rig.node))).curves
        with pytest.raises(UserError):
            await history.curves(rig.user, ask.Curves())

    # ---- Output

    async def test_a_log_is_read_from_any_offset(self, rig: Rig) -> None:
        job, output = await rig.ran("echo hello; exit 2"), rig.engine.output
        await output.settle(rig.user, ask.Settle(job=int(job)))
        for offset, expected in ((0, b"hello\n"), (3, b"lo\n"), (-2, b"o\n")):
            client = Client()
            source = await output.log(rig.user, ask.Log(job=job, offset=offset), client.progress)
            assert await client.all(source) == expected
            assert client.log is not None and client.log.size_bytes == 6
            assert client.end is not None and client.end.exit is not None and client.end.exit.code == 2

    async def test_a_followed_log_ends_with_its_job(self, rig: Rig) -> None:
        client = Client()
        job = await rig.submit("echo begun; while [ ! -e go-on ]; do sleep 0.1; done; echo over")
        source = await rig.engine.output.log(rig.user, ask.Log(job=job, follow=True), client.progress)
        await source(client)
        await client.until(lambda: client.received == b"begun\n")
        (rig.folder / "go-on").touch()
        await client.until(lambda: client.end is not None)
        assert client.received == b"begun\nover\n"
        assert client.end is not None and client.end.exit is not None and client.end.exit.code == 0

    async def test_logs_are_for_the_owner_and_of_started_jobs(self, rig: Rig) -> None:
        job, output, client = await rig.held(), rig.engine.output, Client()
        with pytest.raises(UserError, match="has not started"):
            await output.log(rig.user, ask.Log(job=job), client.progress)
        with pytest.raises(UserError, match=r"belongs to|own user only"):
            await output.log(rig.other, ask.Log(job=job), client.progress)
        await rig.cancel(job)

    async def test_a_terminal_answers_and_ends_with_its_job(self, rig: Rig) -> None:
        request = Request(
            name="shell",
            argv=("/bin/sh",),
            pty=PtySize(),
            submit_dir=str(rig.folder),
            env={"PATH": "/usr/bin:/bin"},
        )
        job = (await rig.engine.submissions.submit(rig.user, ask.Submit(request=request))).label
        client = Client()
        source = await rig.engine.output.terminal(rig.user, ask.Attach(job=job), client.progress)
        stream = await source(client)
        await client.until(lambda: client.log is not None)
        await stream.resize(30, 100)
        await stream.write(b"echo $((6 * 7)); exit 4\n")
        await client.until(lambda: client.end is not None)
        assert b"42" in client.received
        assert client.end is not None and client.end.exit is not None and client.end.exit.code == 4
        with pytest.raises(UserError) as refused:
            await rig.engine.output.terminal(rig.user, ask.Attach(job=job), client.progress)
        assert code(refused) == ask.ENDED

    async def test_a_tunnel_carries_bytes_both_ways(self, rig: Rig) -> None:
        job, client = await rig.running(), Client()
        message = ask.Tunnel(job=job, argv=("cat",))
        stream = await (await rig.engine.output.tunnel(rig.user, message, client.progress))(client)
        await stream.write(b"there and back")
        await client.until(lambda: client.received == b"there and back")
        await stream.write(b"")
        await client.until(lambda: client.end is not None)
        assert client.end == StreamEnd()
        await rig.cancel(job)

    async def test_a_forward_lasts_as_long_as_its_job(self, rig: Rig) -> None:
        job, client = await rig.running(), Client()
        message = ask.Forward(job=job, port=8888, local_port=8888)
        found = await rig.engine.output.forward(rig.user, message, client.progress)
        assert (found.label, found.user, found.node) == (job, rig.user.who.user, rig.node)
        ended = asyncio.create_task(found.ended())
        await rig.cancel(job)
        async with asyncio.timeout(WAIT_S):
            await ended

    # ---- Commands

    async def test_a_command_runs_as_a_job_and_its_output_comes_back(self, rig: Rig) -> None:
        words = ("sh", "-c", "echo out; echo err >&2; exit 5")
        message = ask.Run(words=words, errors=2, env={"PATH": "/usr/bin:/bin"}, cwd=str(rig.folder))
        out, err = Client(), Client()
        started = await rig.engine.sessions.run(rig.user, message)
        sources = await started.outputs(out.progress)
        assert [await out.all(sources[0]), await err.all(sources[1])] == [b"out\n", b"err\n"]
        assert out.end is not None and out.end.exit is not None and out.end.exit.code == 5
        assert (await rig.detail(str(started.opened.job_id))).row.exit_code == "5:0"

    async def test_a_session_is_a_job_with_a_terminal(self, rig: Rig) -> None:
        message = ask.Session(
            words=("--pty", "cat"), env={"PATH": "/usr/bin:/bin"}, cwd=str(rig.folder), nonce=nonce()
        )
        opened = await rig.engine.sessions.open(rig.user, message)
        assert (await rig.engine.sessions.open(rig.user, message)).job_id == opened.job_id
        assert (await rig.detail(str(opened.job_id))).row.interactive
        await rig.cancel(str(opened.job_id))

    async def test_steps_run_in_an_allocation_until_it_is_released(self, rig: Rig) -> None:
        client, steps = Client(), rig.engine.steps
        env = {"PATH": "/usr/bin:/bin"}
        salloc = ask.Salloc(words=("sh",), env=env, cwd=str(rig.folder))
        allocation = await steps.salloc(rig.user, salloc, client.progress)
        job = allocation.answer["job_id"]
        assert allocation.is_held and await rig.state(str(job)) == "RUNNING"
        words = (f"--jobid={job}", "sh", "-c", "cat; exit 6")
        srun = ask.Srun(words=words, env=env, cwd=str(rig.folder), has_input=True)
        step = await steps.srun(rig.user, srun, client.progress)
        assert not isinstance(step, (CommandText, EndedStep))
        assert await self._output(step, client, sent=b"typed\n") == b"typed\n"
        assert client.end is not None and client.end.exit is not None and client.end.exit.code == 6
        revoked = asyncio.ensure_future(allocation.revoked())
        await allocation.release(0)
        async with asyncio.timeout(WAIT_S):
            assert f"Job allocation {job} has been revoked" in await revoked
        assert await rig.state(str(job)) == "COMPLETED"

    async def test_an_allocation_ends_when_its_client_leaves(self, rig: Rig) -> None:
        client, steps = Client(), rig.engine.steps
        salloc = ask.Salloc(words=("sh",), env={"PATH": "/usr/bin:/bin"}, cwd=str(rig.folder))
        allocation = await steps.salloc(rig.user, salloc, client.progress)
        again = await steps.salloc_attach(rig.user, ask.SallocAttach(job=allocation.answer["job_id"]))
        with pytest.raises(UserError):
            await steps.salloc_attach(rig.other, ask.SallocAttach(job=allocation.answer["job_id"]))
        again.left()
        await rig.reached(str(allocation.answer["job_id"]))

    async def test_a_step_outside_of_an_allocation_makes_its_own(self, rig: Rig) -> None:
        client = Client()
        srun = ask.Srun(words=("echo", "alone"), env={"PATH": "/usr/bin:/bin"}, cwd=str(rig.folder))
        step = await rig.engine.steps.srun(rig.user, srun, client.progress)
        assert not isinstance(step, (CommandText, EndedStep))
        assert await self._output(step, client) == b"alone\n"
        await rig.reached(str(step.answer["job_id"]))

    async def test_a_step_of_an_allocation_has_a_terminal(self, rig: Rig) -> None:
        client, steps, env = Client(), rig.engine.steps, {"PATH": "/usr/bin:/bin", "TERM": "vt100"}
        salloc = ask.Salloc(words=("sh",), env=env, cwd=str(rig.folder))
        held = await steps.salloc(rig.user, salloc, client.progress)
        words = (f"--jobid={held.answer['job_id']}", "--pty", "sh")
        srun = ask.Srun(words=words, env=env, cwd=str(rig.folder), has_input=True, rows=31, cols=97)
        step = await steps.srun(rig.user, srun, client.progress)
        assert not isinstance(step, (CommandText, EndedStep)) and step.answer["pty"]
        running, keyboard = asyncio.create_task(step.run(client)), Keyboard(step)
        keyboard.resize(31, 97)
        keyboard.type("test -t 0 && echo size-$(stty size); exit 5\n")
        async with asyncio.timeout(WAIT_S):
            await running
        assert b"size-31 97" in b"".join(chunk[TASK_HEADER.size :] for chunk in client.chunks)
        assert client.end is not None and client.end.exit is not None and client.end.exit.code == 5
        held.left()
        await rig.reached(str(held.answer["job_id"]))

    async def test_bad_arguments_of_srun_are_refused(self, rig: Rig) -> None:
        client = Client()
        srun = ask.Srun(words=("--ntasks=none", "true"), cwd=str(rig.folder))
        with pytest.raises(UserError):
            await rig.engine.steps.srun(rig.user, srun, client.progress)
        with pytest.raises(UserError):
            await rig.engine.steps.srun_attach(rig.user, ask.SrunAttach(step="999999.0"))

    async def _output(self, step: RunningStep, client: Client, *, sent: bytes = b"") -> bytes:
        """Run the step to its end, send it one piece of input, and return the standard output of its only task."""
        running = asyncio.create_task(step.run(client))
        await asyncio.sleep(0)
        if sent:
            for piece in (sent, b""):
                step.incoming(TASK_HEADER.pack(EVERY_TASK, 0, 0) + piece)
        async with asyncio.timeout(WAIT_S):
            await running
        pieces = [(TASK_HEADER.unpack_from(chunk), chunk[TASK_HEADER.size :]) for chunk in client.chunks]
        return b"".join(data for (_, channel, _), data in pieces if channel == OUT)

    # ---- Processes of jobs

    async def test_a_process_of_a_job_is_known_by_its_job_and_node(self, rig: Rig) -> None:
        job, jobs = await rig.running(), rig.engine.jobs
        number, node = JobId(int(job)), NodeName(rig.node)
        owner = jobs.owner(number, restarts=0, node=node)
        assert owner is not None and owner.uid == rig.user.who.uid and not owner.admin
        assert jobs.owner(number, restarts=1, node=node) is None
        assert jobs.owner(number, restarts=0, node=NodeName("elsewhere")) is None
        await rig.cancel(job)
