"""What must hold of every plan and of every state, one function each; they raise AssertionError."""

from __future__ import annotations

from collections import Counter

from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import shares_on
from warpdeck.controller.state.view_cache import ViewCache
from warpdeck.model import JobId, JobState, NodeName, count_tasks, iter_tasks
from warpdeck.model.states import HOLDS_RESOURCES
from warpdeck.policy import PendingJob, Plan, View


def nothing_is_held_twice(view: View, plan: Plan) -> None:
    """No GPU has two jobs, no node more CPUs or memory given than it has."""
    nodes = {node.name: node for node in view.nodes}
    gpus: set[tuple[str, int]] = set()
    cpus: dict[NodeName, int] = {}
    mem: dict[NodeName, int] = {}
    allocations = [job.allocation for job in view.running] + [start.allocation for start in plan.starts]
    for share in (share for allocation in allocations for share in allocation.shares):
        for index in share.gpus:
            assert (share.node, index) not in gpus, f"GPU {index} of {share.node} is held twice"
            gpus.add((share.node, index))
        cpus[share.node] = cpus.get(share.node, 0) + share.cpus
        mem[share.node] = mem.get(share.node, 0) + share.mem_bytes
    for name, count in cpus.items():
        assert count <= nodes[name].cpus, f"{name} gives {count} CPUs and has {nodes[name].cpus}"
        assert mem[name] <= nodes[name].mem_bytes


def everybody(view: View) -> list[PendingJob]:
    """All who wait, components too."""
    return [part for job in view.pending for part in (job, *job.components)]


def gangs_are_whole(view: View, plan: Plan) -> None:
    """A started job has all its nodes, tasks and GPUs, on different nodes that take jobs and allow it."""
    jobs = {job.id: job for job in everybody(view)}
    nodes = {node.name: node for node in view.nodes}
    for start in plan.starts:
        asked = jobs[start.job_id].resources
        names = start.allocation.node_names()
        assert len(set(names)) == len(names)
        assert asked.nodes_min <= len(names) <= max(asked.nodes_min, asked.nodes_max)
        for share in start.allocation.shares:
            assert not nodes[share.node].unavailable
            assert share.node not in asked.exclude
            assert len(share.gpus) == (asked.gpus.per_node or 0)
            held = [gpu for gpu in nodes[share.node].gpus if gpu.index in share.gpus]
            assert all(not gpu.blocked for gpu in held)
            assert all(asked.gpus.type.lower() in ("", gpu.type.lower()) for gpu in held)
            assert tuple(gpu.uuid for gpu in held) == share.gpu_uuids


def everyone_is_accounted_for(view: View, plan: Plan) -> None:
    """Every waiting job starts or has a reason in words."""
    started = {start.job_id for start in plan.starts}
    for job in everybody(view):
        assert job.id in started or plan.pending_reasons[job.id].sentence, (
            f"job {job.id} has neither start nor reason"
        )


def no_job_starts_twice(view: View, plan: Plan) -> None:
    """A plain job starts once, an array's task once."""
    seen: set[tuple[JobId, int | None]] = set()
    for start in plan.starts:
        assert (start.job_id, start.task) not in seen
        seen.add((start.job_id, start.task))


ALL = (nothing_is_held_twice, gangs_are_whole, everyone_is_accounted_for, no_job_starts_twice)


def no_gpu_has_two_jobs(state: State) -> None:
    """Nor is a node given away twice over in CPUs or memory; the index of who is where agrees."""
    held: dict[tuple[str, int], JobId] = {}
    there: dict[NodeName, list[JobId]] = {}
    for job in state.jobs.values():
        if not job.holds_resources:
            continue
        assert job.allocation is not None, f"job {job.label()} is {job.state} without an allocation"
        for share in job.allocation.shares:
            there.setdefault(share.node, []).append(job.id)
        for share in job.held_allocation.shares if job.held_allocation is not None else ():
            for index in share.gpus:
                owner = held.setdefault((share.node, index), job.id)
                assert owner == job.id, f"GPU {index} of {share.node} is held by {owner} and {job.id}"
    for name, node in state.nodes.items():
        assert [job.id for job in state.jobs_on(name)] == sorted(there.get(name, []))
        shares = [share for _, share in shares_on(state, name)]
        assert sum(share.cpus for share in shares) <= node.cpus
        assert sum(share.mem_bytes for share in shares) <= node.mem_bytes


def users_who_want_it_are_apart(state: State) -> None:
    """No node has a job that shares its nodes within its user alone, and another user's, by uid."""
    for name in state.nodes:
        there = state.jobs_on(name)
        apart = {job.uid for job in there if job.request.resources.share_with == "user"}
        assert not apart or ({job.uid for job in there} == apart and len(apart) == 1), f"{name}: {apart}"


def every_job_is_where_its_state_says(state: State) -> None:
    """Waiting jobs are in the queue and hold nothing; finished ones have an end; shares belong to the allocation."""
    for job in state.jobs.values():
        assert (job.id in state.index.pending) == (job.state is JobState.PENDING)
        assert (job.id in state.index.active) == job.holds_resources
        rests = job.id in state.index.pending and job.held and job.request.deadline_unix is None
        assert (job.id in state.index.resting) == rests
        if job.state is JobState.PENDING:
            assert job.allocation is None and not job.shares and job.end_at_unix is None
        if job.is_finished:
            assert job.end_at_unix is not None
        if job.allocation is not None:
            assert tuple(share.node for share in job.shares) == job.allocation.node_names()
        assert len(job.pending_tasks) == 0 or count_tasks(job.pending_tasks) > 1
        assert job.id < state.next_job_id


def no_task_of_an_array_is_there_twice(state: State) -> None:
    """The records of an array hold each of its tasks once."""
    tasks: dict[JobId, list[int]] = {}
    for job in state.jobs.values():
        if job.request.array is not None:
            own = (
                [job.array_task_id] if job.array_task_id is not None else list(iter_tasks(job.pending_tasks))
            )
            tasks.setdefault(job.array_job_id, []).extend(own)
    for array_job_id, found in tasks.items():
        array = state.array_members(array_job_id)[0].request.array
        assert array is not None and sorted(found) == list(iter_tasks(array.ranges))


def what_is_kept_is_what_would_be_made_anew(state: State) -> None:
    """The parts of the picture that are kept between passes, and the counts of the queue."""
    now, kept = 2e9, state.picture
    seen = (kept.nodes(state), kept.running(state, now=now), kept.pending(state, now=now))
    anew = ViewCache()
    assert seen == (anew.nodes(state), anew.running(state, now=now), anew.pending(state, now=now))
    counted: dict[tuple[str, str, str], int] = {}
    for job in state.jobs.values():
        if not job.is_finished:
            key = (job.request.account, job.user, job.request.qos)
            counted[key] = counted.get(key, 0) + max(1, count_tasks(job.pending_tasks))
    assert state.submitted == counted
    in_state = Counter(job.state for job in state.jobs.values())
    assert {each: count for each, count in state.index.in_state.items() if count} == in_state


def who_is_behind_another_holds_nothing(state: State) -> None:
    """Each has one before it, which is still there, and will have its place and no other."""
    found = {job.behind: job for job in state.jobs.values() if job.behind is not None}
    assert {before: job.id for before, job in found.items()} == state.index.follower
    assert len(found) == sum(job.behind is not None for job in state.jobs.values()), "two are behind one"
    for before, job in found.items():
        first = state.jobs[before]
        assert first.state in HOLDS_RESOURCES and job.state in HOLDS_RESOURCES
        assert first.allocation == job.allocation and not job.holds_resources


def components_begin_together(state: State) -> None:
    """None of a heterogeneous job waits while another begins or runs; their ids are in a row."""
    begun = (JobState.CONFIGURING, JobState.RUNNING)
    for job in state.jobs.values():
        if job.component is None or job.is_led:
            continue
        members = state.array_members(job.id)
        assert {each.component.leader for each in members if each.component} == {job.id}
        assert [each.id for each in members] == [
            job.id + each.component.offset for each in members if each.component
        ]
        states = {each.state for each in members}
        assert JobState.PENDING not in states or states.isdisjoint(begun), f"{job.label()}: {states}"


OF_STATE = (
    components_begin_together,
    who_is_behind_another_holds_nothing,
    no_gpu_has_two_jobs,
    users_who_want_it_are_apart,
    every_job_is_where_its_state_says,
    no_task_of_an_array_is_there_twice,
    what_is_kept_is_what_would_be_made_anew,
)
"""What must hold of the controller's state after every event."""
