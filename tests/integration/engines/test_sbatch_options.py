"""Each option that we give to sbatch means in Slurm what the request says, in all versions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.integration.engines.slurm_rig import GRES, NODE
from tests.slurm_parity.peer.real_slurm import HOST, NO_ACCOUNTING, PORT, VERSIONS, RealSlurm

from warpdeck.engines.slurm.submitting.sbatch_options import submission_arguments
from warpdeck.engines.slurm.versions import read_version
from warpdeck.model import ArraySpec, Dependencies, Dependency, JobId, NodeMinimum, Request, Resources
from warpdeck.model.request import GpuRequest, WarnSignal

SITE = f"""
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
DefMemPerCPU=100
Licenses=matlab:4
JobCompType=jobcomp/none
{NO_ACCOUNTING}\
NodeName={NODE} NodeHostname={HOST} NodeAddr=127.0.0.1 Port={PORT + 1} Feature=fast,big TmpDisk=10000 \
CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=64000 Gres=gpu:a100:4 State=UNKNOWN
PartitionName=gpu Nodes={NODE} Default=YES MaxTime=UNLIMITED DefaultTime=1:00:00 State=UP
PartitionName=other Nodes={NODE} State=UP
"""
MIB = 2**20
FIRST = JobId(2)
"""A job that exists. The first job of 20.11 has the id 2."""
LATER = 1_900_000_000.5
"""It is 2030-03-17T17:46:41 in UTC, rounded up."""


def _with(**resources: object) -> Request:
    return Request(resources=Resources(**resources))  # type: ignore[arg-type]


def _gpus(**gpus: object) -> Request:
    return _with(gpus=GpuRequest(**gpus), tasks=2)  # type: ignore[arg-type]


def _minimum(**minimum: int) -> Request:
    return _with(node_minimum=NodeMinimum(**minimum))


CASES: dict[str, tuple[Request, dict[str, str]]] = {
    "name": (Request(name="train a 7B"), {"JobName": "train a 7B"}),
    "name-dash": (Request(name="--hold"), {"JobName": "--hold"}),
    "name-quotes": (Request(name="$(x) `y` 'z' \"w\" \\"), {"JobName": "$(x) `y` 'z' \"w\" \\"}),
    "name-empty": (Request(name=""), {"JobName": ""}),
    "nodes": (_with(nodes_min=1, nodes_max=1), {"NumNodes": "1-1"}),
    "nodes-range": (_with(nodes_min=1, nodes_max=3), {"NumNodes": "1-3"}),
    "nodes-open": (_with(nodes_open=True, tasks=3), {"NumTasks": "3"}),
    "tasks": (_with(tasks=5), {"NumTasks": "5"}),
    "tasks-per-node": (_with(tasks_per_node=2), {"NtasksPerN:B:S:C": "2:0:*:*"}),
    "tasks-per-core": (_with(tasks=2, tasks_per_core=1), {"NtasksPerN:B:S:C": "0:0:*:1"}),
    "tasks-per-gpu": (
        _with(tasks_per_gpu=2, gpus=GpuRequest(total=2)),
        {"NtasksPerTRES": "2", "TresPerJob": "gpu:2"},
    ),
    "cpus-per-task": (_with(tasks=2, cpus_per_task=3), {"CPUs/Task": "3"}),
    "cpus-per-gpu": (_with(cpus_per_gpu=3, gpus=GpuRequest(total=1)), {"CpusPerTres": "gpu:3"}),
    "mincpus": (_with(cpus_per_node_min=6), {"MinCPUsNode": "6"}),
    "threads": (_with(threads_per_core=1), {"ReqB:S:C:T": "0:0:*:1"}),
    "minimum": (
        _minimum(sockets=2, cores=3, threads=2),
        {"ReqB:S:C:T": "0:0:3:2", "Socks/Node": "2"},
    ),
    "tmp": (_minimum(tmp_disk_bytes=5 * MIB - 1), {"MinTmpDiskNode": "5M"}),
    "overcommit": (_with(tasks=64, overcommit=True), {"NumCPUs": "1", "NumTasks": "64"}),
    "mem": (_with(mem_per_node_bytes=2000 * MIB + 1), {"MinMemoryNode": "2001M"}),
    "mem-all": (_with(mem_per_node_bytes=0), {"MinMemoryNode": "0"}),
    "mem-per-cpu": (_with(mem_per_cpu_bytes=7 * MIB), {"MinMemoryCPU": "7M"}),
    "mem-per-gpu": (
        _with(mem_per_gpu_bytes=7 * MIB, gpus=GpuRequest(total=1)),
        {"MemPerTres": "gpu:7"},
    ),
    "gpus-per-node": (_gpus(per_node=2, type="a100"), {"TresPerNode": "gpu:a100:2"}),
    "gpus": (_gpus(total=3), {"TresPerJob": "gpu:3"}),
    "gpus-type": (_gpus(total=3, type="a100"), {"TresPerJob": "gpu:a100:3"}),
    "gpus-per-task": (_gpus(per_task=1), {"TresPerTask": "gpu:1"}),
    "nodelist": (_with(nodelist=(NODE,)), {"ReqNodeList": NODE}),
    "exclude": (_with(exclude=(NODE,)), {"ExcNodeList": NODE}),
    "exclusive": (_with(exclusive=True), {"OverSubscribe": "NO"}),
    "exclusive-user": (_with(share_with="user"), {"OverSubscribe|Exclusive": "USER"}),
    "exclusive-mcs": (_with(share_with="mcs"), {"OverSubscribe|Exclusive": "MCS"}),
    "oversubscribe": (_with(share_with="anybody"), {"OverSubscribe": "YES"}),
    "constraint": (_with(constraint="fast&big"), {"Features": "fast&big"}),
    "prefer": (_with(prefer="fast"), {"Prefer": "fast"}),
    "contiguous": (_with(contiguous=True), {"Contiguous": "1"}),
    "switches": (_with(max_switches=2, switches_wait_s=90), {"Switches": "2@00:01:30"}),
    "time": (Request(time_limit_s=5400), {"TimeLimit": "01:30:00"}),
    "time-seconds": (Request(time_limit_s=61), {"TimeLimit": "00:02:00"}),
    "time-days": (Request(time_limit_s=3 * 86_400), {"TimeLimit": "3-00:00:00"}),
    "unlimited": (Request(unlimited=True), {"TimeLimit": "UNLIMITED"}),
    "time-min": (Request(time_limit_s=3600, time_min_s=600), {"TimeMin": "00:10:00"}),
    "begin": (Request(begin_at_unix=LATER), {"StartTime": "2030-03-17T17:46:41"}),
    "code-due": (Request(code_due_unix=LATER), {"StartTime": "2030-03-17T17:46:41"}),
    "begin-past": (Request(begin_at_unix=5.0), {"JobState": "PENDING"}),
    "deadline": (Request(deadline_unix=LATER), {"Deadline": "2030-03-17T17:46:41"}),
    "partition": (Request(partition="other,gpu"), {"Partition": "other,gpu"}),
    "nice": (Request(nice=33), {"Nice": "33"}),
    "priority": (Request(priority=77), {"Priority": "0"}),
    "licenses": (Request(licenses=(("matlab", 2),)), {"Licenses": "matlab:2"}),
    "array": (
        Request(array=ArraySpec(ranges=((1, 5, 2), (9, 9, 1)), throttle=2)),
        {"ArrayTaskId": "1,3,5,9%2", "ArrayTaskThrottle": "2"},
    ),
    "array-one": (Request(array=ArraySpec(ranges=((7, 7, 1),))), {"ArrayTaskId": "7"}),
    "dependency": (
        Request(dependencies=Dependencies(clauses=(Dependency(kind="afterany", job_id=FIRST),))),
        {"Dependency": "afterany:2(unfulfilled)"},
    ),
    "dependency-delay": (
        Request(dependencies=Dependencies(clauses=(Dependency(kind="after", job_id=FIRST, delay_s=120),))),
        {"Dependency": "after:2+2(unfulfilled)"},
    ),
    "dependency-any": (
        Request(
            dependencies=Dependencies(
                clauses=(
                    Dependency(kind="afterok", job_id=FIRST),
                    Dependency(kind="afternotok", job_id=FIRST),
                ),
                any_of=True,
            )
        ),
        {"Dependency": "afterok:2(unfulfilled)?afternotok:2(unfulfilled)"},
    ),
    "kill-on-invalid-dep": (
        Request(kill_on_invalid_dep=True),
        {"KillOInInvalidDependent|KillOnInvalidDependent": "Yes"},
    ),
    "keep-on-invalid-dep": (
        Request(kill_on_invalid_dep=False),
        {"KillOInInvalidDependent|KillOnInvalidDependent": "No"},
    ),
    "no-requeue": (Request(requeue=False), {"Requeue": "0"}),
    "requeue": (Request(), {"Requeue": "1"}),
    "output": (Request(output="o-%x.txt", name="n"), {"StdOut": "{folder}/o-n.txt"}),
    "error": (Request(error="-e %j"), {"StdErr": "{folder}/-e {job}"}),
    "input": (Request(input="/dev/zero"), {"StdIn": "/dev/zero"}),
    "chdir": (Request(chdir="/usr"), {"WorkDir": "/usr"}),
    "comment": (Request(comment="-lr 0.1 --x=y"), {"Comment": "-lr 0.1 --x=y"}),
    "comment-long": (Request(comment="c" * 1000), {"Comment": "c" * 1000}),
    "mail": (
        Request(mail_types=("FAIL", "TIME_LIMIT_80"), mail_user="ann@example.org"),
        {"MailUser": "ann@example.org", "MailType": "FAIL,TIME_LIMIT_80"},
    ),
    "signal": (
        Request(warn=WarnSignal(number=10, before_s=90, batch_only=True)),
        {"JobState": "PENDING"},
    ),
    "distribution": (Request(step_variables={"SLURM_DISTRIBUTION": "cyclic"}), {"JobState": "PENDING"}),
    "plane": (
        Request(step_variables={"SLURM_DISTRIBUTION": "plane", "SLURM_DIST_PLANESIZE": "2"}),
        {"JobState": "PENDING"},
    ),
    "hint": (Request(step_variables={"SLURM_HINT": "nomultithread"}), {"ReqB:S:C:T": "0:0:*:1"}),
    "limits": (Request(limits={"NOFILE": 500, "CORE": -1}), {"JobState": "PENDING"}),
    "user-env": (Request(user_env=True), {"JobState": "PENDING"}),
    "use-min-nodes": (_with(use_min_nodes=True, nodes_min=1, nodes_max=2), {"NumNodes": "1-2"}),
    "open-mode": (Request(open_append=True), {"JobState": "PENDING"}),
}
"""Name of the case -> a request, and the fields that `scontrol show job` prints for it."""
SINCE = {"prefer": "22.05"}
"""Cases of options that older versions do not have."""
UNTOLD = {("20.11", "NtasksPerTRES")}
"""Fields that a version of scontrol does not print."""


@pytest.fixture(scope="module", params=VERSIONS)
def slurm(request: pytest.FixtureRequest) -> Iterator[tuple[str, RealSlurm]]:
    with RealSlurm(SITE, nodes=(NODE,), gres=GRES, version=request.param) as peer:
        (peer.folder / "run").write_text("#!/bin/sh\n")
        made = [peer.ok("sbatch", "--hold", "--parsable", str(peer.folder / "run")).strip() for _ in range(2)]
        assert str(FIRST) in made
        yield request.param, peer


@pytest.mark.slurm
@pytest.mark.parametrize("case", CASES)
def test_an_option_means_in_slurm_what_the_request_says(slurm: tuple[str, RealSlurm], case: str) -> None:
    name, peer = slurm
    if name < SINCE.get(case, ""):
        return
    version = read_version(peer.ok("sbatch", "--version"))
    request, expected = CASES[case]
    arguments = submission_arguments([request], version, str(peer.folder / "run"))
    job = peer.ok("sbatch", "--hold", "--parsable", *arguments).strip()
    shown = peer.ok("scontrol", "show", "job", job)
    for fields, text in expected.items():
        if (name, fields) in UNTOLD:
            continue
        known = [_field(shown, field) for field in fields.split("|")]
        text = text.format(folder=peer.folder, job=job) if "{" in text else text
        assert text in known, (arguments, fields, known, shown)


@pytest.mark.slurm
def test_components_of_a_heterogeneous_job_are_submitted_together(slurm: tuple[str, RealSlurm]) -> None:
    _, peer = slurm
    version = read_version(peer.ok("sbatch", "--version"))
    requests = [Request(name="first"), _with(tasks=3)]
    arguments = submission_arguments(requests, version, str(peer.folder / "run"))
    job = int(peer.ok("sbatch", "--hold", "--parsable", *arguments))
    shown = peer.ok("squeue", "--noheader", f"--jobs={job},{job + 1}", "-o", "%i %j %C").split("\n")
    assert sorted(line.split() for line in shown if line) == [
        [f"{job}+0", "first", "1"],
        [f"{job}+1", "job", "3"],
    ]


def _field(shown: str, name: str) -> str:
    """Return a field of `scontrol show job`. The end of the line or two fields further on ends a text with spaces."""
    lines = [line.strip() for line in shown.splitlines()]
    alone = next(
        (line for line in lines if line.startswith(f"{name}=") and not line.startswith("MailUser")), ""
    )
    if name in ("Comment", "StdErr", "StdOut", "StdIn", "WorkDir", "JobName"):
        return alone.removeprefix(f"{name}=").strip() if alone else _job_name(lines[0])
    found = re.search(rf"(?:^|\s){re.escape(name)}=(\S*)", shown)
    text = found[1] if found else ""
    return re.sub("^gres[:/]gpu[:=]", "gpu:", text)


def _job_name(first: str) -> str:
    return first.partition("JobName=")[2]
