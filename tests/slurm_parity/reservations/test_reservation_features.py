"""Reservations of licenses, for groups, and on nodes with features, beside a real Slurm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.pair import H100_SITE, side_by_side
from tests.slurm_parity.peer.warpdeck_cluster import SITE as WARPDECK_SITE
from tests.slurm_parity.reservations.test_reservations import CREATE, UPDATE, WHEN, EmptyPair
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
NODE_LINE = next(line for line in H100_SITE.splitlines() if line.startswith("NodeName="))
FIRST_NODES = NODE_LINE.replace("n[1-4]", "n[1-2]", 1).replace("6821]", "6819]") + " Feature=big,fast"
SECOND_NODES = NODE_LINE.replace("n[1-4]", "n[3-4]", 1).replace("[6818", "[6820") + " Feature=small"
SLURM_SITE = H100_SITE.replace(NODE_LINE, f"Licenses=matlab:10,comsol:4\n{FIRST_NODES}\n{SECOND_NODES}")
SITE = (
    WARPDECK_SITE
    + """
[licenses]
matlab = 10
comsol = 4
[nodes."n[1-2]"]
features = ["big", "fast"]
[nodes."n[3-4]"]
features = ["small"]
"""
)
WITHOUT_USERS = f"create reservation reservationname=R {WHEN}"
CREATE_LINES = (
    *(f"{CREATE} {argv}" for argv in (
        "licenses=matlab:2", "licenses=matlab:2 nodes=n1", "licenses=matlab:200", "licenses=zz:2", "licenses=matlab",
        "licenses=matlab:2 flags=LICENSE_ONLY", "licenses=matlab:2 flags=ANY_NODES",
        "licenses=matlab=2 flags=any", "licenses=matlab:x flags=any", "licenses=matlab:2 nodecnt=1",
        "features=big nodecnt=1", "features=big", "features=big nodes=n1", "features=big nodes=n3", "features=zz nodecnt=1",
        "features=small nodecnt=1", "features=big|small nodecnt=3", "features=big&fast nodecnt=1", "features=big nodecnt=3",
        "feature=small corecnt=4", "features=big nodes=ALL", "features=!big nodecnt=1", "features=(big|small)&fast nodecnt=1",
        "groups=adm nodes=n1", "maxstartdelay")),
    *(f"{WITHOUT_USERS} {argv} nodes=n1" for argv in (
        "groups=daemon", "groups=zz", "groups=-daemon", "groups=daemon,root", "group=root", "groups=root flags=MAGNETIC")),
)  # fmt: skip


class LicensedPair(EmptyPair):
    """Both schedulers with licenses and features."""

    fields = (*EmptyPair.fields, "Features", "Licenses", "Groups")


@pytest.fixture(scope="module")
def pair() -> Iterator[LicensedPair]:
    with side_by_side(LicensedPair, slurm_site=SLURM_SITE, warpdeck_site=SITE) as both:
        yield both


@pytest.mark.parametrize("line", CREATE_LINES)
def test_a_reservation_is_created_as_in_slurm(pair: LicensedPair, line: str) -> None:
    pair.assert_same_reservations(line)


@pytest.mark.parametrize(
    ("creation", "argv"),
    [
        *(
            ("nodes=n1", argv)
            for argv in ("licenses=matlab:2", "licenses=", "features=big", "groups=adm", "groups+=adm")
        ),
        *(
            ("licenses=matlab:2 flags=any", argv)
            for argv in ("licenses=matlab:3", "licenses=", "licenses+=comsol:1", "nodes=n1", "licenses=zz:3")
        ),
        *(
            ("features=big nodecnt=1", argv)
            for argv in ("features=small", "features=", "nodecnt=2", "nodes=n3", "features=small nodecnt=2")
        ),
    ],
)
def test_licenses_and_features_of_a_reservation_are_updated_as_in_slurm(
    pair: LicensedPair, creation: str, argv: str
) -> None:
    pair.assert_same_reservations(f"{CREATE} {creation}", f"{UPDATE} {argv}")


@pytest.mark.parametrize(
    "argv", ["groups=root", "groups+=root", "groups-=daemon", "users=nobody", "users+=root", "groups="]
)
def test_groups_of_a_reservation_are_updated_as_in_slurm(pair: LicensedPair, argv: str) -> None:
    pair.assert_same_reservations(f"{WITHOUT_USERS} groups=daemon nodes=n1", f"{UPDATE} {argv}")


def test_reserved_licenses_are_kept_for_jobs_of_the_reservation(pair: LicensedPair) -> None:
    create_line = "create reservation reservationname=L starttime=now duration=60 users=root licenses=matlab:8 flags=ANY_NODES"
    outcomes = []
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(["scontrol", *create_line.split()]).rc == 0
        jobs = []
        for argv, expected in (
            ("-L matlab:3", "PD (null) Licenses"),
            ("-L matlab:8 --reservation=L", "R L None"),
        ):
            submitted = cluster.run(["sbatch", "--parsable", "-t5", *argv.split(), "--wrap", "sleep 1000"])
            jobs.append(submitted.out.strip())
            if expected.startswith("R") and cluster is pair.warpdeck:
                pair.warpdeck.wait_until_running(int(jobs[-1]))
            squeue_argv = ["squeue", "-h", "-j", jobs[-1], "-o", "%t %v %r"]
            eventually(
                lambda run=cluster.run, squeue_argv=squeue_argv, expected=expected: (
                    run(squeue_argv).out.strip() == expected
                ),
                what=argv,
                timeout_s=60,
            )
        outcomes.append(cluster.run(["squeue", "-h", "-j", ",".join(jobs), "-S", "i", "-o", "%t %v %r"]).out)
        outcomes[-1] += cluster.run(["scontrol", "show", "licenses"]).out
        for job in jobs:
            cluster.run(["scancel", job])
    assert outcomes[1] == outcomes[0]
