"""Partitions, reservations and licenses as JSON beside a real Slurm: the same lines made them, and slurmrestd tells of them.

scontrol of 22.05 has no --json itself; that of later ones prints what data_parser makes, as slurmrestd does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.slurm_parity.peer.pair import H100_SITE, Pair, diff_text, side_by_side
from tests.slurm_parity.peer.warpdeck_cluster import SITE as OURS

pytestmark = [pytest.mark.slurm, pytest.mark.slurmrestd]
WHEN = "starttime=2038-01-01T10:00:00 duration=60"
RESERVED = (
    "users=root nodes=n1",
    "users=-root nodes=n1,n3 flags=MAINT,FLEX,OVERLAP,HOURLY",
    "accounts=lab nodecnt=2 flags=REPLACE,NO_HOLD_JOBS_AFTER_END,MAGNETIC,WEEKLY",
    "users=root corecnt=3 flags=WEEKDAY",
    "users=root partitionname=debug nodecnt=1 flags=STATIC_ALLOC,WEEKEND",
    "users=root nodes=n2 flags=TIME_FLOAT",
    "users=root nodes=n2 flags=PURGE_COMP=5,ANY_NODES",
    "groups=daemon nodecnt=1",
    "users=root licenses=matlab:2 flags=ANY_NODES",
    "users=root watts=2k burstbuffer=5G flags=ANY_NODES",
    "users=root nodes=n1 maxstartdelay=90 burstbuffer=5G flags=FIRST_CORES,STATIC_ALLOC,TIME_FLOAT",
)
PARTITIONS = (
    "maxtime=INFINITE nodes=n1,n3 state=DRAIN maxnodes=3 minnodes=2 priorityjobfactor=3 prioritytier=4 defaulttime=5",
    "exclusiveuser=yes preemptmode=requeue gracetime=20 nodes=ALL minnodes=1 denyaccounts=lab denyqos=normal",
    "allowaccounts=lab allowqos=normal allowgroups=daemon nodes=n4 preemptmode=suspend minnodes=1 state=INACTIVE",
    "preemptmode=cancel nodes=n2 minnodes=1 state=DOWN",
)
SITE = f"""{OURS}
[licenses]
matlab = 5
idl = 3
[qos.normal]
[accounts.lab.users.root]
"""


class JsonPair(Pair):
    """Both. What is told of things of a kind."""

    def same_told(self, word: str, things: str, *, masks: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """`scontrol show WORD --json` beside slurmrestd's `things`, value by value; ours."""
        theirs = self.slurm.rest(things)
        ours = json.loads(self.warpdeck.run(["scontrol", "--json", "show", word]).out)
        wanted, found = (_lines(told, things, masks) for told in (theirs, ours))
        assert found == wanted, diff_text(wanted, found)
        return list(ours[things])


def _lines(told: dict[str, Any], things: str, masks: tuple[str, ...]) -> list[str]:
    """What is `apart` only is of the same kind. Jobs that run on its nodes are always left alone by a reservation of ours."""
    for each in told[things]:
        each.update({key: type(each[key]).__name__ for key in masks})
        each["flags"] = [flag for flag in each.get("flags", ()) if flag != "IGNORE_JOBS"]
    named = sorted(told[things], key=lambda each: str(each.get("name", each.get("LicenseName"))))
    return json.dumps({**told, things: named}, indent=2).splitlines()


@pytest.fixture(scope="module")
def pair() -> Iterator[JsonPair]:
    theirs = f"Licenses=matlab:5,idl:3\n{H100_SITE}"
    lines = ["add account lab", "add user root account=lab"]
    with side_by_side(
        JsonPair, slurm_site=theirs, warpdeck_site=SITE, accounting=True, accounts=lines
    ) as both:
        yield both


def test_partitions_are_told_alike(pair: JsonPair) -> None:
    for number, argv in enumerate(PARTITIONS):
        for cluster in (pair.slurm, pair.warpdeck):
            made = cluster.run(["scontrol", "create", f"partitionname=p{number}", *argv.split()])
            assert made.rc == 0, made
    told = pair.same_told("partition", "partitions")
    assert [each["name"] for each in told] == ["gpu", "debug", "p0", "p1", "p2", "p3"]


@pytest.mark.parametrize("argv", RESERVED)
def test_a_reservation_is_told_alike(pair: JsonPair, argv: str) -> None:
    line = ["scontrol", "create", "reservation", "reservationname=R", *WHEN.split(), *argv.split()]
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(line).rc == 0
    try:
        floats = ("start_time", "end_time") if "TIME_FLOAT" in argv else ()
        told = pair.same_told("reservation", "reservations", masks=floats)
        assert [each["name"] for each in told] == ["R"]
    finally:
        for cluster in (pair.slurm, pair.warpdeck):
            assert cluster.run(["scontrol", "delete", "reservationname=R"]).rc == 0


def test_licenses_are_told_alike(pair: JsonPair) -> None:
    line = "scontrol create reservation reservationname=L starttime=now duration=60 users=root licenses=matlab:2 flags=ANY_NODES"
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(line.split()).rc == 0
    told = pair.same_told("licenses", "licenses")
    assert [each["Reserved"] for each in told] == [0, 2]
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(["scontrol", "delete", "reservationname=L"]).rc == 0


def test_why_a_node_is_drained_is_told_alike(pair: JsonPair) -> None:
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(["scontrol", "update", "nodename=n4", "state=drain", "reason=bad fan"]).rc == 0
    theirs = pair.slurm.rest("node/n4")["nodes"]
    ours = json.loads(pair.warpdeck.run(["scontrol", "--json", "show", "node", "n4"]).out)["nodes"]
    names = ("name", "state", "state_flags", "reason", "reason_set_by_user")
    assert [[node[name] for name in names] for node in ours] == [
        [node[name] for name in names] for node in theirs
    ]
