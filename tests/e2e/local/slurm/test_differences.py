"""Intended differences from Slurm, as docs/explanation/differences-from-slurm.md lists them, without those
that other tests cover.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.home import Home, temporary_home
from tests.support.processes import has_ended
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """One site for all tests here."""
    with temporary_home() as new_home:
        new_home.ok("up")
        new_home.wait_for_idle_node()
        yield new_home


def submit(site: Home, *argv: str) -> str:
    result = site.slurm("sbatch", "--parsable", *argv)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def output(site: Home, job: str) -> str:
    return (site.path.parent / f"slurm-{job}.out").read_text()


def test_a_requeued_job_may_start_at_once(site: Home) -> None:
    job = submit(site, "--requeue", "--wrap", "echo $SLURM_RESTART_COUNT; sleep 60")
    eventually(lambda: site.state(job) == "RUNNING", what="the job runs")
    assert site.slurm("scontrol", "requeue", job).returncode == 0
    eventually(
        lambda: site.job(job)["restarts"] == 1 and site.state(job) == "RUNNING", what="the job runs again"
    )
    site.ok("cancel", job)


def test_partition_account_and_qos_have_no_effect_if_none_are_configured(site: Home) -> None:
    result = site.slurm("sbatch", "--wait", "-p", "nosuch", "-A", "nosuch", "-q", "nosuch", "--wrap", "true")
    assert result.returncode == 0
    for option in ("partition", "account", "qos"):
        assert f"--{option}=nosuch has no effect: this site has none configured" in result.stderr


def test_task_ranges_in_brackets_are_listed_and_shown(site: Home) -> None:
    job = submit(site, "--hold", "--array=0-5", "--wrap", "true")
    squeue = site.slurm("squeue", "-h", "-r", "-j", f"{job}_[1-3]", "-o", "%i").stdout
    assert squeue.split() == [f"{job}_1", f"{job}_2", f"{job}_3"]
    assert "ArrayTaskId=1-3" in site.slurm("scontrol", "show", "job", f"{job}_[1-3]").stdout
    site.ok("cancel", job)


def test_the_batch_step_can_be_shown_by_name(site: Home) -> None:
    job = submit(site, "--wrap", "sleep 60")
    eventually(lambda: site.state(job) == "RUNNING", what="the job runs")
    assert f"StepId={job}.batch" in site.slurm("scontrol", "show", "step", f"{job}.batch").stdout
    site.ok("cancel", job)


def test_only_existing_signals_are_accepted(site: Home) -> None:
    job = submit(site, "--hold", "--wrap", "true")
    assert "Unknown job signal: 99" in site.slurm("scancel", "-s", "99", job).stderr
    for signal in ("WINCH", "RTMIN"):
        assert "Unknown" not in site.slurm("scancel", "-s", signal, job).stderr
    site.ok("cancel", job)


def test_a_signal_without_a_receiver_is_refused_at_once(site: Home) -> None:
    job = submit(site, "--hold", "--wrap", "true")
    waiting = site.slurm("scancel", "-s", "USR1", job)
    assert waiting.returncode == 1 and "Job is pending execution" in waiting.stderr
    site.ok("cancel", job)
    running = submit(site, "--wrap", "sleep 60")
    eventually(lambda: site.state(running) == "RUNNING", what="the job runs")
    missing = site.slurm("scancel", f"{running}.7")
    assert missing.returncode and "Invalid job id specified" in missing.stderr
    site.ok("cancel", running)


def test_salloc_returns_128_plus_the_signal_that_killed_its_command(site: Home) -> None:
    result = site.slurm("salloc", "-n1", "sh", "-c", "kill -TERM $$")
    assert result.returncode == 128 + 15, result.stderr


def test_jobs_of_equal_priority_are_listed_by_id(site: Home) -> None:
    jobs = [submit(site, "--hold", "--wrap", "true") for _ in range(3)]
    assert site.slurm("squeue", "-h", "-j", ",".join(jobs), "-o", "%i").stdout.split() == jobs
    site.ok("cancel", *jobs)


def test_a_warning_signal_reaches_a_script_that_waits_for_it(site: Home) -> None:
    script = 'trap "echo warned; exit 0" USR1; while :; do sleep 0.1; done'
    job = submit(site, "--signal=USR1@60", "-t", "1", "--wrap", script)
    eventually(lambda: site.job(job)["end"], what="the job has ended")
    assert output(site, job) == "warned\n"


def test_a_warning_reaches_a_script_that_sets_its_handler_after_the_warning_was_due(site: Home) -> None:
    script = 'sleep 2; trap "echo warned; exit 0" USR1; while :; do sleep 0.1; done'
    job = submit(site, "--signal=USR1@60", "-t", "1", "--wrap", script)
    eventually(lambda: site.job(job)["end"], what="the job has ended")
    assert output(site, job) == "warned\n"


@pytest.mark.two_cpus
def test_srun_uses_its_own_tasks_per_node_and_the_cpus_per_task_of_the_job(site: Home) -> None:
    job = submit(site, "--wait", "-n2", "--ntasks-per-node=2", "--wrap", "srun --ntasks-per-node=1 echo task")
    assert output(site, job) == "task\n"
    job = submit(site, "--wait", "-n1", "-c2", "--wrap", "srun sh -c 'echo $SLURM_CPUS_PER_TASK'")
    assert output(site, job) == "2\n"


def test_a_suspended_job_is_not_resumed_while_its_cpus_are_in_use(site: Home) -> None:
    cpus = str(site.request("nodes")["nodes"][0]["cpus"])
    first = submit(site, "-n", cpus, "--wrap", "sleep 60")
    eventually(lambda: site.state(first) == "RUNNING", what="the first runs")
    assert site.slurm("scontrol", "suspend", first).returncode == 0
    second = submit(site, "-n", cpus, "--wrap", "sleep 60")
    eventually(lambda: site.state(second) == "RUNNING", what="the second runs")
    refused = site.slurm("scontrol", "resume", first)
    assert refused.returncode == 1 and "are in use" in refused.stdout + refused.stderr
    site.ok("cancel", first, second)


def test_a_priority_lowered_by_its_user_stays(site: Home) -> None:
    job = submit(site, "--begin=now+1hour", "--wrap", "true")
    assert site.slurm("scontrol", "update", f"job={job}", "priority=4").returncode == 0
    for _ in range(2):  # After the end of each job, the controller computes the priorities again.
        submit(site, "--wait", "--wrap", "true")
    assert site.slurm("squeue", "-h", "-j", job, "-o", "%Q").stdout == "4\n"
    site.ok("cancel", job)


def test_processes_left_by_a_step_end_with_the_job(site: Home) -> None:
    pid, finished = (site.path.parent / name for name in ("left", "done"))
    step = f"srun sh -c 'setsid sleep 1000 >/dev/null 2>&1 & echo $! > {pid}'"
    job = submit(site, "--wrap", f"{step}; touch {finished}; sleep 1000")
    eventually(finished.exists, what="the step has ended")
    assert not has_ended(int(pid.read_text()))
    site.ok("cancel", job)
    eventually(lambda: has_ended(int(pid.read_text())), what="the process ends with the job")


def test_sacctmgr_shows_without_confirmation(site: Home) -> None:
    result = site.slurm("sacctmgr", "-n", "show", "transactions")
    assert (result.returncode, result.stdout) == (0, "")
    result = site.slurm("sacctmgr", "-n", "show", "associations", "format=id")
    assert result.returncode == 0 and set(result.stdout.split()) <= {"0"}
