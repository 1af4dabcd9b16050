"""`scontrol update JobId=` beside a real Slurm: every key of the man page, with a new waiting and a new
running job per case.

Both make the same change, or both refuse it with the same exit code and the same first line of output.
REFUSED_HERE holds the changes that only we refuse, and our messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.pair import JOB_FACTS, Pair, side_by_side
from tests.slurm_parity.peer.real_slurm import CommandResult, RealSlurm
from tests.slurm_parity.peer.warpdeck_cluster import WarpdeckCluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
WAITING = ("-H", "-J", "waits")
RUNNING = ("-J", "runs", "-N1", "-n2", "-t60")
NOT_UNDERSTOOD = (
    "extra=a", "mailt=x", "mailtype=foo", "min=3", "mincpusnode=x", "minmemorycpu=x", "network=x", "num=2",
    "numtasks=x", "oversubscribe=x", "priority=-1", "priority=infinite", "priority=x", "req=1", "requeue=x",
    "shared=x", "stderr=/tmp/x", "stdin=/tmp/x", "timelimit=x", "timemin=x", "deadline=x", "starttime=x",
    "eligibletime=x", "starttime=", "power=x", "state=x", "userid=nosuchuser", "wckeys=k", "tasks=x",
)  # fmt: skip
"""Values and keys that scontrol does not understand. It looks up no job for them."""
ANY_STATE_CASES = (
    "admincomment=seen", "nice=x", "nice=7x", "name new nice", "name new nice 5", "nice=5 badword", "badword",
    "arraytaskthrottle=2", "comment=some text", "jobname=new", "mailtype=END,FAIL", "mailuser=me@lab", "name=new",
    "nice", "nice=-5", "nice=5", "nice=5 comment=a", "requeue=0", "requeue=1", "timelimit+=10", "timelimit-=10",
    "timelimit-=1000", "timelimit=+10", "timelimit=-1", "timelimit=-10", "timelimit=1-0", "timelimit=30",
    "timel=90", "userid=nobody", "jobid=99",
)  # fmt: skip
"""Keys with the same effect on waiting and running jobs."""
WAITING_CASES = (
    "account=", "deadline=now+2hours", "dependency=bogus", "eligibletime=now+1hour", "endtime=now+1hour",
    "excnodelist=n1", "excnodelist=zz", "features=x", "features=", "gres=gpu:1", "gres=foo:1", "licenses=a:1",
    "minmemorycpu=100", "minmemorynode=4096", "nodelist=n1", "nodelist=", "numnodes=1-2", "oversubscribe=no",
    "partition=gpu,debug", "partition=zz", "priority=0", "qos=normal", "reqnodelist=n3", "reqnodelist=zz",
    "reservationname=zz", "starttime=now+1hour", "stdout=/tmp/x.out", "stdout=rel-%j.out", "timemin=10",
    "timemin=0", "timemin=10 timemin=0",
    "timemin=100", "tresperjob=gres:gpu:1", "trespernode=gres:gpu:1", "trespertask=gres:gpu:1", "workdir=/tmp",
)  # fmt: skip
RUNNING_CASES = (
    "account=x", "dependency=afterok:1", "excnodelist=n1", "features=x", "gres=gpu:1", "mincpusnode=2",
    "numnodes=1-2", "numtasks=4", "oversubscribe=yes", "partition=debug", "priority=5",
    "shared=yes", "starttime=now+1hour", "eligibletime=now+1hour", "stdout=/tmp/x.out", "tasks=2",
    "timelimit=9-0", "timelimit=UNLIMITED", "tresperjob=gres:gpu:1", "workdir=/tmp", "deadline=now+2hours", "timemin=10",
    "timemin=100", "switches=1@4:00", "contiguous=yes",
)  # fmt: skip
REFUSED_HERE = {
    "timelimit=UNLIMITED": "Requested time limit is invalid (missing or exceeds some limit)",
    "timelimit=0": "scontrol: error: Invalid TimeLimit value",
    "timelimit=9-0": "Requested time limit is invalid (missing or exceeds some limit)",
    "gres=gpu:9": "Requested node configuration is not available",
} | {
    f"{key}=1": f"Update of this parameter is not supported: {key}=1"
    for key in ("burstbuffer", "clusterfeatures", "corespec", "delayboot", "mintmpdisknode",
                "numcpus", "prefer", "reboot", "reqcores", "reqsockets", "reqthreads", "sitefactor", "threadspec",
                "trespersocket", "wckey")
}  # fmt: skip
"""Changes of waiting jobs that Slurm accepts and we refuse: the job could never start, or the key has no
counterpart here.
"""
VARYING_FIELDS = ("JobId", "SubmitTime", "EligibleTime", "AccrueTime", "StartTime", "EndTime", "RunTime", "LastSchedEval",
         "Priority", "NodeList", "BatchHost", "Reason", "Command", "StdOut", "StdErr", "AllocNode:Sid", "QOS")  # fmt: skip
"""Fields that depend on the time or the machine."""
UPDATABLE_WHILE_RUNNING = (
    "JobName=",
    "Switches=",
    "Nice=",
    "Requeue=",
    "TimeLimit=",
    "Comment=",
    "MailUser=",
    "MailType=",
)
VARYING_PATTERN = re.compile(rf"(?<!\S)({'|'.join(VARYING_FIELDS)})=\S*")


class JobPair(Pair):
    """Both schedulers. Each case gets its own job on both."""

    masks = JOB_FACTS

    def submit(self, options: tuple[str, ...]) -> tuple[str, str]:
        slurm = self.slurm.ok("sbatch", "--parsable", *options, "--wrap", "sleep 1000").strip()
        return slurm, str(self.warpdeck.submit(*options))

    def update(self, jobs: tuple[str, str], case: str) -> tuple[list[str], list[str]]:
        """Apply the update, cancel the jobs, and return both outputs with the fields of the jobs."""
        argv = [case] if case.startswith("comment") else case.split(" ")
        outcomes = []
        clusters: tuple[RealSlurm | WarpdeckCluster, ...] = (self.slurm, self.warpdeck)
        for cluster, job in zip(clusters, jobs, strict=True):
            result = cluster.run(["scontrol", "update", f"jobid={job}", *argv])
            shown = cluster.run(["scontrol", "-o", "show", "job", job]).out
            outcomes.append([*_message(result, job), *VARYING_PATTERN.sub("", self.mask(shown)).split()])
            cluster.run(["scancel", job])
        return outcomes[0], outcomes[1]


def _updatable_part(outcome: list[str]) -> list[str]:
    """Return the output and the fields that an update may change of a running job.

    The placement of a running job is each scheduler's own decision.
    """
    return outcome[:3] + [word for word in outcome[3:] if word.startswith(UPDATABLE_WHILE_RUNNING)]


def _message(result: CommandResult, job: str) -> list[str]:
    """Return the exit code, the output, and the first line of the error. Our error may have more lines than
    Slurm's.
    """
    return [str(result.rc), result.out, result.err.replace(f"for job {job}", "for job J").partition("\n")[0]]


@pytest.fixture(scope="module")
def pair() -> Iterator[JobPair]:
    with side_by_side(JobPair) as both:
        yield both


@pytest.mark.parametrize("case", [*NOT_UNDERSTOOD, *ANY_STATE_CASES, *WAITING_CASES])
def test_an_update_of_a_waiting_job_has_the_result_of_slurm(pair: JobPair, case: str) -> None:
    slurm, warpdeck = pair.update(pair.submit(WAITING), case)
    assert warpdeck == slurm


@pytest.mark.parametrize("case", [*ANY_STATE_CASES, *RUNNING_CASES])
def test_an_update_of_a_running_job_has_the_result_of_slurm(pair: JobPair, case: str) -> None:
    jobs = pair.submit(RUNNING)
    state_argv = ("squeue", "-h", "-j", jobs[0], "-o", "%t")
    eventually(lambda: pair.slurm.ok(*state_argv) == "R\n", what="Slurm's job runs")
    pair.warpdeck.wait_until_running(int(jobs[1]))
    slurm, warpdeck = pair.update(jobs, case)
    pair.warpdeck.report_job_end(int(jobs[1]), exit_code=0)
    assert _updatable_part(warpdeck) == _updatable_part(slurm)


@pytest.mark.parametrize("case", REFUSED_HERE)
def test_an_unsupported_key_is_refused_by_name(pair: JobPair, case: str) -> None:
    job = str(pair.warpdeck.submit(*WAITING))
    result = pair.warpdeck.run(["scontrol", "update", f"jobid={job}", case])
    pair.warpdeck.run(["scancel", job])
    assert (
        result.rc == 1 and result.err.partition("\n")[0].removesuffix(f" for job {job}") == REFUSED_HERE[case]
    )


def test_an_update_by_job_name_applies_to_jobs_of_the_given_user(pair: JobPair) -> None:
    pair.submit(("-H", "-J", "mine"))
    for user in ("root", "0", "nobody", "nosuchuser"):
        slurm, warpdeck = (
            cluster.run(["scontrol", "update", "jobname=mine", f"userid={user}", f"comment={user}"])
            for cluster in (pair.slurm, pair.warpdeck)
        )
        assert warpdeck == slurm


def test_a_release_restores_the_computed_priority(pair: JobPair) -> None:
    """A release does this after a priority was set, and also if the job was held, as the man page says."""
    jobs = pair.submit(("--begin=now+1hour", "-J", "late"))
    flags: list[list[bool]] = []
    for cluster, job in zip(pair.both, jobs, strict=True):
        is_seven = []
        seven = ["update", f"jobid={job}", "priority=7"]
        for argv in (seven, ["hold", str(job)], ["release", str(job)], seven, ["release", str(job)]):
            assert cluster.run(["scontrol", *argv]).rc == 0
            is_seven.append("Priority=7 " in cluster.run(["scontrol", "show", "job", str(job)]).out)
        cluster.run(["scancel", str(job)])
        flags.append(is_seven)
    assert flags == [[True, False, False, True, False]] * 2
