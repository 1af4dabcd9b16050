"""`scontrol create|update|delete reservation` beside a real Slurm: the same output and the same reservation
afterwards.

Flags and keys of Slurm that our reservations do not have are refused by name. Our reservations always behave
as with IGNORE_JOBS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.pair import Pair, side_by_side
from tests.slurm_parity.peer.real_slurm import CommandResult, RealSlurm
from tests.slurm_parity.peer.warpdeck_cluster import WarpdeckCluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
WHEN = "starttime=now+1hour duration=60"
CREATE = f"create reservation reservationname=R {WHEN} users=root"
CREATE_ONE = f"{CREATE} nodes=n1"
UPDATE = "update reservationname=R"
CREATE_LINES = (
    CREATE_ONE,
    *(f"{CREATE_ONE} flags={flag}" for flag in ("DAILY", "WEEKLY", "WEEKDAY", "WEEKEND", "IGNORE_JOBS", "da", "foo", "SPEC_NODES",
                                         "PART_NODES", "ALL_NODES")),
    f"{CREATE} nodes=ALL", f"{CREATE} nodes=n[1-2]", f"{CREATE} nodes=", f"{CREATE} nodes=zz", f"{CREATE} nodecnt=2",
    f"{CREATE} partitionname=zz nodecnt=1",
    f"{CREATE_ONE} foo=bar", f"{CREATE_ONE} comment=a", f"{CREATE_ONE} maxstartdelay",
    f"create reservation reservationname=R {WHEN} nodes=n1",
    f"create reservation reservationname=R {WHEN} nodes=n1 users=nosuch",
    f"create reservation reservationname=R {WHEN} nodes=n1 users=root,nobody",
    "create reservation reservationname=R duration=5 users=root nodes=n1",
    "create reservation reservationname=R starttime=x duration=5 users=root nodes=n1",
    "create reservation reservationname=R starttime=now+1hour endtime=x users=root nodes=n1",
    "create reservation reservationname=R starttime=now+1hour endtime=now users=root nodes=n1",
    "create reservation reservationname=R starttime=now+1hour endtime=now+2hours users=root nodes=n1",
    "create reservation reservationname=R starttime=now+1hour duration=x users=root nodes=n1",
    "create reservation reservationname=R starttime=now-1hour duration=10 users=root nodes=n1",
    "create reservation R starttime=now+1hour duration=60 users=root nodes=n1",
    "create reservation res=R start=now+1hour dur=60 user=root nodes=n1",
    *(f"{CREATE_ONE} flags={flag}".replace(" users=root", "") for flag in ("MAINT", "MAINT,OVERLAP", "maint,ignore_jobs")),
    *(f"{CREATE_ONE} flags={flag}" for flag in (
        "MAINT", "OVERLAP", "MAINT,OVERLAP,DAILY", "ANY_NODES", "HOURLY", "maint,ignore_jobs")),
    *(f"{CREATE_ONE} flags={flag}" for flag in (
        "MAGNETIC", "FLEX", "PURGE_COMP", "PURGE_COMP=10", "PURGE_COMP=0:05", "PURGE_COMP=1-0", "PURGE_COMP=x", "TIME_FLOAT",
        "NO_HOLD_JOBS_AFTER", "NO_HOLD_JOBS_AFTER_END", "STATIC_ALLOC", "MAGNETIC,FLEX", "FLEX,MAINT", "magn,purge", "prom",
        "p", "pu", "r", "re", "s", "t", "w", "n", "f", "REPLACE", "REPLACE_DOWN", "REPLACE_",
        "TIME_FLOAT,DAILY", "-DAILY", "FLEX,-FLEX", "LICENSE_ONLY")),
    *(f"{CREATE} nodecnt=2 flags={flag}" for flag in ("REPLACE", "REPLACE_DOWN", "ANY_NODES", "MAGNETIC", "STATIC")),
    *(f"{CREATE} {argv}" for argv in ("tres=node=2", "nodecnt=0", "partitionname=debug nodecnt=1", "nodes=n1 skip=yes")),
    *(f"create reservation reservationname=R {WHEN} nodes=n1 {argv}" for argv in (
        "users=-root", "users=-root,nobody", "users=-root,-nobody", "flags=magnetic")),
    "create foo", "create reservationname=R", "create", "delete", "delete reservation=zz", "delete reservation",
    "update reservationname=zz users=root", "update reservation=zz",
)  # fmt: skip
CORE_LINES = (
    *(f"{CREATE} {argv}" for argv in (
        "corecnt=2", "corecnt=8", "corecnt=12", "corecnt=20", "corecnt=40", "nodes=n1 corecnt=2", "nodes=n[1-2] corecnt=2",
        "nodes=n[1-2] corecnt=2,3", "nodes=n[1-2] corecnt=3,3,3", "nodes=n1 corecnt=20", "nodes=n1 corecnt=16",
        "nodecnt=2 corecnt=4", "corecnt=0", "corecnt=x", "cpucnt=2", "cpu=2", "corecnt=1000", "nodecnt=2 corecnt=1000",
        "nodes=ALL corecnt=2", "corecnt=1k", "core=2", "tres=cpu=4", "tres=cpu=5", "tres=cpu=4,node=2", "tres=cpu=4 nodes=n1",
        "tres=cpu=4 nodes=n[1-2]", "tres=gres/gpu:2", "tres=mem=2", "tres=foo=2", "tres=", "partitionname=debug corecnt=4",
        "partitionname=debug corecnt=40", "corecnt=2 flags=REPLACE", "nodecnt=2 corecnt=4 flags=REPLACE",
        "corecnt=2 flags=ANY_NODES")),
    *(f"{CREATE} nodes=n1 corecnt=2 flags={flag}" for flag in (
        "FLEX", "MAINT", "ANY_NODES", "MAGNETIC", "OVERLAP", "TIME_FLOAT", "DAILY", "STATIC_ALLOC", "PURGE_COMP")),
)  # fmt: skip
"""Reservations of some cores of nodes. A core of these nodes is a CPU."""
PAIRS_OF_REQUESTS = (
    ("nodes=n1 corecnt=10", "nodes=n1 corecnt=10"), ("nodes=n1 corecnt=10", "nodes=n1 corecnt=4"),
    ("nodes=n1", "nodes=n1 corecnt=4"), ("nodes=n1 corecnt=10", "corecnt=10"), ("nodes=n1 corecnt=10", "corecnt=4"),
    ("corecnt=20", "corecnt=4"), ("nodes=n1 corecnt=10", "nodecnt=1 corecnt=4"), ("nodes=n1 corecnt=10", "corecnt=60"),
    ("nodes=n1", "corecnt=4"), ("nodes=n[1-2] corecnt=16,16", "corecnt=4"), ("corecnt=64", "corecnt=1"),
)  # fmt: skip
UPDATES = (
    "users+=nobody", "users-=root", "users=nobody", "users=", "users-=nobody", "users+=nosuch", "nodes=n2", "nodes+=n2",
    "nodes-=n1", "nodes=zz", "nodecnt=2", "nodecnt=1", "duration=30", "duration+=30", "duration-=30", "duration-=100",
    "duration=x", "endtime=now+3hours", "starttime=now+2hours", "flags=DAILY", "flags+=DAILY", "flags-=DAILY",
    "flags=magnetic", "flags+=flex", "flags+=purge_comp=20", "flags+=replace", "flags+=time_float", "flags=time_float",
    "flags-=overlap", "flags-=no_hold", "flags+=no_hold", "flags+=static", "users=-nobody", "users=nobody,root", "users=-root,-nobody",
    "flags=foo", "foo=bar", "comment=x", "flags=MAINT", "flags+=OVERLAP", "flags-=MAINT", "users=-root", "nodecnt+=1",
    "corecnt=3", "tres=cpu=4",
)  # fmt: skip
FIELDS = (
    "ReservationName",
    "Duration",
    "Nodes",
    "NodeCnt",
    "CoreCnt",
    "PartitionName",
    "TRES",
    "Flags",
    "Users",
    "State",
)
"""The compared fields of a reservation. Times of day are left out."""

UNCOMPARED_FLAGS = ("IGNORE_JOBS", "ALL_NODES", "PART_NODES")
"""Flags that are not compared: our reservations always leave running jobs alone, and all nodes count as
named.
"""


class EmptyPair(Pair):
    """Both schedulers, without reservations before and after each case. Of each reservation, `fields` are
    compared.
    """

    fields: tuple[str, ...] = FIELDS

    def assert_same_reservations(self, *lines: str) -> None:
        """Run the lines on both, assert the same output and reservations, and delete the reservations."""
        slurm, warpdeck = (self._run_and_delete(cluster, lines) for cluster in (self.slurm, self.warpdeck))
        assert warpdeck == slurm

    def _run_and_delete(self, cluster: RealSlurm | WarpdeckCluster, lines: tuple[str, ...]) -> list[object]:
        messages = [_messages(cluster.run(["scontrol", *line.split()])) for line in lines]
        text = cluster.run(["scontrol", "-o", "show", "reservation"]).out
        for name in re.findall(r"ReservationName=(\S+)", text):
            cluster.run(["scontrol", "delete", f"reservationname={name}"])
        return [messages, sorted(_fields(line, self.fields) for line in text.splitlines())]


def _messages(result: CommandResult) -> tuple[int, str, list[str]]:
    """Return the first part of each message of Slurm's controller, because our messages may have more
    details.
    """
    lines = result.err.splitlines()
    return (
        result.rc,
        result.out,
        [line for line in lines if line.startswith(("scontrol", "slurm_", "Error", "Invalid"))],
    )


def _fields(line: str, names: tuple[str, ...]) -> list[str]:
    values = dict(word.partition("=")[::2] for word in line.split())
    for name, ignored in (("Flags", UNCOMPARED_FLAGS), ("Users", ())):
        values[name] = ",".join(
            sorted(word for word in values.get(name, "").split(",") if word not in ignored)
        )
    # The duration is compared in minutes: now+3hours and now+1hour of two commands may be a second more than
    # two hours apart.
    values["Duration"] = values.get("Duration", "").rpartition(":")[0]
    return [values.get(name, "") for name in names]


@pytest.fixture(scope="module")
def pair() -> Iterator[EmptyPair]:
    with side_by_side(EmptyPair) as both:
        yield both


@pytest.mark.parametrize("line", CREATE_LINES)
def test_a_reservation_is_created_as_in_slurm(pair: EmptyPair, line: str) -> None:
    pair.assert_same_reservations(line)


@pytest.mark.parametrize("line", CORE_LINES)
def test_a_core_reservation_is_created_as_in_slurm(pair: EmptyPair, line: str) -> None:
    pair.assert_same_reservations(line)


@pytest.mark.parametrize(("first", "second"), PAIRS_OF_REQUESTS)
def test_two_reservations_may_have_cores_of_one_node(pair: EmptyPair, first: str, second: str) -> None:
    pair.assert_same_reservations(
        f"{CREATE} {first}", f"{CREATE} {second}".replace("reservationname=R", "reservationname=Q")
    )


@pytest.mark.parametrize(
    "argv",
    ["corecnt=3", "corecnt=0", "nodes=n2", "nodes=n1", "nodecnt=2", "nodes=", "duration=30", "flags+=magnetic",
     "users+=nobody", "tres=cpu=4", "starttime=now+2hours"],
)  # fmt: skip
@pytest.mark.parametrize("creation", ["nodes=n1 corecnt=2", "corecnt=2"])
def test_a_core_reservation_is_updated_as_in_slurm(pair: EmptyPair, creation: str, argv: str) -> None:
    pair.assert_same_reservations(f"{CREATE} {creation}", f"{UPDATE} {argv}")


@pytest.mark.parametrize("argv", UPDATES)
def test_a_reservation_is_updated_as_in_slurm(pair: EmptyPair, argv: str) -> None:
    pair.assert_same_reservations(CREATE_ONE, f"{UPDATE} {argv}")


@pytest.mark.parametrize("argv", ["reservation=R", "reservationname=R", "res=R", "reservation R"])
def test_a_reservation_is_deleted_as_in_slurm(pair: EmptyPair, argv: str) -> None:
    pair.assert_same_reservations(CREATE_ONE, f"delete {argv}")


@pytest.mark.parametrize(
    ("flags", "argv"),
    [
        *(
            ("users=root flags=magnetic", argv)
            for argv in ("flags-=magnetic", "flags=flex", "duration=30", "nodes=n2")
        ),
        *(
            ("users=root flags=purge_comp=20", argv)
            for argv in ("flags-=purge_comp", "flags+=purge_comp=30", "users=nobody")
        ),
        *(
            ("users=root flags=time_float", argv)
            for argv in ("flags-=time_float", "duration=30", "starttime=now+2hours")
        ),
        *(("users=-root", argv) for argv in ("users=nobody", "users-=nobody", "users-=root", "duration=30")),
        ("users=root,nobody", "users=-root"),
    ],
)
def test_flags_and_users_of_a_reservation_are_updated_as_in_slurm(
    pair: EmptyPair, flags: str, argv: str
) -> None:
    pair.assert_same_reservations(
        f"create reservation reservationname=R {WHEN} nodes=n1 {flags}", f"{UPDATE} {argv}"
    )


@pytest.mark.parametrize(
    "argv", ["flags+=replace", "nodes=n3", "nodecnt=1", "nodes=", "flags+=static", "partitionname=debug"]
)
@pytest.mark.parametrize("flags", ["", "flags=replace"])
def test_a_reservation_with_a_node_count_is_updated_as_in_slurm(
    pair: EmptyPair, flags: str, argv: str
) -> None:
    pair.assert_same_reservations(f"{CREATE} nodecnt=2 {flags}".strip(), f"{UPDATE} {argv}")


def test_two_reservations_cannot_have_the_same_nodes(pair: EmptyPair) -> None:
    pair.assert_same_reservations(CREATE_ONE, CREATE_ONE.replace("reservationname=R", "reservationname=Q"))


@pytest.mark.parametrize("argv", ["users=", "users-=root", "users= accounts=", "groups-=root"])
def test_a_maintenance_reservation_keeps_at_least_one_user_as_in_slurm(pair: EmptyPair, argv: str) -> None:
    pair.assert_same_reservations(f"{CREATE_ONE} flags=MAINT", f"{UPDATE} {argv}")


@pytest.mark.parametrize("flag", ["MAINT", "OVERLAP"])
def test_reservations_with_maint_or_overlap_may_share_nodes(pair: EmptyPair, flag: str) -> None:
    pair.assert_same_reservations(
        CREATE_ONE, f"{CREATE_ONE.replace('reservationname=R', 'reservationname=Q')} flags={flag}"
    )


def test_a_maintenance_reservation_in_use_by_its_user_cannot_be_deleted(pair: EmptyPair) -> None:
    line = "create reservation reservationname=M starttime=now duration=60 users=root nodes=n2 flags=MAINT,IGNORE_JOBS"
    outcomes = []
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(["scontrol", *line.split()]).rc == 0
        job = cluster.run(["sbatch", "--parsable", "--reservation=M", "-t5", "--wrap", "sleep 1000"])
        job_id = job.out.strip()
        squeue_argv = ["squeue", "-h", "-j", job_id, "-o", "%t %N %v"]
        if cluster is pair.warpdeck:
            pair.warpdeck.wait_until_running(int(job_id))
        eventually(
            lambda run=cluster.run, squeue_argv=squeue_argv: run(squeue_argv).out == "R n2 M\n", timeout_s=60
        )
        busy = cluster.run(["scontrol", "delete", "reservationname=M"])
        cluster.run(["scancel", job_id])
        if cluster is pair.warpdeck:
            pair.warpdeck.report_job_end(int(job_id), exit_code=0)
        eventually(lambda run=cluster.run, squeue_argv=squeue_argv: run(squeue_argv).out == "", timeout_s=60)
        outcomes.append((busy, cluster.run(["scontrol", "delete", "reservationname=M"])))
    assert outcomes[0] == outcomes[1]


def test_a_reservation_with_first_cores_is_refused(pair: EmptyPair) -> None:
    """Our reservations have whole nodes or a number of CPUs per node."""
    result = pair.warpdeck.run(["scontrol", *CREATE_ONE.split(), "corecnt=2", "flags=FIRST_CORES"])
    assert result.rc == 1 and "Requested operation not supported on this system" in result.err
    assert "remove FIRST_CORES" not in result.out


PLUGIN_FIELDS = (
    *(f"watts={text} flags=any_nodes" for text in (
        "1k", "1M", "INFINITE", "0", "-1", "5x", "n/a", "", "99999999999", "2g", "unlimited", "none", "1.5k", "1500", "2048000")),
    "watts=0 nodes=n1", "watts=5 nodes=n1", "watts=5", "burstbuffer=5G", "burstbuffer= flags=any_nodes",
    "watts=5 burstbuffer=1G flags=any_nodes",
    "burstbuffer=1G flags=any_nodes", "nodes=n1 burstbuffer=1G", "watts=10 burstbuffer=x", "bu=5 nodes=n1", "b=5 nodes=n1",
    "w=5 flags=any_nodes",
    *(f"nodes=n1 maxstartdelay={text}" for text in ("1-0", "90", "0:30", "", "INFINITE", "x", "0")),
    *(f"nodes=n1 {key}=5" for key in ("maxst", "max", "ma", "m", "mas")),
    *(f"nodes=n1 flags={flags}" for flags in ("first_cores", "first", "fi", "first_cores,daily", "-first_cores")),
    "nodecnt=2 flags=first",
)  # fmt: skip
PLUGIN_FIELD_UPDATES = (
    "watts=5", "watts=0", "watts=x", "burstbuffer=9", "burstbuffer=", "maxstartdelay=10", "maxstartdelay=0", "maxstartdelay=x",
    "maxstartdelay=", "maxstartdelay=-1", "maxstartdelay+=5", "burstbuffer+=x", "flags+=first_cores", "flags-=first_cores",
    "flags=first_cores", "duration=30",
)  # fmt: skip


@pytest.fixture
def plugin_pair(pair: EmptyPair) -> Iterator[EmptyPair]:
    """The pair compares the fields for plug-ins too."""
    pair.fields = (*FIELDS, "BurstBuffer", "Watts", "MaxStartDelay")
    yield pair
    pair.fields = FIELDS


@pytest.mark.parametrize("argv", PLUGIN_FIELDS)
def test_fields_for_plugins_are_stored_as_in_slurm(plugin_pair: EmptyPair, argv: str) -> None:
    plugin_pair.assert_same_reservations(f"{CREATE} {argv}")


@pytest.mark.parametrize("argv", PLUGIN_FIELD_UPDATES)
def test_fields_for_plugins_are_updated_as_in_slurm(plugin_pair: EmptyPair, argv: str) -> None:
    plugin_pair.assert_same_reservations(f"{CREATE_ONE} burstbuffer=7G maxstartdelay=5", f"{UPDATE} {argv}")
