"""Partitions, reservations and licenses as JSON, beside the output of slurmrestd for objects made by the same
lines.

scontrol of 22.05 has no --json. In later versions it prints the output of data_parser, as slurmrestd does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.slurm_parity.peer.pair import H100_SITE, Pair, diff_text, side_by_side
from tests.slurm_parity.peer.warpdeck_cluster import SITE as WARPDECK_SITE

pytestmark = [pytest.mark.slurm, pytest.mark.slurmrestd]
WHEN = "starttime=2038-01-01T10:00:00 duration=60"
RESERVATIONS = (
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
SITE = f"""{WARPDECK_SITE}
[licenses]
matlab = 5
idl = 3
[qos.normal]
[accounts.lab.users.root]
"""


class JsonPair(Pair):
    """Both schedulers, and the comparison of their JSON."""

    def assert_same_json(
        self, kind: str, things: str, *, varying: tuple[str, ...] = ()
    ) -> list[dict[str, Any]]:
        """Assert that `scontrol show WORD --json` equals slurmrestd's `things`, and return our values."""
        slurm = self.slurm.rest(things)
        warpdeck = json.loads(self.warpdeck.run(["scontrol", "--json", "show", kind]).out)
        wanted, found = (_lines(document, things, varying) for document in (slurm, warpdeck))
        assert found == wanted, diff_text(wanted, found)
        return list(warpdeck[things])


def _lines(document: dict[str, Any], things: str, varying: tuple[str, ...]) -> list[str]:
    """Return the JSON as sorted lines. Of `varying` keys only the type of the value is kept.

    IGNORE_JOBS is left out, because our reservations always leave running jobs on their nodes alone.
    """
    for row in document[things]:
        row.update({key: type(row[key]).__name__ for key in varying})
        row["flags"] = [flag for flag in row.get("flags", ()) if flag != "IGNORE_JOBS"]
    rows = sorted(document[things], key=lambda row: str(row.get("name", row.get("LicenseName"))))
    return json.dumps({**document, things: rows}, indent=2).splitlines()


@pytest.fixture(scope="module")
def pair() -> Iterator[JsonPair]:
    slurm_site = f"Licenses=matlab:5,idl:3\n{H100_SITE}"
    lines = ["add account lab", "add user root account=lab"]
    with side_by_side(
        JsonPair, slurm_site=slurm_site, warpdeck_site=SITE, accounting=True, accounts=lines
    ) as both:
        yield both


def test_partitions_have_the_json_of_slurm(pair: JsonPair) -> None:
    for number, argv in enumerate(PARTITIONS):
        for cluster in (pair.slurm, pair.warpdeck):
            result = cluster.run(["scontrol", "create", f"partitionname=p{number}", *argv.split()])
            assert result.rc == 0, result
    document = pair.assert_same_json("partition", "partitions")
    assert [row["name"] for row in document] == ["gpu", "debug", "p0", "p1", "p2", "p3"]


@pytest.mark.parametrize("argv", RESERVATIONS)
def test_a_reservation_has_the_json_of_slurm(pair: JsonPair, argv: str) -> None:
    line = ["scontrol", "create", "reservation", "reservationname=R", *WHEN.split(), *argv.split()]
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(line).rc == 0
    try:
        varying = ("start_time", "end_time") if "TIME_FLOAT" in argv else ()
        document = pair.assert_same_json("reservation", "reservations", varying=varying)
        assert [row["name"] for row in document] == ["R"]
    finally:
        for cluster in (pair.slurm, pair.warpdeck):
            assert cluster.run(["scontrol", "delete", "reservationname=R"]).rc == 0


def test_licenses_have_the_json_of_slurm(pair: JsonPair) -> None:
    line = "scontrol create reservation reservationname=L starttime=now duration=60 users=root licenses=matlab:2 flags=ANY_NODES"
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(line.split()).rc == 0
    document = pair.assert_same_json("licenses", "licenses")
    assert [row["Reserved"] for row in document] == [0, 2]
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(["scontrol", "delete", "reservationname=L"]).rc == 0


def test_the_drain_reason_of_a_node_has_the_json_of_slurm(pair: JsonPair) -> None:
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(["scontrol", "update", "nodename=n4", "state=drain", "reason=bad fan"]).rc == 0
    slurm = pair.slurm.rest("node/n4")["nodes"]
    warpdeck = json.loads(pair.warpdeck.run(["scontrol", "--json", "show", "node", "n4"]).out)["nodes"]
    names = ("name", "state", "state_flags", "reason", "reason_set_by_user")
    assert [[node[name] for name in names] for node in warpdeck] == [
        [node[name] for name in names] for node in slurm
    ]
