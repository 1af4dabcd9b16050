"""Slurm's answers to orders are read as the four versions print them."""

from __future__ import annotations

import pytest

from warpdeck.base.errors import UserError
from warpdeck.controller.state.state import State
from warpdeck.engines.slurm.forecasts.limits import reached
from warpdeck.engines.slurm.forecasts.queue_place import jobs_ahead
from warpdeck.engines.slurm.nodes.reservation_words import reservation_words
from warpdeck.engines.slurm.orders import expected
from warpdeck.engines.slurm.orders.job_keys import update_words
from warpdeck.engines.slurm.orders.names import is_whole, jobs_of, key_of, slurm_name, step_name
from warpdeck.engines.slurm.orders.refusals import NO_ERROR, Refusal, read_scancel, read_scontrol
from warpdeck.engines.slurm.reading.assoc_mgr import read_holders, use_rows
from warpdeck.engines.slurm.reading.priority_tables import read_priorities, read_qos, read_shares
from warpdeck.engines.slurm.reading.site_tables import read_licenses, read_reservations, read_statistics
from warpdeck.engines.slurm.versions import Version
from warpdeck.model import ArraySpec, Component, Job, JobId, JobState, Request, Reservation, Resources
from warpdeck.model.change import JobChange
from warpdeck.model.request import GpuRequest
from warpdeck.ports.caller import Principal

OLD, NEW = Version(20, 11), Version(26, 5)
ME = Principal(user="ann", uid=7)


def job(number: int, **fields: object) -> Job:
    made = {"id": JobId(number), "array_job_id": JobId(number), "user": "ann", "uid": 7, **fields}
    return Job(**{"request": Request(partition="gpu", account="lab"), **made})  # type: ignore[arg-type]


def test_the_lines_of_scontrol_name_jobs_and_tasks() -> None:
    text = (
        "Invalid job id specified for job 999999\nslurm_suspend error:Invalid job id specified\n"
        "2_3-5: No error\n2_[7,9]: Job has already finished\nJob is pending execution for job 4+1\n"
    )
    assert read_scontrol(text) == [
        Refusal("999999", "Invalid job id specified"),
        Refusal("2_3-5", NO_ERROR),
        Refusal("2_[7,9]", "Job has already finished"),
        Refusal("4+1", "Job is pending execution"),
    ]
    assert Refusal("1", "Invalid job id specified").code == "not_found"
    assert Refusal("1", "Access/permission denied").code == "denied"
    assert Refusal("1", "words of a later version").code == ""
    assert Refusal("1", "Socket timed out on send/recv operation").is_unsure


def test_the_lines_of_scancel_tell_what_was_tried_and_refused() -> None:
    refused, sent = read_scancel(
        "scancel: Terminating job 7\nscancel: Signal 10 to batch job 14_0\nscancel: Signal 9 to step 7.0\n"
        "scancel: error: Kill job error on job id 10_[0-1]: Access/permission denied\n"
        "scancel: error: Kill job error on job step id 9.0: Invalid job id specified\n"
    )
    assert sent == ["7", "14_0", "7.0"]
    assert refused == [
        Refusal("10_[0-1]", "Access/permission denied"),
        Refusal("9.0", "Invalid job id specified"),
    ]


def test_ids_have_a_form_that_all_commands_accept() -> None:
    assert [slurm_name(word) for word in ("12", "12_3", "12_[5,3-4]", "12_[0-6:2]", "12+1")] == [
        "12",
        "12_3",
        "12_[3-5]",
        "12_[0,2,4,6]",
        "12+1",
    ]
    assert step_name("12_3.0") == "12_3.0"
    assert key_of("2_3-5") == key_of("2_[3-5]") == (2, ((3, 5, 1),))
    for word in ("4294967296", "nonsense", "-b", "1,2", "12 --state=PENDING"):
        with pytest.raises(UserError):
            slurm_name(word)
    for word in ("12.batch", "12.-1", "x.0", "12.0 13"):
        with pytest.raises(UserError):
            step_name(word)


def test_an_id_finds_arrays_tasks_and_components() -> None:
    state, array = State(), Request(array=ArraySpec(ranges=((0, 5, 1),)))
    state.upsert_job(job(2, request=array, pending_tasks=((2, 5, 1),)))
    state.upsert_job(job(3, array_job_id=JobId(2), request=array, array_task_id=0))
    for offset in range(2):
        state.upsert_job(job(7 + offset, component=Component(leader=JobId(7), offset=offset, size=2)))
    found = {
        name: [each.id for each in jobs_of(state, name)] for name in ("2", "2_[4-9]", "2_0", "3", "7", "7+1")
    }
    assert found == {"2": [2, 3], "2_[4-9]": [2], "2_0": [3], "3": [3], "7": [7, 8], "7+1": [8]}
    folded = state.jobs[JobId(2)]
    assert is_whole(folded, "2") and is_whole(folded, "2_[0-9]") and not is_whole(folded, "2_[3-4]")


def test_generic_resources_are_written_as_the_version_reads_them() -> None:
    change = JobChange(gpus=GpuRequest(per_node=2, type="a100"))
    assert update_words(change, OLD) == ["TresPerJob=", "TresPerTask=", "TresPerNode=gpu:a100:2"]
    assert update_words(change, NEW) == ["TresPerJob=", "TresPerTask=", "TresPerNode=gres:gpu:a100:2"]
    assert update_words(JobChange(time_limit_more_s=-3600, name="-x"), NEW) == [
        "TimeLimit=-0-01:00:00",
        "JobName=-x",
    ]
    with pytest.raises(UserError, match="nothing to change"):
        update_words(JobChange(), NEW)


def test_only_certain_results_of_orders_are_expected() -> None:
    waiting, running = job(1), job(2, state=JobState.RUNNING)
    ended = job(3, state=JobState.COMPLETED)
    cancel = expected.canceled(ME)
    states = [after.state if (after := cancel(each, 5.0)) else None for each in (waiting, running, ended)]
    assert states == [JobState.CANCELLED, JobState.COMPLETING, None]
    assert expected.held(by_admin=False)(running, 5.0) is None
    update = expected.updated(JobChange(time_limit_s=90, comment="c"))
    after = update(waiting, 5.0)
    assert after is not None and (after.request.time_limit_s, after.request.comment) == (120, "c")
    assert update(ended, 5.0) is None


ASSOC_MGR = """Current Association Manager state

Association Records

ClusterName=c Account=lab UserName= Partition= Priority=0 ID=3
    GrpJobs=10(2) GrpJobsAccrue=N(0)
    GrpSubmitJobs=N(3) GrpWall=N(7.50)
    GrpTRES=cpu=N(4),mem=N(400),gres/gpu=2(2)
    GrpTRESMins=cpu=N(12),gres/gpu=N(0)
    GrpTRESRunMins=cpu=N(240)
ClusterName=c Account=other UserName= Partition= Priority=0 ID=4
    GrpTRES=gres/gpu=1(1)

QOS Records

QOS=normal(1)
    GrpJobs=N(2) GrpJobsAccrue=N(0) GrpSubmitJobs=N(2) GrpWall=N(0.00)
    Account Limits
      lab
        MaxJobsPA=N(2) MaxJobsAccruePA=N(0) MaxSubmitJobsPA=N(2)
    User Limits
      7
        MaxJobsPU=2(2) MaxJobsAccruePU=N(0) MaxSubmitJobsPU=N(2)
        MaxTRESPU=cpu=N(4),gres/gpu=8(3)
      bob(8)
        MaxJobsPU=2(2)
"""


def test_the_use_of_limits_is_read_and_the_reached_ones_are_named() -> None:
    holders = read_holders(ASSOC_MGR, {7: "ann"}.__getitem__)
    rows = use_rows(holders)
    assert [(row.qos, row.account, row.user) for row in rows] == [
        ("", "lab", ""),
        ("", "other", ""),
        ("normal", "", ""),
        ("normal", "lab", ""),
        ("normal", "", "ann"),
        ("normal", "", "bob"),
    ]
    lab = rows[0]
    assert (lab.jobs, lab.submitted, lab.tres) == (2, 3, {"cpu": 4, "mem": 400, "gres/gpu": 2})
    assert lab.minutes == {"cpu": 12.0, "wall": 7.0} and lab.run_minutes == {"cpu": 240.0}
    wanted = Request(account="lab", partition="gpu", resources=Resources(gpus=GpuRequest(total=1)))
    assert reached(job(1, request=wanted), holders) == [
        "2 of 2 GPUs in use by account lab",
        "2 of 2 running jobs in use by QoS normal, user ann",
    ]


def test_jobs_of_higher_priority_in_the_same_partition_are_ahead() -> None:
    state = State()
    for number, priority, partition in ((1, 5, "gpu"), (2, 9, "gpu,cpu"), (3, 9, "cpu"), (4, 5, "gpu")):
        state.upsert_job(job(number, request=Request(partition=partition)))
        state.planned.priorities[JobId(number)] = priority
    state.upsert_job(job(5, held=True))
    count, leaders = jobs_ahead(state, state.jobs[JobId(4)])
    assert count == 2 and [each.label for each in leaders] == ["2", "1"]
    assert jobs_ahead(state, state.jobs[JobId(5)]) == (0, [])


def test_tables_of_priorities_shares_and_qos_are_read() -> None:
    priorities = read_priorities("7|gpu|531|1|0|530|0|0|-5|cpu=2.00,gres/gpu=3.00\n\nYou are not\n")
    assert priorities[JobId(7)]["job_size_part"] == 530 and priorities[JobId(7)]["tres:gres/gpu"] == 3
    shares = read_shares(
        "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|LevelFS|FairShare\n"
        "root|||0.0|0|1.0|1.0|0.0|\n lab||2|0.5|9|0.3|0.3|1.5|\n  lab|ann|1|1.0|9|0.3|1.0|inf|0.75\n"
    )
    assert [(row.account, row.user, row.parent, row.depth, row.shares) for row in shares] == [
        ("root", "", "", 0, 1),
        ("lab", "", "root", 1, 2),
        ("lab", "ann", "", 2, 1),
    ]
    # Slurm shows the account of the whole cluster without a share, and with all of the use even if there is none.
    assert [(row.norm_shares, row.norm_usage) for row in shares] == [(1.0, 0.0), (0.5, 0.3), (1.0, 0.3)]
    [row] = read_qos("Name|Priority|Preempt|MaxWall|MaxTRESPU\nfast|10|slow,low|1-00:00:00|mem=2G,cpu=4\n")
    assert (row.preempts, row.limits["max_wall_s"]) == (["slow", "low"], 86_400)
    assert row.limits["max_tres_per_user"] == {"mem": 2048, "cpu": 4}


def test_tables_of_the_site_are_read() -> None:
    assert read_reservations("No reservations in the system\n", now=0.0) == []
    assert read_licenses("No licenses configured in Slurm.\n") == []
    [license] = read_licenses("LicenseName=matlab Total=5 Used=2 Free=3 Remote=no\n")
    assert (license.name, license.total, license.used) == ("matlab", 5, 2)
    found = read_statistics(
        "Data since      Fri (1795810575)\nJobs submitted: 53\nJobs failed:    1\n\n"
        "Main schedule statistics (microseconds):\n\tLast cycle:   13\n\tMax cycle:    1214\n"
        "\tTotal cycles: 49\n\tMean cycle:   100\n\tLast queue length: 3\n\nBackfilling stats\n\tTotal cycles: 1\n"
    )
    assert found["since"] == 1795810575.0 and found["last_queue"] == 3
    assert found["passes"] == {"count": 49, "total_s": 0.0049, "most_s": 0.001214, "last_s": 0.000013}


def test_a_reservation_becomes_keys_and_values() -> None:
    made = Reservation(name="r", start_unix=1000.0, end_unix=1060.0, users=("ann",), deny_accounts=("x",))
    assert reservation_words(made, now=0.0) == [
        "ReservationName=r",
        "StartTime=1970-01-01T00:16:40",
        "EndTime=1970-01-01T00:17:40",
        "Nodes=ALL",
        "Users=ann",
        "Accounts=-x",
    ]
