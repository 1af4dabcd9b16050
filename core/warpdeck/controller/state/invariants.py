"""Invariants of the controller's state. Each invariant is one function that returns the violations that it
found.

Property tests and the simulator check all invariants after each event. The running controller checks the
invariants of single jobs and nodes on a sample (see `loop/self_check.py`), because these hold in every
situation. The invariants of the whole state need a scan of all jobs. Some of them hold only as long as no
node loses CPUs and no finished job is evicted from memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from warpdeck.model import HOLDS_RESOURCES, Job, JobId, JobState, NodeName, count_tasks, iter_tasks

from .state import State
from .user_use import UserUse
from .view import shares_on
from .view_cache import ViewCache

FAR_UNIX = 2e9
"""A time in Unix seconds at which no job still waits for its begin time."""


def job_matches_its_state(state: State, job: Job) -> list[str]:
    """A waiting job is in the queue and has no allocation. A finished job has an end.

    The shares of a job match its allocation.
    """
    is_pending = job.state is JobState.PENDING
    is_held = is_pending and job.held and job.request.deadline_unix is None
    nodes = job.allocation.node_names() if job.allocation is not None else None
    return _failed(
        f"job {job.label()}",
        {
            "be in the queue if and only if it waits": (job.id in state.index.pending) == is_pending,
            "be active if and only if it holds resources": (job.id in state.index.active)
            == job.holds_resources,
            "be indexed as held if and only if it is held without a deadline": (job.id in state.index.held)
            == is_held,
            "have no allocation and no end while it waits": not is_pending
            or (nodes is None and not job.shares and job.end_at_unix is None),
            "have an end if it is finished": not job.is_finished or job.end_at_unix is not None,
            "have an allocation if it holds resources": nodes is not None or not job.holds_resources,
            "have a share on each node of its allocation": nodes is None
            or tuple(share.node for share in job.shares) == nodes,
            "be a single job or several waiting tasks": not job.pending_tasks
            or count_tasks(job.pending_tasks) > 1,
            "have an id that was given out": job.id < state.next_job_id,
        },
    )


def job_is_indexed_on_its_nodes(state: State, job: Job) -> list[str]:
    """A job that holds resources is in the index of each of its nodes."""
    if not job.holds_resources or job.allocation is None:
        return []
    names = job.allocation.node_names()
    return _failed(
        f"job {job.label()}",
        {f"be in the index of node {name}": job.id in state.index.on_node.get(name, ()) for name in names},
    )


def prefetched_job_holds_nothing(state: State, job: Job) -> list[str]:
    """A prefetched job is the only successor of a job, has the allocation of that job, and holds no
    resources.
    """
    if job.prefetched_after is None:
        return []
    first = state.jobs.get(job.prefetched_after)
    return _failed(
        f"job {job.label()}",
        {
            "be the only successor of its predecessor": state.index.successor.get(job.prefetched_after)
            == job.id,
            "have a predecessor that holds an allocation": first is not None
            and first.state in HOLDS_RESOURCES,
            "have the allocation of its predecessor": first is not None
            and first.allocation == job.allocation,
            "be about to start": job.state in HOLDS_RESOURCES,
            "hold no resources yet": not job.holds_resources,
        },
    )


def array_tasks_are_unique(state: State, job: Job) -> list[str]:
    """The records of an array hold each of its tasks at most once."""
    if job.request.array is None or job.id != next(iter(state.member_ids(job.array_job_id)), None):
        return []
    tasks = _tasks(state.array_members(job.array_job_id))
    allowed = set(iter_tasks(job.request.array.ranges))
    return _failed(
        f"job {job.label()}",
        {
            "have each task in one record": len(tasks) == len(set(tasks)),
            "have the tasks of its request only": allowed.issuperset(tasks),
        },
    )


def components_start_together(state: State, leader: Job) -> list[str]:
    """No component of a heterogeneous job waits while another one starts or runs. The ids of the components
    are consecutive.
    """
    if leader.component is None or leader.has_leader:
        return []
    members = state.array_members(leader.id)
    states = {each.state for each in members}
    parts = [(each.id, each.component) for each in members if each.component is not None]
    return _failed(
        f"job {leader.label()}",
        {
            "lead all of its components": all(part.leader == leader.id for _, part in parts),
            "have consecutive components": all(job_id == leader.id + part.offset for job_id, part in parts),
            "start with all of its components": JobState.PENDING not in states
            or states.isdisjoint((JobState.CONFIGURING, JobState.RUNNING)),
        },
    )


def gpus_are_allocated_once(state: State, name: NodeName) -> list[str]:
    """No GPU is allocated beyond 100 percent, and the index of a node contains only jobs that hold its
    resources.
    """
    percent: Counter[int] = Counter()
    for _, share in shares_on(state, name):
        percent.update(dict.fromkeys(share.gpus, share.gpu_share_pct))
    claims = {f"allocate GPU {index} once": used <= 100 for index, used in percent.items()}
    for job in state.jobs_on(name):
        is_there = job.allocation is not None and name in job.allocation.node_names()
        claims[f"be a node of job {job.label()}"] = job.holds_resources and is_there
    return _failed(f"node {name}", claims)


def exclusive_users_are_alone(state: State, name: NodeName) -> list[str]:
    """A node with a job that excludes other users has jobs of one user only."""
    there = state.jobs_on(name)
    is_exclusive = any(job.request.resources.share_with == "user" for job in there)
    is_alone = len({job.uid for job in there}) <= 1
    return _failed(
        f"node {name}", {"have jobs of the user that excludes others": is_alone or not is_exclusive}
    )


def cpus_and_memory_fit(state: State) -> list[str]:
    """No node has more CPUs or memory allocated than it has."""
    found = []
    for name, node in state.nodes.items():
        shares = [share for _, share in shares_on(state, name)]
        claims = {
            "have the CPUs that it allocates": sum(share.cpus for share in shares) <= node.cpus,
            "have the memory that it allocates": sum(share.mem_bytes for share in shares) <= node.mem_bytes,
        }
        found += _failed(f"node {name}", claims)
    return found


def array_tasks_are_complete(state: State) -> list[str]:
    """The records of an array hold all of its tasks."""
    found = []
    for array_job_id in {job.array_job_id for job in state.jobs.values() if job.request.array is not None}:
        members = state.array_members(array_job_id)
        array = members[0].request.array
        is_complete = array is not None and sorted(_tasks(members)) == list(iter_tasks(array.ranges))
        found += _failed(f"job {members[0].label()}", {"have all tasks of its array": is_complete})
    return found


def caches_match_the_tables(state: State) -> list[str]:
    """The cached views of nodes and jobs equal newly built views."""
    kept, anew = state.view_cache, ViewCache()
    return _failed(
        "the view cache",
        {
            "have the nodes of the tables": kept.nodes(state) == anew.nodes(state),
            "have the running jobs of the tables": kept.running(state, now=FAR_UNIX)
            == anew.running(state, now=FAR_UNIX),
            "have the pending jobs of the tables": kept.pending(state, now=FAR_UNIX)
            == anew.pending(state, now=FAR_UNIX),
        },
    )


def counts_match_the_jobs(state: State) -> list[str]:
    """The counts by state, and by account, user and QoS, and the index of prefetched jobs match the jobs."""
    submitted: Counter[tuple[str, str, str]] = Counter()
    for job in state.jobs.values():
        if not job.is_finished:
            key = (job.request.account, job.user, job.request.qos)
            submitted[key] += max(1, count_tasks(job.pending_tasks))
    use = UserUse()
    for job in state.jobs.values():
        use.add(job)
    in_state = Counter(job.state for job in state.jobs.values())
    prefetched = [
        (job.prefetched_after, job.id) for job in state.jobs.values() if job.prefetched_after is not None
    ]
    return _failed(
        "the state",
        {
            "count the submitted jobs": state.submitted == dict(submitted),
            "count the jobs of each user": state.user_use.jobs == use.jobs,
            "count the jobs in each state": {each: n for each, n in state.index.in_state.items() if n}
            == in_state,
            "index the prefetched jobs": len(prefetched) == len(state.index.successor)
            and dict(prefetched) == state.index.successor,
        },
    )


OF_JOB = (
    job_matches_its_state,
    job_is_indexed_on_its_nodes,
    prefetched_job_holds_nothing,
    array_tasks_are_unique,
    components_start_together,
)
OF_NODE = (gpus_are_allocated_once, exclusive_users_are_alone)
OF_STATE = (cpus_and_memory_fit, array_tasks_are_complete, caches_match_the_tables, counts_match_the_jobs)


def sample_violations(state: State, jobs: Iterable[JobId], nodes: Iterable[NodeName]) -> list[str]:
    """Return the violations of these jobs and nodes. Jobs and nodes that are no longer in the state are
    skipped.
    """
    found = [
        each
        for job in (state.jobs[job_id] for job_id in jobs if job_id in state.jobs)
        for invariant in OF_JOB
        for each in invariant(state, job)
    ]
    names = [name for name in nodes if name in state.nodes]
    return found + [each for name in names for invariant in OF_NODE for each in invariant(state, name)]


def violations(state: State) -> list[str]:
    """Return the violations of all invariants in the whole state."""
    found = sample_violations(state, state.jobs, state.nodes)
    return found + [each for invariant in OF_STATE for each in invariant(state)]


def _failed(subject: str, claims: dict[str, bool]) -> list[str]:
    """Return a sentence for each claim about the subject that is false."""
    return [f"{subject} must {claim}" for claim, holds in claims.items() if not holds]


def _tasks(members: Iterable[Job]) -> list[int]:
    return [
        task
        for job in members
        for task in ((job.array_task_id,) if job.array_task_id is not None else iter_tasks(job.pending_tasks))
    ]
