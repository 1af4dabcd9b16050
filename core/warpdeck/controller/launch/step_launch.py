"""Build the StepLaunch message that starts a committed step on one node. Pure functions.

The message contains the environment of the tasks, the folder and the command lines. The variables are those
of srun(1) and the variables that launchers of distributed training read (see training_environment.py). If the
user has set both MASTER_ADDR and MASTER_PORT, their values are kept.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence

from warpdeck.config.node_tables import Hooks
from warpdeck.controller.events.step_events import StepRequested, World
from warpdeck.model import Job, Node, NodeName, Share
from warpdeck.model.step import Step, StepOptions, StepShare
from warpdeck.notation.step.multiprog import program_of
from warpdeck.notation.step.step_variables import PREFIXES
from warpdeck.notation.values.hostlist import collapse
from warpdeck_agent.wire import steps as wire

from .environment import component_variables, made_environment, run_lengths
from .launching import build_container
from .mpi import PMI_VARIABLES, pmi_of
from .node_aliases import address_variables, addresses
from .training_environment import master_address, master_variables, task_variables


def build_step_launch(
    job: Job,
    step: Step,
    node: NodeName,
    *,
    event: StepRequested,
    nodes: Mapping[NodeName, Node],
    submit_host: str,
    hooks: Hooks,
    components: Sequence[Job] = (),
) -> wire.StepLaunch:
    """Return the launch of the step's share on that node.

    `components` are all components of a heterogeneous job, by offset. The script of the first one runs srun.
    """
    assert job.allocation is not None
    leader = components[0] if components else None
    options = event.options
    at = step.node_names().index(node)
    share, rank_in_job = step.shares[at], job.allocation.node_names().index(node)
    env = made_environment(job, rank_in_job, submit_host=submit_host)
    env = _environment(job, step, at, env, event=event, nodes=nodes, components=components)
    return wire.StepLaunch(
        job_id=job.id,
        restarts=job.restarts,
        step=step.number,
        env=env,
        cwd=node_folder(job, node, cwd=options.chdir or event.cwd, caller=event.caller, leader=leader),
        argv=list(options.argv),
        tasks=[_task(options, share, local, rank) for local, rank in enumerate(share.ranks)],
        cpu_bind=options.cpu_bind,
        bind_verbose=options.bind_verbose,
        cpus=0 if step.whole else share.cpus,
        time_limit_s=float(options.time_limit_s or 0),
        mem_bytes=_own_memory(share, job.allocation.shares[rank_in_job]),
        limits=dict(options.limits),
        pmi=pmi_of(step) if event.mpi == "pmi2" else None,
        container=build_container(options.container),
        prologs=[program for program in (hooks.task_prolog, options.task_prolog) if program],
        epilogs=[program for program in (options.task_epilog, hooks.task_epilog) if program],
    )


def _environment(
    job: Job,
    step: Step,
    at: int,
    job_env: Mapping[str, str],
    *,
    event: StepRequested,
    nodes: Mapping[NodeName, Node],
    components: Sequence[Job],
) -> dict[str, str]:
    """Return the environment of the tasks on the step's node with index `at`.

    `job_env` is the environment that the job has on that node.
    """
    assert job.allocation is not None
    options, world, names = event.options, event.world or _world_of(step), job.allocation.node_names()
    return {
        **{name: value for name, value in options.env.items() if name not in PMI_VARIABLES},
        **job_env,
        **{name: value for name, value in options.env.items() if name.startswith(PREFIXES)},
        **_layout(step, at, world),
        **address_variables((*names, *world.nodes), nodes),
        "SLURM_DISTRIBUTION": options.env.get("SLURM_DISTRIBUTION")
        or options.distribution
        or ("block" if step.task_count() > len(step.shares) else "cyclic"),
        **component_variables(components),
        **_of_leader(components[0] if components else None, event.world),
        "SLURM_LAUNCH_NODE_IPADDR": master_address(names, nodes),
        **task_variables(world.tasks, world.at + at),
        **_gpus(step.shares[at]),
        **_rendezvous(step, event, nodes),
        **_of_options(options),
    }


def _of_options(options: StepOptions) -> dict[str, str]:
    """Return the variables of the options that the user gave."""
    values = {
        "SLURM_DIST_PLANESIZE": options.plane_size if options.distribution == "plane" else None,
        "SLURM_NTASKS_PER_NODE": options.tasks_per_node,
        "SLURM_NTASKS_PER_TRES": options.tasks_per_gpu,
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _own_memory(share: StepShare, whole: Share) -> int:
    """Return the memory in bytes to which the node must limit the step.

    Returns 0 if the limit of the job is already as strict.
    """
    return share.mem_bytes if not whole.mem_bytes or share.mem_bytes < whole.mem_bytes else 0


def _task(options: StepOptions, share: StepShare, local: int, rank: int) -> wire.StepTask:
    env = {
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(local),
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
    }
    if share.task_gpus:
        own = share.task_gpus[local]
        uuids = ",".join(share.gpu_uuids[at] for at in own)
        env |= {"CUDA_VISIBLE_DEVICES": uuids, "NVIDIA_VISIBLE_DEVICES": uuids}
        env["SLURM_STEP_GPUS"] = env["GPU_DEVICE_ORDINAL"] = ",".join(str(share.gpus[at]) for at in own)
    programs = [(program.ranks, program.argv) for program in options.programs]
    return wire.StepTask(
        rank=rank,
        env=env,
        argv=program_of(rank, programs) if programs else [],
        reads=reads(options, rank),
        terminal=options.pty and rank == 0,
    )


def reads(options: StepOptions, rank: int) -> bool:
    """Return whether the task gets standard input."""
    return options.input_rank == wire.EVERY_TASK or options.input_rank == rank


def _world_of(step: Step) -> World:
    return World(nodes=step.node_names(), tasks=tuple(len(share.ranks) for share in step.shares))


def _layout(step: Step, at: int, world: World) -> dict[str, str]:
    share, nodes = step.shares[at], collapse(world.nodes)
    tasks, per_node = sum(world.tasks), run_lengths([*world.tasks])
    return {
        "SLURM_STEP_ID": str(step.number),
        "SLURM_STEPID": str(step.number),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_NUM_NODES": str(len(world.nodes)),
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        "SLURM_NODELIST": nodes,
        "SLURM_NNODES": str(len(world.nodes)),
        "SLURM_NTASKS": str(tasks),
        "SLURM_NPROCS": str(tasks),
        "SLURM_TASKS_PER_NODE": per_node,
        "SLURM_CPUS_PER_TASK": str(step.cpus_per_task),
        "SLURM_CPUS_ON_NODE": str(share.cpus),
        "SLURM_NODEID": str(world.at + at),
        "SLURM_GTIDS": ",".join(str(rank) for rank in share.ranks),
    }


def _of_leader(leader: Job | None, world: World | None) -> dict[str, str]:
    """Return the variables that make a component's tasks part of the whole job.

    The job id is the leader's id. In a step with several components, the job's nodes are the nodes of all
    components.
    """
    made: dict[str, str] = {}
    if leader is not None:
        made = {"SLURM_JOB_ID": str(leader.id), "SLURM_JOBID": str(leader.id)}
    if world is not None:
        nodes = collapse(world.nodes)
        made |= {"SLURM_JOB_NODELIST": nodes, "SLURM_JOB_NUM_NODES": str(len(world.nodes))}
    return made


def _gpus(share: StepShare) -> dict[str, str]:
    uuids = ",".join(share.gpu_uuids)
    made = {"CUDA_VISIBLE_DEVICES": uuids, "SLURM_GPUS_ON_NODE": str(len(share.gpus))}
    if share.gpus:
        indices = ",".join(str(index) for index in share.gpus)
        made |= {
            "NVIDIA_VISIBLE_DEVICES": uuids,
            "SLURM_STEP_GPUS": indices,
            "GPU_DEVICE_ORDINAL": indices,
        }
    return made


def _rendezvous(step: Step, event: StepRequested, nodes: Mapping[NodeName, Node]) -> dict[str, str]:
    """Return the variables for the address on which rank 0 listens.

    A step on one node gets its port from that node.
    """
    names = step.node_names() if event.world is None else event.world.nodes
    if event.own_master:
        known = addresses(names, nodes)
        own = event.options.env["MASTER_ADDR"]
        return {"MASTER_ADDR": known.get(own, own)}
    return master_variables(master_address(names, nodes), event.port)


def node_folder(
    job: Job, node: NodeName, *, cwd: str, caller: NodeName | None, leader: Job | None = None
) -> str:
    """Return the caller's folder on that node.

    A folder below the job's working folder on the caller's node becomes the same folder below the working
    folder there.
    """
    there = next((share.work_dir for share in job.shares if share.node == node), "")
    here = next((share.work_dir for share in (leader or job).shares if share.node == caller), "")
    if here and there and (cwd == here or cwd.startswith(here.rstrip("/") + "/")):
        return os.path.normpath(there + cwd[len(here.rstrip("/")) :])
    return cwd
