"""`scontrol create|update|delete reservation` beside a real Slurm: the same lines, said alike, and the same reservation afterwards.

Slurm's flags and keys that a reservation here does not have are refused by their name. IGNORE_JOBS is how it always is here.
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
WHOSE = f"create reservation reservationname=R {WHEN} users=root"
ONE = f"{WHOSE} nodes=n1"
UPDATE = "update reservationname=R"
CREATED = (
    ONE,
    *(f"{ONE} flags={flag}" for flag in ("DAILY", "WEEKLY", "WEEKDAY", "WEEKEND", "IGNORE_JOBS", "da", "foo", "SPEC_NODES",
                                         "PART_NODES", "ALL_NODES")),
    f"{WHOSE} nodes=ALL", f"{WHOSE} nodes=n[1-2]", f"{WHOSE} nodes=", f"{WHOSE} nodes=zz", f"{WHOSE} nodecnt=2",
    f"{WHOSE} partitionname=zz nodecnt=1",
    f"{ONE} foo=bar", f"{ONE} comment=a", f"{ONE} maxstartdelay",
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
    *(f"{ONE} flags={flag}" for flag in ("MAINT", "OVERLAP", "MAINT,OVERLAP,DAILY", "ANY_NODES", "HOURLY", "maint,ignore_jobs")),
    *(f"{ONE} flags={flag}" for flag in (
        "MAGNETIC", "FLEX", "PURGE_COMP", "PURGE_COMP=10", "PURGE_COMP=0:05", "PURGE_COMP=1-0", "PURGE_COMP=x", "TIME_FLOAT",
        "NO_HOLD_JOBS_AFTER", "NO_HOLD_JOBS_AFTER_END", "STATIC_ALLOC", "MAGNETIC,FLEX", "FLEX,MAINT", "magn,purge", "prom",
        "p", "pu", "r", "re", "s", "t", "w", "n", "f", "REPLACE", "REPLACE_DOWN", "REPLACE_",
        "TIME_FLOAT,DAILY", "-DAILY", "FLEX,-FLEX", "LICENSE_ONLY")),
    *(f"{WHOSE} nodecnt=2 flags={flag}" for flag in ("REPLACE", "REPLACE_DOWN", "ANY_NODES", "MAGNETIC", "STATIC")),
    *(f"{WHOSE} {argv}" for argv in ("tres=node=2", "nodecnt=0", "partitionname=debug nodecnt=1", "nodes=n1 skip=yes")),
    *(f"create reservation reservationname=R {WHEN} nodes=n1 {argv}" for argv in (
        "users=-root", "users=-root,nobody", "users=-root,-nobody", "flags=magnetic")),
    "create foo", "create reservationname=R", "create", "delete", "delete reservation=zz", "delete reservation",
    "update reservationname=zz users=root", "update reservation=zz",
)  # fmt: skip
OF_CORES = (
    *(f"{WHOSE} {argv}" for argv in (
        "corecnt=2", "corecnt=8", "corecnt=12", "corecnt=20", "corecnt=40", "nodes=n1 corecnt=2", "nodes=n[1-2] corecnt=2",
        "nodes=n[1-2] corecnt=2,3", "nodes=n[1-2] corecnt=3,3,3", "nodes=n1 corecnt=20", "nodes=n1 corecnt=16",
        "nodecnt=2 corecnt=4", "corecnt=0", "corecnt=x", "cpucnt=2", "cpu=2", "corecnt=1000", "nodecnt=2 corecnt=1000",
        "nodes=ALL corecnt=2", "corecnt=1k", "core=2", "tres=cpu=4", "tres=cpu=5", "tres=cpu=4,node=2", "tres=cpu=4 nodes=n1",
        "tres=cpu=4 nodes=n[1-2]", "tres=gres/gpu:2", "tres=mem=2", "tres=foo=2", "tres=", "partitionname=debug corecnt=4",
        "partitionname=debug corecnt=40", "corecnt=2 flags=REPLACE", "nodecnt=2 corecnt=4 flags=REPLACE",
        "corecnt=2 flags=ANY_NODES")),
    *(f"{WHOSE} nodes=n1 corecnt=2 flags={flag}" for flag in (
        "FLEX", "MAINT", "ANY_NODES", "MAGNETIC", "OVERLAP", "TIME_FLOAT", "DAILY", "STATIC_ALLOC", "PURGE_COMP")),
)  # fmt: skip
"""Of some cores of nodes. A core of their nodes is a CPU."""
TWICE = (
    ("nodes=n1 corecnt=10", "nodes=n1 corecnt=10"), ("nodes=n1 corecnt=10", "nodes=n1 corecnt=4"),
    ("nodes=n1", "nodes=n1 corecnt=4"), ("nodes=n1 corecnt=10", "corecnt=10"), ("nodes=n1 corecnt=10", "corecnt=4"),
    ("corecnt=20", "corecnt=4"), ("nodes=n1 corecnt=10", "nodecnt=1 corecnt=4"), ("nodes=n1 corecnt=10", "corecnt=60"),
    ("nodes=n1", "corecnt=4"), ("nodes=n[1-2] corecnt=16,16", "corecnt=4"), ("corecnt=64", "corecnt=1"),
)  # fmt: skip
CHANGED = (
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
"""What is compared of a reservation; times of day are of the moment."""

NOT_KEPT = ("IGNORE_JOBS", "ALL_NODES", "PART_NODES")
"""Jobs that run there are always left alone here, and all nodes are as good as named."""


class EmptyPair(Pair):
    """Both, without reservations before and after each case. Of each these `fields` are compared."""

    fields: tuple[str, ...] = FIELDS

    def same_after(self, *lines: str) -> None:
        theirs, ours = (self._after(cluster, lines) for cluster in (self.slurm, self.warpdeck))
        assert ours == theirs

    def _after(self, cluster: RealSlurm | WarpdeckCluster, lines: tuple[str, ...]) -> list[object]:
        said = [_said(cluster.run(["scontrol", *line.split()])) for line in lines]
        shown = cluster.run(["scontrol", "-o", "show", "reservation"]).out
        for name in re.findall(r"ReservationName=(\S+)", shown):
            cluster.run(["scontrol", "delete", f"reservationname={name}"])
        return [said, sorted(_fields(line, self.fields) for line in shown.splitlines())]


def _said(done: CommandResult) -> tuple[int, str, list[str]]:
    """Of what Slurm's controller says the first words alone: ours may tell more behind them."""
    lines = done.err.splitlines()
    return (
        done.rc,
        done.out,
        [line for line in lines if line.startswith(("scontrol", "slurm_", "Error", "Invalid"))],
    )


def _fields(line: str, names: tuple[str, ...]) -> list[str]:
    found = dict(word.partition("=")[::2] for word in line.split())
    for name, masks in (("Flags", NOT_KEPT), ("Users", ())):
        found[name] = ",".join(sorted(word for word in found.get(name, "").split(",") if word not in masks))
    # To the minute: now+3hours of one command and now+1hour of another may lie a second more than two hours apart.
    found["Duration"] = found.get("Duration", "").rpartition(":")[0]
    return [found.get(name, "") for name in names]


@pytest.fixture(scope="module")
def pair() -> Iterator[EmptyPair]:
    with side_by_side(EmptyPair) as both:
        yield both


@pytest.mark.parametrize("line", CREATED)
def test_one_is_made_alike(pair: EmptyPair, line: str) -> None:
    pair.same_after(line)


@pytest.mark.parametrize("line", OF_CORES)
def test_one_of_cores_is_made_alike(pair: EmptyPair, line: str) -> None:
    pair.same_after(line)


@pytest.mark.parametrize(("first", "second"), TWICE)
def test_two_may_have_cores_of_one_node(pair: EmptyPair, first: str, second: str) -> None:
    pair.same_after(f"{WHOSE} {first}", f"{WHOSE} {second}".replace("reservationname=R", "reservationname=Q"))


@pytest.mark.parametrize(
    "argv",
    ["corecnt=3", "corecnt=0", "nodes=n2", "nodes=n1", "nodecnt=2", "nodes=", "duration=30", "flags+=magnetic",
     "users+=nobody", "tres=cpu=4", "starttime=now+2hours"],
)  # fmt: skip
@pytest.mark.parametrize("of", ["nodes=n1 corecnt=2", "corecnt=2"])
def test_one_of_cores_keeps_them(pair: EmptyPair, of: str, argv: str) -> None:
    pair.same_after(f"{WHOSE} {of}", f"{UPDATE} {argv}")


@pytest.mark.parametrize("argv", CHANGED)
def test_one_is_changed_alike(pair: EmptyPair, argv: str) -> None:
    pair.same_after(ONE, f"{UPDATE} {argv}")


@pytest.mark.parametrize("argv", ["reservation=R", "reservationname=R", "res=R", "reservation R"])
def test_one_is_deleted_alike(pair: EmptyPair, argv: str) -> None:
    pair.same_after(ONE, f"delete {argv}")


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
def test_one_of_another_kind_is_changed_alike(pair: EmptyPair, flags: str, argv: str) -> None:
    pair.same_after(f"create reservation reservationname=R {WHEN} nodes=n1 {flags}", f"{UPDATE} {argv}")


@pytest.mark.parametrize(
    "argv", ["flags+=replace", "nodes=n3", "nodecnt=1", "nodes=", "flags+=static", "partitionname=debug"]
)
@pytest.mark.parametrize("flags", ["", "flags=replace"])
def test_one_whose_nodes_were_chosen_is_changed_alike(pair: EmptyPair, flags: str, argv: str) -> None:
    pair.same_after(f"{WHOSE} nodecnt=2 {flags}".strip(), f"{UPDATE} {argv}")


def test_two_do_not_have_the_same_nodes(pair: EmptyPair) -> None:
    pair.same_after(ONE, ONE.replace("reservationname=R", "reservationname=Q"))


@pytest.mark.parametrize("flag", ["MAINT", "OVERLAP"])
def test_two_may_have_the_same_nodes_where_that_is_said(pair: EmptyPair, flag: str) -> None:
    pair.same_after(ONE, f"{ONE.replace('reservationname=R', 'reservationname=Q')} flags={flag}")


def test_who_is_named_may_try_nodes_in_maintenance_and_it_stays_while_they_do(pair: EmptyPair) -> None:
    line = "create reservation reservationname=M starttime=now duration=60 users=root nodes=n2 flags=MAINT,IGNORE_JOBS"
    told = []
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(["scontrol", *line.split()]).rc == 0
        job = cluster.run(["sbatch", "--parsable", "--reservation=M", "-t5", "--wrap", "sleep 1000"])
        number = job.out.strip()
        shown = ["squeue", "-h", "-j", number, "-o", "%t %N %v"]
        if cluster is pair.warpdeck:
            pair.warpdeck.wait_until_running(int(number))
        eventually(lambda run=cluster.run, shown=shown: run(shown).out == "R n2 M\n", timeout_s=60)
        busy = cluster.run(["scontrol", "delete", "reservationname=M"])
        cluster.run(["scancel", number])
        if cluster is pair.warpdeck:
            pair.warpdeck.report_job_end(int(number), exit_code=0)
        eventually(lambda run=cluster.run, shown=shown: run(shown).out == "", timeout_s=60)
        told.append((busy, cluster.run(["scontrol", "delete", "reservationname=M"])))
    assert told[0] == told[1]


def test_which_cores_it_has_of_a_node_cannot_be_said(pair: EmptyPair) -> None:
    """It has whole nodes, or so many of their CPUs."""
    done = pair.warpdeck.run(["scontrol", *ONE.split(), "corecnt=2", "flags=FIRST_CORES"])
    assert done.rc == 1 and "Requested operation not supported on this system" in done.err
    assert "remove FIRST_CORES" not in done.out


OF_NONE = (
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
OF_NONE_CHANGED = (
    "watts=5", "watts=0", "watts=x", "burstbuffer=9", "burstbuffer=", "maxstartdelay=10", "maxstartdelay=0", "maxstartdelay=x",
    "maxstartdelay=", "maxstartdelay=-1", "maxstartdelay+=5", "burstbuffer+=x", "flags+=first_cores", "flags-=first_cores",
    "flags=first_cores", "duration=30",
)  # fmt: skip


@pytest.fixture
def of_all(pair: EmptyPair) -> Iterator[EmptyPair]:
    """Compares what plug-ins would read, too."""
    pair.fields = (*FIELDS, "BurstBuffer", "Watts", "MaxStartDelay")
    yield pair
    pair.fields = FIELDS


@pytest.mark.parametrize("argv", OF_NONE)
def test_what_plugins_would_read_is_kept_alike(of_all: EmptyPair, argv: str) -> None:
    of_all.same_after(f"{WHOSE} {argv}")


@pytest.mark.parametrize("argv", OF_NONE_CHANGED)
def test_what_plugins_would_read_is_changed_alike(of_all: EmptyPair, argv: str) -> None:
    of_all.same_after(f"{ONE} burstbuffer=7G maxstartdelay=5", f"{UPDATE} {argv}")
