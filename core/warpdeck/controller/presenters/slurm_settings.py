"""The configuration in force as slurm.conf settings, as `scontrol show config` prints them for tools.

It contains only settings that mean the same in Slurm. Settings that only Slurm has (plug-ins, ports, spool
folders) are left out. All functions are pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.config import Config
from warpdeck.controller.reducers.submitting import MAX_OPEN_JOBS
from warpdeck.notation.values.arrays import MAX_TASKS

if TYPE_CHECKING:
    from warpdeck.controller.state.state import State

HISTORY_IS_KEPT = "accounting_storage/slurmdbd"
"""Value of AccountingStorageType. Tools that do not find it use neither sacct nor sacctmgr."""


def settings(state: State, config: Config) -> dict[str, str]:
    """Return the settings by name. The value "" is shown as (null)."""
    plan, weights, held = config.scheduler, config.scheduler.weights, config.containment
    return {
        "SlurmctldParameters": "enable_expedited_requeue" if plan.expedited_requeue else "",
        "AccountingStorageEnforce": "associations,limits,qos"
        if plan.enforce_limits and config.accounts
        else "none",
        "AccountingStorageTRES": "cpu,mem,energy,node,billing,fs/disk,vmem,pages,gres/gpu",
        "AccountingStorageType": HISTORY_IS_KEPT,
        "ClusterName": CLUSTER_NAME,
        "DefMemPerCPU": str(plan.default_mem_per_cpu >> 20) if plan.default_mem_per_cpu else "UNLIMITED",
        "DependencyParameters": "kill_invalid_depend" if plan.kill_invalid_dependency else "",
        "Epilog": config.hooks.epilog,
        "FirstJobId": "1",
        "GresTypes": "gpu,shard" if config.gpus.shards_per_gpu else "gpu",
        "HealthCheckInterval": f"{config.health.interval_s:.0f} sec",
        "HealthCheckProgram": config.health.program,
        "JobRequeue": "1",
        "KillWait": f"{config.grace_s:.0f} sec",
        "Licenses": ",".join(f"{name}:{count}" for name, count in sorted(config.licenses.items())),
        "MaxArraySize": str(MAX_TASKS + 1),
        "MaxJobCount": str(MAX_OPEN_JOBS),
        "JobContainerType": "job_container/tmpfs" if held.private_dirs else "(null)",
        "MpiDefault": "none",
        "MinJobAge": f"{config.keep_finished_s:.0f} sec",
        "NEXT_JOB_ID": str(state.next_job_id),
        "PreemptMode": "OFF" if plan.preempt_by == "off" else plan.preempt_mode.upper(),
        "PreemptType": {"off": "preempt/none", "qos": "preempt/qos"}.get(
            plan.preempt_by, "preempt/partition_prio"
        ),
        "PriorityDecayHalfLife": _clock(config.fairshare.half_life),
        "PriorityFavorSmall": "Yes" if plan.favor_small else "No",
        "PriorityMaxAge": _clock(plan.max_age),
        "PriorityType": "priority/multifactor",
        "PriorityWeightAge": str(weights.age),
        "PriorityWeightFairShare": str(weights.fairshare),
        "PriorityWeightJobSize": str(weights.job_size),
        "PriorityWeightPartition": str(weights.partition),
        "PriorityWeightQOS": str(weights.qos),
        "PrivateData": ",".join(config.access.private_data) or "none",
        "Prolog": config.hooks.prolog,
        "PrologEpilogTimeout": f"{config.hooks.timeout_s:.0f}",
        # This value is shown for every containment method, because no process can escape any of them.
        "ProctrackType": "proctrack/cgroup",
        "SchedulerType": "sched/builtin" if plan.backfill == "none" else "sched/backfill",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_MEMORY" if held.memory else "CR_CPU",
        "TaskEpilog": config.hooks.task_epilog,
        "TaskProlog": config.hooks.task_prolog,
        "TmpFS": held.tmp_dir or "/tmp",
        "TrackWCKey": "No",
        "UnkillableStepTimeout": f"{held.unkillable_s:.0f} sec",
    }


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "NONE"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hour:02d}:{minute:02d}:{second:02d}"
