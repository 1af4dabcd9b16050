"""`sacctmgr modify job` beside a real slurmdbd: the same output, and the same records in sacct afterwards.

Each case begins with records without comments. User root owns the jobs 1 to 3 and 5, and nobody owns job 4.
Job 5 runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.pair import Pair, side_by_side
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.slurm_parity.peer.warpdeck_cluster import SITE, WarpdeckCluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
JOBS = (("root", "exit 3", 3), ("root", "true", 0), ("root", "true", 0), ("nobody", "true", 0))
"""User, script and exit code of each job."""
SHOW_RECORDS = (
    "sacct",
    "-a",
    "-X",
    "-n",
    "-P",
    "-S",
    "now-1day",
    "-o",
    "jobidraw,state,derivedexitcode,comment,admincomment,systemcomment",
)
CLEAR_RECORDS = "sacctmgr -i modify job set comment= admincomment= systemcomment= derivedexitcode=0"
JOB = "where jobid=1"
ROOT_CHANGES = (
    *(f"{JOB} set derivedexitcode={value}" for value in (
        "5", "0", "300", "256", "-1", "3:0", "2:", "7x", "127", "129", "x", "", "4 derivedexitcode=x comment=t")),
    *(f"{JOB} set {argv}" for argv in (
        "comment=c", "comment=two~words", "admincomment=a", "systemcomment=s~s comment=c admincomment=a", "comment+=more",
        "comment='it's~\"q\"'", "comment=it's~\"q\"", "comment=", "Comment", "derivedes=4",
        "derivedexitc=8 commen=v system=u", "commen=v", "newcomment=n",
        "wckey=k", "exitcode=8", "admincommen=q", "systemcommen=q", "jobid=3", "COMMENT=x where user=root", "")),
    *(f"where {argv} set comment=z" for argv in (
        "jobid=1,2", "jobid=2.batch", "job=1", "j=1", "jobs=1", "user=root", "u=root", "users=nobody", "user=nosuch", "account=lab",
        "a=none", "cluster=warpdeck", "c=warpdeck", "cluster=zz", "clusters=warpdeck",
        "start=now-1hour", "start=2020-01-01 end=2020-02-01",
        "start=x", "end=x", "end=now", "jobid=99", "jobid=x", "jobid=", "jobid=2_[1-2]", "name=x", "state=failed", "partition=gpu",
        "nodes=n1", "format=jobid", "id=1", "user=root jobid=4", "user=root jobid=1", "jobid=5", "account=lab user=nobody")),
    "set comment=all", "set", "1 set comment=x", "1", "", "1 set foo=x", "1 set derivedexitcode=x", "jobid=1 comment=both",
    "jobid=1 set comment=one",
)  # fmt: skip
NOBODY_CHANGES = (
    "where jobid=4 set comment=mine", "where jobid=4 set derivedexitcode=4", "where jobid=4 set admincomment=mine",
    "where jobid=4 set systemcomment=mine", "where jobid=4 set comment=c admincomment=a", "where jobid=1 set comment=mine",
    "where jobid=1,4 set comment=mine", "set comment=all", "where user=nobody set comment=own", "where jobid=99 set comment=x",
)  # fmt: skip


class RecordPair(Pair):
    """Both schedulers with the same ended jobs."""

    def assert_same_records(self, line: str, *, user: str = "root") -> None:
        """Assert that a line prints the same in both and leaves the same records. A ~ stands for a blank in a
        word.
        """
        argv = [word.replace("~", " ") for word in line.split()]
        for cluster in (self.slurm, self.warpdeck):
            assert cluster.run(CLEAR_RECORDS.split()).rc == 0
        self.assert_same(*argv, user=user)
        self.assert_same(*SHOW_RECORDS)


def _run_to_end(both: RecordPair, job: int, user: str, script: str, code: int) -> None:
    """Run a job to its end in both."""
    argv = ["sbatch", "-D", "/tmp", "-o", "/dev/null", "-A", "lab", "--no-requeue", "--wrap", script]
    for cluster in (both.slurm, both.warpdeck):
        result = cluster.run(argv, user=user)
        assert result.rc == 0, result
    both.warpdeck.wait_until_running(job)
    both.warpdeck.report_job_end(job, exit_code=code)
    state_argv = ["sacct", "-a", "-X", "-n", "-P", "-j", str(job), "-o", "state"]
    eventually(
        lambda: both.slurm.run(state_argv).out.strip() in ("COMPLETED", "FAILED"),
        what=f"job {job} ended in Slurm",
    )


@pytest.fixture(scope="module")
def pair() -> Iterator[RecordPair]:
    account_lines = ["add account lab", "add user root,nobody account=lab"]
    warpdeck = f"{SITE}\n[accounts.lab.users.root]\n[accounts.lab.users.nobody]\n"
    with side_by_side(RecordPair, warpdeck_site=warpdeck, accounting=True, accounts=account_lines) as both:
        for job, (user, script, code) in enumerate(JOBS, 1):
            _run_to_end(both, job, user, script, code)
        both.slurm.ok("sbatch", "-o", "/dev/null", "-A", "lab", "--comment", "queued", "--wrap", "sleep 1000")
        both.warpdeck.submit("-A", "lab", "--comment", "queued", script="sleep 1000")
        both.warpdeck.wait_until_running(5)
        state = ["sacct", "-X", "-n", "-P", "-j", "5", "-o", "state"]
        eventually(lambda: both.slurm.ok(*state) == "RUNNING\n", what="job 5 runs in Slurm")
        yield both


@pytest.mark.parametrize("argv", ROOT_CHANGES)
def test_root_modifies_records_as_in_slurm(pair: RecordPair, argv: str) -> None:
    pair.assert_same_records(f"sacctmgr -i modify job {argv}")


@pytest.mark.parametrize("argv", NOBODY_CHANGES)
def test_an_ordinary_user_may_modify_the_same_fields_as_in_slurm(pair: RecordPair, argv: str) -> None:
    pair.assert_same_records(f"sacctmgr -i modify job {argv}", user="nobody")


@pytest.mark.parametrize("answer", ["y\n", "n\n"])
def test_a_modification_without_option_i_asks_for_confirmation(pair: RecordPair, answer: str) -> None:
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(CLEAR_RECORDS.split()).rc == 0
    pair.assert_same("sacctmgr", "modify", "job", "where", "jobid=1", "set", "comment=asked", data=answer)
    pair.assert_same(*SHOW_RECORDS)


@pytest.mark.parametrize(
    "argv",
    [
        "add job jobid=1",
        "delete job jobid=1",
        "-r modify job where jobid=1 set comment=x",
        "-i modify jobs where jobid=1 set comment=x",
        "-i modify jo where jobid=1 set comment=x",
    ],
)
def test_other_verbs_on_job_records_are_refused(pair: RecordPair, argv: str) -> None:
    pair.assert_same_records(f"sacctmgr {argv}")


def test_a_change_of_the_record_leaves_the_comment_in_squeue(pair: RecordPair) -> None:
    pair.assert_same(*["sacctmgr", "-i", "modify", "job", "where", "jobid=5", "set", "comment=recorded"])
    assert pair.assert_same(*["squeue", "-h", "-j", "5", "-o", "%k"]) == "queued\n"
    pair.assert_same(*SHOW_RECORDS)


def test_the_json_of_a_record_contains_the_changes(pair: RecordPair) -> None:
    line = (
        "sacctmgr -i modify job where jobid=1 set comment=c admincomment=a systemcomment=s derivedexitcode=5"
    )
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(line.split()).rc == 0
    slurm, warpdeck = (_annotations(cluster) for cluster in (pair.slurm, pair.warpdeck))
    assert warpdeck == slurm
    assert warpdeck[0] == {"administrator": "a", "job": "c", "system": "s"}


def _annotations(cluster: RealSlurm | WarpdeckCluster) -> list[object]:
    [job] = json.loads(cluster.run(["sacct", "--json", "-j", "1"]).out)["jobs"]
    return [job["comment"], job["derived_exit_code"]]


def test_each_start_of_a_requeued_job_has_its_own_record(pair: RecordPair) -> None:
    """Comments on the first start of a requeued job do not appear on the second."""
    argv = [
        "sbatch",
        "--parsable",
        "-D",
        "/tmp",
        "-o",
        "/dev/null",
        "-A",
        "lab",
        "--requeue",
        "--wrap",
        "sleep 1000",
    ]
    records = []
    for cluster in (pair.slurm, pair.warpdeck):
        job = cluster.run(argv).out.strip()
        state = [
            "sacct",
            "-X",
            "-n",
            "-P",
            "-D",
            "-j",
            job,
            "-o",
            "state,comment,admincomment,derivedexitcode",
        ]
        if cluster is pair.warpdeck:
            pair.warpdeck.wait_until_running(int(job))
        eventually(
            lambda cluster=cluster, state=state: cluster.run(state).out.startswith("RUNNING|"),
            what="the record shows that it runs",
        )
        line = f"sacctmgr -i modify job where jobid={job} set comment=first admincomment=a derivedexitcode=3"
        assert cluster.run(line.split()).rc == 0
        assert cluster.run(["scontrol", "requeue", job]).rc == 0
        if cluster is pair.warpdeck:
            pair.warpdeck.report_job_end(int(job), signal=15)
        eventually(
            lambda cluster=cluster, state=state: cluster.run(state).out.count("\n") == 2,
            what="it has a second record",
        )
        records.append([line.partition("|")[2] for line in cluster.run(state).out.splitlines()])
        cluster.run(["scancel", job])
    assert records[1] == records[0] == ["first|a|0:0", "||0:0"]


def test_a_record_in_the_store_alone_can_be_modified(pair: RecordPair) -> None:
    """The controller no longer holds the job in memory; only the store has it."""
    assert (
        pair.warpdeck.run(["sacctmgr", "-i", "modify", "job", "where", "jobid=2", "set", "comment=before"]).rc
        == 0
    )

    async def forget(site: object) -> None:
        state = site.controller.state  # type: ignore[attr-defined]
        state.evict_job(2)

    pair.warpdeck.run_in_loop(forget)
    result = pair.warpdeck.run(
        ["sacctmgr", "-i", "modify", "job", "where", "jobid=2", "set", "admincomment=after"]
    )
    assert result.rc == 0 and re.match(r" Modified jobs\.\.\.\n  2 submitted at ", result.out)
    pair.warpdeck.run_in_loop(forget)
    shown = pair.warpdeck.run(["sacct", "-X", "-n", "-P", "-j", "2", "-o", "comment,admincomment"])
    assert shown.out == "before|after\n"
