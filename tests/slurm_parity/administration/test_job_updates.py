"""`scontrol update JobId=` beside a real Slurm: every key of the man page, at a waiting and at a running job, each a fresh one.

Both do the same, or both refuse it and end alike; the first line of what is said is Slurm's. What is ours alone, and why, stands
in OTHERWISE.
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
UNREAD = (
    "extra=a", "mailt=x", "mailtype=foo", "min=3", "mincpusnode=x", "minmemorycpu=x", "network=x", "num=2",
    "numtasks=x", "oversubscribe=x", "priority=-1", "priority=infinite", "priority=x", "req=1", "requeue=x",
    "shared=x", "stderr=/tmp/x", "stdin=/tmp/x", "timelimit=x", "timemin=x", "deadline=x", "starttime=x",
    "eligibletime=x", "starttime=", "power=x", "state=x", "userid=nosuchuser", "wckeys=k", "tasks=x",
)  # fmt: skip
"""Values and keys that scontrol does not understand: it looks at no job."""
EITHER = (
    "admincomment=seen", "nice=x", "nice=7x", "name new nice", "name new nice 5", "nice=5 badword", "badword",
    "arraytaskthrottle=2", "comment=some text", "jobname=new", "mailtype=END,FAIL", "mailuser=me@lab", "name=new",
    "nice", "nice=-5", "nice=5", "nice=5 comment=a", "requeue=0", "requeue=1", "timelimit+=10", "timelimit-=10",
    "timelimit-=1000", "timelimit=+10", "timelimit=-1", "timelimit=-10", "timelimit=1-0", "timelimit=30",
    "timel=90", "userid=nobody", "jobid=99",
)  # fmt: skip
"""Keys that mean the same at both moments."""
AT_WAITING = (
    "account=", "deadline=now+2hours", "dependency=bogus", "eligibletime=now+1hour", "endtime=now+1hour",
    "excnodelist=n1", "excnodelist=zz", "features=x", "features=", "gres=gpu:1", "gres=foo:1", "licenses=a:1",
    "minmemorycpu=100", "minmemorynode=4096", "nodelist=n1", "nodelist=", "numnodes=1-2", "oversubscribe=no",
    "partition=gpu,debug", "partition=zz", "priority=0", "qos=normal", "reqnodelist=n3", "reqnodelist=zz",
    "reservationname=zz", "starttime=now+1hour", "stdout=/tmp/x.out", "stdout=rel-%j.out", "timemin=10",
    "timemin=0", "timemin=10 timemin=0",
    "timemin=100", "tresperjob=gres:gpu:1", "trespernode=gres:gpu:1", "trespertask=gres:gpu:1", "workdir=/tmp",
)  # fmt: skip
AT_RUNNING = (
    "account=x", "dependency=afterok:1", "excnodelist=n1", "features=x", "gres=gpu:1", "mincpusnode=2",
    "numnodes=1-2", "numtasks=4", "oversubscribe=yes", "partition=debug", "priority=5",
    "shared=yes", "starttime=now+1hour", "eligibletime=now+1hour", "stdout=/tmp/x.out", "tasks=2",
    "timelimit=9-0", "timelimit=UNLIMITED", "tresperjob=gres:gpu:1", "workdir=/tmp", "deadline=now+2hours", "timemin=10",
    "timemin=100", "switches=1@4:00", "contiguous=yes",
)  # fmt: skip
OTHERWISE = {
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
"""What Slurm takes of a waiting job and we refuse: it would wait for ever, or asks for what a job here does not have."""
APART = ("JobId", "SubmitTime", "EligibleTime", "AccrueTime", "StartTime", "EndTime", "RunTime", "LastSchedEval",
         "Priority", "NodeList", "BatchHost", "Reason", "Command", "StdOut", "StdErr", "AllocNode:Sid", "QOS")  # fmt: skip
"""Fields that are of the moment or of the machine."""
OF_RUNNING = (
    "JobName=",
    "Switches=",
    "Nice=",
    "Requeue=",
    "TimeLimit=",
    "Comment=",
    "MailUser=",
    "MailType=",
)
DROPPED = re.compile(rf"(?<!\S)({'|'.join(APART)})=\S*")


class JobPair(Pair):
    """Both, each with a job of the same kind for every case."""

    masks = JOB_FACTS

    def submit(self, options: tuple[str, ...]) -> tuple[str, str]:
        theirs = self.slurm.ok("sbatch", "--parsable", *options, "--wrap", "sleep 1000").strip()
        return theirs, str(self.warpdeck.submit(*options))

    def update(self, jobs: tuple[str, str], case: str) -> tuple[list[str], list[str]]:
        """What they say and have then, and what we."""
        argv = [case] if case.startswith("comment") else case.split(" ")
        made = []
        clusters: tuple[RealSlurm | WarpdeckCluster, ...] = (self.slurm, self.warpdeck)
        for cluster, job in zip(clusters, jobs, strict=True):
            done = cluster.run(["scontrol", "update", f"jobid={job}", *argv])
            shown = cluster.run(["scontrol", "-o", "show", "job", job]).out
            made.append([*_said(done, job), *DROPPED.sub("", self.mask(shown)).split()])
            cluster.run(["scancel", job])
        return made[0], made[1]


def _asked(told: list[str]) -> list[str]:
    """What is said, and what an update may change of a running job: where it runs and how is each cluster's own."""
    return told[:3] + [word for word in told[3:] if word.startswith(OF_RUNNING)]


def _said(done: CommandResult, job: str) -> list[str]:
    """The exit code and what is said of it: beyond the first line we may say more than Slurm does."""
    return [str(done.rc), done.out, done.err.replace(f"for job {job}", "for job J").partition("\n")[0]]


@pytest.fixture(scope="module")
def pair() -> Iterator[JobPair]:
    with side_by_side(JobPair) as both:
        yield both


@pytest.mark.parametrize("case", [*UNREAD, *EITHER, *AT_WAITING])
def test_a_waiting_job_is_changed_alike(pair: JobPair, case: str) -> None:
    theirs, ours = pair.update(pair.submit(WAITING), case)
    assert ours == theirs


@pytest.mark.parametrize("case", [*EITHER, *AT_RUNNING])
def test_a_running_job_is_changed_alike(pair: JobPair, case: str) -> None:
    jobs = pair.submit(RUNNING)
    runs = ("squeue", "-h", "-j", jobs[0], "-o", "%t")
    eventually(lambda: pair.slurm.ok(*runs) == "R\n", what="theirs runs")
    pair.warpdeck.wait_until_running(int(jobs[1]))
    theirs, ours = pair.update(jobs, case)
    pair.warpdeck.report_job_end(int(jobs[1]), exit_code=0)
    assert _asked(ours) == _asked(theirs)


@pytest.mark.parametrize("case", OTHERWISE)
def test_what_a_job_cannot_be_is_refused_by_its_name(pair: JobPair, case: str) -> None:
    job = str(pair.warpdeck.submit(*WAITING))
    done = pair.warpdeck.run(["scontrol", "update", f"jobid={job}", case])
    pair.warpdeck.run(["scancel", job])
    assert done.rc == 1 and done.err.partition("\n")[0].removesuffix(f" for job {job}") == OTHERWISE[case]


def test_a_name_means_the_jobs_of_the_user_who_is_named(pair: JobPair) -> None:
    pair.submit(("-H", "-J", "mine"))
    for user in ("root", "0", "nobody", "nosuchuser"):
        theirs, ours = (
            cluster.run(["scontrol", "update", "jobname=mine", f"userid={user}", f"comment={user}"])
            for cluster in (pair.slurm, pair.warpdeck)
        )
        assert ours == theirs


def test_a_release_gives_a_job_the_computed_priority_again(pair: JobPair) -> None:
    """The way back from one that was set, held (as the man page has it) or not."""
    jobs = pair.submit(("--begin=now+1hour", "-J", "late"))
    seen: list[list[bool]] = []
    for cluster, job in zip((pair.slurm, pair.warpdeck), jobs, strict=True):
        is_seven = []
        seven = ["update", f"jobid={job}", "priority=7"]
        for argv in (seven, ["hold", str(job)], ["release", str(job)], seven, ["release", str(job)]):
            assert cluster.run(["scontrol", *argv]).rc == 0
            is_seven.append("Priority=7 " in cluster.run(["scontrol", "show", "job", str(job)]).out)
        cluster.run(["scancel", str(job)])
        seen.append(is_seven)
    assert seen == [[True, False, False, True, False]] * 2
