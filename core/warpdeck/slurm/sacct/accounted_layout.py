"""`sacct --json` in newer layouts than that of Slurm 22.05. Pure functions."""

from __future__ import annotations

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.slurm.data_parser.layout import Keys, Layout
from warpdeck.slurm.data_parser.numbers import number_object
from warpdeck.slurm.fields.field import Field, Row, shaped
from warpdeck.slurm.fields.step_fields import step_name, step_row

from .accounted_columns import JOB_FIELDS, STEP_FIELDS, AccountedWindow
from .sacct_json import BOTH, JOB_ONLY, STEP_ONLY

TIMES = """
time.elapsed=elapsed time.suspended=suspended time.system=system time.total=total time.user=user_s
"""
JOB_MAIN = f"""
account|some comment.administrator=admin_comment|some comment.job=comment|some comment.system=system_comment|some
allocation_nodes=nodes array.job_id=array array.limits.max.running.tasks=array_limit array.task_id=task|number
array.task=folded_tasks|some association.account=account|some association.cluster=={CLUSTER_NAME}
association.partition== association.user=user association.id:=0 block== cluster=={CLUSTER_NAME}
constraints=features|some container|some derived_exit_code=derived_exit|exit {TIMES} time.eligible=eligible|unix
time.end=ended|unix time.planned=waited time.start=started|unix time.submission=submit|unix
time.limit=limit_s|minutes exit_code|exit extra== failed_node== flags:=[] group het.job_id=het_id
het.job_offset=het_offset|number job_id=id name licenses|some mcs.label== nodes=nodes_told partition|some hold
priority=priority_told|number qos|some required.CPUs=cpus required.memory_per_cpu=mem_per_cpu|number
required.memory_per_node=mem_per_node|number kill_request_user|some reservation.id:=0
reservation.name=reservation|some script== stdin_expanded==/dev/null stdout_expanded=stdout|some
stderr_expanded=stderr|some stdout|some stderr|some stdin==/dev/null state.current=states state.reason=reason steps
submit_line|some tres.allocated=allocated tres.requested=requested used_gres== user wckey.wckey== wckey.flags:=[]
working_directory=work_dir|some
"""
STEP_MAIN = f"""
{TIMES} time.end=ended|at time.start=started|at exit_code|exit nodes.count=nodes nodes.range=node_list|some nodes.list
tasks.count=tasks CPU.requested_frequency.min=zero CPU.requested_frequency.max=zero CPU.governor==0
kill_request_user== state=states statistics.CPU.actual_frequency:=0 statistics.energy.consumed=joules|number
step.id=label step.name=name task.distribution=layout tres.requested=no_use tres.consumed=no_use
tres.allocated=allocated
"""
STEP_FILES = """
step.stderr== step.stdin== step.stdout== step.stderr_expanded== step.stdin_expanded== step.stdout_expanded==
time.limit=infinite
"""


_STEP = Layout(
    Keys(41, 45, STEP_MAIN),
    Keys(41, 44, "pid=="),
    Keys(43, 45, STEP_FILES),
    Keys(45, 45, "submit_line=="),
    fields={
        **STEP_FIELDS,
        **BOTH,
        **STEP_ONLY,
        "label": Field("", lambda row: f"{row['job_id']}.{step_name(row)}"),
        "states": Field("", lambda row: [STEP_FIELDS["recorded_state"].value(row)]),
    },
)
_JOB = Layout(
    Keys(41, 45, JOB_MAIN),
    Keys(42, 45, "qosreq=qos|some restart_cnt=restarts|0"),
    Keys(43, 45, "reservation.requested=reservation|some segment_size:=0"),
    Keys(45, 45, "sluid== exclusive oversubscribe=shares original_sluid=="),
    fields={
        **JOB_FIELDS,
        **BOTH,
        **JOB_ONLY,
        "het_id": shaped(JOB_FIELDS["het_job_id"], lambda job: job or 0),
        "hold": shaped(JOB_FIELDS["priority"], lambda priority: priority == 0),
        "states": shaped(JOB_ONLY["current"], lambda state: [state]),
        "steps": Field("", lambda row: row["shown_steps"]),
        "waited": shaped(JOB_FIELDS["waited_s"], lambda seconds: number_object(int(seconds))),
    },
)
NEEDS = list(dict.fromkeys([*_JOB.needs, *_STEP.needs]))
"""Columns of a job's row that the objects read."""


def job_objects(jobs: list[Row], window: AccountedWindow, version: int) -> list[Row]:
    """Return the jobs as objects. As in Slurm, --truncate does not change them."""
    whole = AccountedWindow(window.now)
    found = []
    for job in jobs:
        steps = [
            _STEP.object({**step_row(step, job), "window": whole}, version) for step in job.get("steps", ())
        ]
        found.append(_JOB.object({**job, "window": whole, "shown_steps": steps}, version))
    return found
