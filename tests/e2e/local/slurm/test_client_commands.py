"""Command lines of well-known programs that are too large to install here, and the output that these programs
parse.

The command lines are those of the published programs: Nextflow, AiiDA, Cylc, JupyterHub's batchspawner,
PSI/J, Parsl, Snakemake, seml, clusterfutures, pysqa, signac-flow, adaptive-scheduler, Toil, NeMo-Run, TorchX,
RADICAL-SAGA, Open OnDemand, the Prometheus exporters, pestat, slurm_gpustat, turm, nodetop, ClusterShell,
Maestro, ipyparallel, dpdispatcher, gwf, R's batchtools, nipype, Pulsar, FireWorks, ERT, slurm-usage, Xsinfo,
slurmtop, hpcflow, Clusterscope, Balsam, stui, sciluigi, sbatchman, fsl_sub, slurm-viewer, SkyPilot. Most
programs were also run manually as a whole.
"""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home
from tests.support.waiting import eventually

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
AIIDA = "^^^".join(["%i", "%t", "%r", "%B", "%u", "%D", "%C", "%R", "%P", "%l", "%M", "%S", "%j", "%V"])
COMMAND_LINES = (
    ("nextflow", "squeue --noheader -o '%i %t' -t all -u root", r"2 PD\n1 R\n"),
    (
        "aiida",
        f"squeue --noheader -o '{AIIDA}' --jobs=1,99",
        rf"1\^\^\^R\^\^\^None\^\^\^(\S+)\^\^\^root\^\^\^1\^\^\^1\^\^\^\1\^\^\^main\^\^\^1:00:00\^\^\^\d+:\d\d\^\^\^{TIME}\^\^\^runs\^\^\^{TIME}\n",
    ),
    ("cylc", "squeue -h -j 1,2", r" +2 +main +waits +root PD .*\n +1 +main +runs +root +R .*\n"),
    ("batchspawner", "squeue -h -j 1 -o '%T %B'", r"RUNNING [\w.-]+\n"),
    ("psi/j", "squeue -O JobID,StateCompact,Reason -h -j 1", r"1 +R +None +\n"),
    ("parsl", "sacct -X --noheader --format=jobid,state --job 1", r"1 +RUNNING *\n"),
    (
        "snakemake",
        "sacct -X --parsable2 --clusters all --noheader --format=JobIdRaw,State --starttime now-2days --endtime now --name runs",
        r"1\|RUNNING\n",
    ),
    ("snakemake's profiles", "sacct -P -b -j 1 -n", r"1\|RUNNING\|0:0\n(1\.\w+\|RUNNING\|0:0\n)+"),
    (
        "snakemake's plugin",
        "scontrol show config",
        r"(?s)Configuration data as of .*\nAccountingStorageType   = accounting_storage/slurmdbd\n.*\nMinJobAge += \d+ sec\n.*",
    ),
    ("snakemake's account", "sacctmgr -n -s list user root format=account%256", r""),
    ("an exporter's CPUs", "sinfo -h -o %C", r"1/\d+/0/\d+\n"),
    ("an exporter's GPUs", "sinfo -a -h '--Format=Nodes: ,Gres: ,GresUsed:' --state=allocated,mixed", r"1 \S+ \S+\n"),
    (
        "an exporter's nodes",
        "sinfo -h -N -O NodeList,AllocMem,Memory,CPUsState,StateLong",
        r"\S+ +\d+ +\d+ +1/\d+/0/\d+ +(mixed|allocated) *\n",
    ),
    ("an exporter's queue", "squeue -a -r -h -o %A,%u,%T,%C", r"2,root,PENDING,1\n1,root,RUNNING,1\n"),
    (
        "an exporter's limits",
        "sacctmgr show assoc format=User,Account,GrpCPU,GrpMem,GrpJobs,GrpSubmit --noheader --parsable2",
        r"\|root\|\|\|\|\n",
    ),
    (
        "pestat",
        "sinfo -h -N -o '%N %P %c %m %t %O %e %E %f %G'",
        r"\S+ main\* \d+ \d+ (mix|alloc) ([\d.]+|N/A) (\d+|N/A) none \S+ \S+\n",
    ),
    ("slurm_gpustat", "scontrol show jobid -dd 1", r"JobId=1 JobName=runs\n(   .*\n)+\n"),
    ("seml", "scontrol uhold '2 2'", r""),
    ("seml's arrays", "squeue -a -t PENDING,CONFIGURING,RUNNING,SUSPENDED -h -o %i", r"2\n1\n"),
    ("clusterfutures", "squeue --noheader '--format=%i %T' --jobs=1,2", r"2 PENDING\n1 RUNNING\n"),
    ("pysqa", "squeue --format '%A|%u|%t|%.15j|%Z' --noheader", r"2\|root\|PD\| +waits\|/\S+\n1\|root\|R\| +runs\|/\S+\n"),
    ("signac-flow", "squeue -u root -h --format=%2t%100j", r"PDwaits +\nR runs +\n"),
    ("adaptive-scheduler", "sinfo -ahO partition,cpus", r"main\* +\d+ +\n"),
    ("toil", "sinfo -a -o '%P %G %l %p %c %m'", r"PARTITION GRES TIMELIMIT PRIO_TIER CPUS MEMORY\nmain\* \S+ infinite 1 \d+ \d+\n"),
    ("toil's jobs", "sacct -n -j 1 --format JobIDRaw,State,ExitCode -P -S 1970-01-02", r"1\|RUNNING\|0:0\n(1\.\w+\|RUNNING\|0:0\n)+"),
    ("nemo-run", "squeue --start --noheader -j 2 -o '%i|%S|%T'", r"2\|N/A\|PENDING\n"),
    ("torchx", "sinfo --format %P,%m --noconvert", r"PARTITION,MEMORY\nmain\*,\d+\n"),
    (
        "torchx's jobs",
        "sacct --parsable2 -j 1",
        r"JobID\|JobName\|Partition\|Account\|AllocCPUS\|State\|ExitCode\n1\|runs\|main\|.*\|1\|RUNNING\|0:0\n(.*\n)+",
    ),
    ("hpcflow", "squeue --me --noheader --format '%200i %30T' --jobs 1", r"1 +RUNNING +\n"),
    ("clusterscope", "sinfo -o %100m,%100P --noconvert --noheader", r"\d+ +,main\* +\n"),
    ("clusterscope's partitions", "scontrol show partition -o", r"PartitionName=main .* Nodes=\S+ .*\n"),
    ("balsam", "squeue -u root -h -O jobid,state,partition,numnodes,timelimit,account,timeleft,submittime", r"((\S+ +){8}\n){2}"),
    (
        "stui",
        "squeue --noheader --all --format='%A|%i|%F|%K|%C|%j|%P|%r|%u|%y|%T|%M|%b|%N'",
        r"2\|2\|2\|N/A\|1\|waits\|main\|JobHeldUser\|root\|0\|PENDING\|0:00\|N/A\|\n1\|1\|1\|N/A\|1\|runs\|main\|None\|root\|0\|RUNNING\|.*\n",
    ),
    ("sciluigi", "sacct -j 1 --noheader --format=elapsed", r"( +\d\d:\d\d:\d\d \n)+"),
    ("sbatchman", "sacct -j 1 -o State -D -n -u root", r"( +RUNNING \n)+"),
    ("fsl_sub", "sinfo -h -p main -o %f", r"\S+\n"),
    ("radical.saga", "sacct --format=JobID,State --parsable2 --noheader --jobs=1", r"1\|RUNNING\n(1\.\w+\|RUNNING\n)+"),
    (
        "open ondemand",
        "squeue --all --states=all --noconvert -o '\x1e%A\x1f%i\x1f%t\x1f%j' -M warpdeck",
        r"CLUSTER: warpdeck\n\x1eJOBID\x1fJOBID\x1fST\x1fNAME\n\x1e2\x1f2\x1fPD\x1fwaits\n\x1e1\x1f1\x1fR\x1fruns\n",
    ),
    (
        "open ondemand 4",
        "squeue --all --states=all --noconvert -O 'JobID:\x1f,ArrayTaskID:\x1f,StateCompact:\x1f,tres-per-node:\x1f,'",
        r"JOBID\x1fARRAY_TASK_ID\x1fST\x1fTRES_PER_NODE\x1f\n"
        r"2\x1fN/A\x1fPD\x1fN/A\x1f\n1\x1fN/A\x1fR\x1fN/A\x1f\n",
    ),
    ("open ondemand's nodes", "sinfo -aho %A/%D/%C", r"1/0/1/1/\d+/0/\d+\n"),
    (
        "open ondemand's gpus",
        "sinfo -ahNO nodehost:100,gres:512,gresused:512,statelong",
        r"\S+ {50,}\(null\) {500,}\S* {500,}(idle|mixed|allocated) *\n",
    ),
    ("snakemake's end", "scancel --clusters=all 99", r""),
    ("skypilot", "squeue -h --only-job-state --jobs 1 -o %T", r"RUNNING\n"),
    ("skypilot's steps", "scontrol -o show step 1", r"(StepId=1\.\w+ .* Name=\w+ .*\n)+"),
    ("skypilot's processes", "scontrol show config", r"(?s).*\nProctrackType           = proctrack/cgroup\n.*"),
    ("skypilot's containers", "srun --help", r"(?s).*\[pyxis\].*"),
    ("anybody", "scontrol show job=1 --oneliner", r"JobId=1 JobName=runs .* Command=\S+ .*\n"),
    ("turm", "squeue --array --noheader --Format 'jobid:9 ,state:9 ,gres:4 ,stdout:256 ' -j 1", r"1 +RUNNING +N/A +/dev/null +\n"),
    ("clustershell's partitions", "sinfo -h -o '%R:%N'", r"main:\S+\n"),
    ("clustershell's states", "sinfo -h -o %T:%N", r"(mixed|allocated):\S+\n"),
    ("clustershell's jobs", "squeue -h -o %i:%N -t R", r"1:\S+\n"),
    ("clustershell's users", "squeue -h -u root -o %N -t R", r"\S+\n"),
    ("clustershell's accounts", "squeue -h -o %a:%N -t R", r"\S+:\S+\n"),
    ("clustershell's reservations", "scontrol -o show reservation", r"No reservations in the system\n"),
    (
        "maestro",
        "squeue -u root -t all '--format=%.18i %.8j %.8u %.2t'",
        r" +JOBID +NAME +USER ST\n +2 +waits +root PD\n +1 +runs +root +R\n",
    ),
    (
        "maestro's ends",
        "sacct -u root --jobs=1,2 --format=jobid,jobname,state,exitcode",
        r"JobID +JobName +State +ExitCode *\n[- ]+\n1 +runs +RUNNING +0:0 *\n(1\.\w+ .*\n)+2 +waits +PENDING +0:0 *\n",
    ),
    ("ipyparallel", "squeue -h '--job' 1 -o %T", r"RUNNING\n"),
    ("dpdispatcher", "squeue -h -o '%.18i %.2t' -j 1", r" +1  R\n"),
    ("gwf", "squeue --noheader --format='%i;%t' --all", r"2;PD\n1;R\n"),
    ("batchtools", "squeue --user=root --states=R,S,CG,RS,SI,SO,ST --noheader --format=%i -r", r"1\n"),
    ("batchtools' queue", "squeue --user=root --states=PD,CF,RF,RH,RQ,SE --noheader --format=%i -r", r"2\n"),
    ("nipype", "squeue -j 1", r" +JOBID PARTITION .*\n +1 +main +runs +root +R +\d+:\d\d +1 \S+\n"),
    ("pulsar", "squeue -a -o '%A %t' -j 1", r"JOBID ST\n1 R\n"),
    ("fireworks", "squeue '-o \"%u\"' -u root -h -p main", r' "root"\n "root"\n'),
    ("ert", "scontrol show job 1", r"JobId=1 JobName=runs\n.*\n   Priority=[1-9]\d* (.*\n)+   JobState=RUNNING (.*\n)+\n"),
    ("ert's held job", "scontrol show job 2", r"JobId=2 JobName=waits\n.*\n   Priority=0 (.*\n)+   JobState=PENDING (.*\n)+\n"),
    ("slurm-usage", "squeue -ro %u/%t/%D/%P/%C/%N/%h", r"USER/ST/.*\nroot/PD/1/main/1//OK\nroot/R/1/main/1/\S+/OK\n"),
    (
        "xsinfo",
        "sinfo --Node -h -O NodeList:10,Partition:10,StateLong:10,CPUsLoad:10,CPUsState:12,Sockets:4,Cores:4,Memory:12,FreeMem:12",
        r"\S+ +main\* +(mixed|allocated) +[\d.]+ +1/\d+/0/\d+ +\d+ +\d+ +\d+ +\d+ *\n",
    ),
    ("slurmtop", "scontrol -d -o show node", r"NodeName=\S+ .* CPUAlloc=1 .* RealMemory=\d+ .*\n"),
    (
        "nodetop",
        "sacctmgr -nP show qos format=Name,MaxWall,MaxTRESPerUser,MaxTRESPerJob,MaxJobsPerUser,MaxSubmitJobsPerUser,Priority,Flags",
        r"normal\|\|\|\|\|\|0\|.*\n",
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """A site on which job 1 runs and job 2 is held."""
    with tempfile.TemporaryDirectory(prefix="wdc", dir="/tmp") as folder:
        home = Home(Path(folder) / "home", USER="root")
        home.ok("up")
        home.wait_for_idle_node()
        for options in (["-J", "runs", "-t", "60"], ["-J", "waits", "-H"]):
            result = home.slurm("sbatch", *options, "-p", "main", "-o", "/dev/null", "--wrap", "sleep 1000")
            assert result.returncode == 0, result.stderr
        eventually(lambda: home.state(1) == "RUNNING", what="job 1 runs")
        sinfo_argv = ("sinfo", "-h", "-N", "-O", "CPUsLoad")
        eventually(
            lambda: home.slurm(*sinfo_argv).stdout.strip() not in ("", "N/A"),
            what="the node's load is measured",
        )
        yield home
        home.close()


@pytest.mark.root
@pytest.mark.parametrize(
    ("client", "line", "pattern"), COMMAND_LINES, ids=[client for client, _, _ in COMMAND_LINES]
)
def test_a_clients_command_line_has_the_output_that_it_parses(
    site: Home, client: str, line: str, pattern: str
) -> None:
    result = site.slurm(*shlex.split(line))
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    assert re.fullmatch(pattern, result.stdout), result.stdout


def test_json_output_for_viewers_is_valid(site: Home) -> None:
    viewer_lines = (
        "squeue --json",
        "sinfo --json",
        "scontrol show job 1 --json",
        "scontrol --json show nodes",
        "sdiag --json",
    )
    for line in (*viewer_lines, "sacct --json -j 1"):
        result = site.slurm(*line.split())
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["meta"], line
