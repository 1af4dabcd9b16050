"""Reservations of licenses, for groups and on nodes with features, beside a real Slurm: said alike, and the same afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.pair import H100_SITE, side_by_side
from tests.slurm_parity.peer.warpdeck_cluster import SITE as WARPDECK_SITE
from tests.slurm_parity.reservations.test_reservations import UPDATE, WHEN, WHOSE, EmptyPair
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
NODES = next(line for line in H100_SITE.splitlines() if line.startswith("NodeName="))
FIRST = NODES.replace("n[1-4]", "n[1-2]", 1).replace("6821]", "6819]") + " Feature=big,fast"
SECOND = NODES.replace("n[1-4]", "n[3-4]", 1).replace("[6818", "[6820") + " Feature=small"
SLURM_SITE = H100_SITE.replace(NODES, f"Licenses=matlab:10,comsol:4\n{FIRST}\n{SECOND}")
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
NOBODY = f"create reservation reservationname=R {WHEN}"
MADE = (
    *(f"{WHOSE} {argv}" for argv in (
        "licenses=matlab:2", "licenses=matlab:2 nodes=n1", "licenses=matlab:200", "licenses=zz:2", "licenses=matlab",
        "licenses=matlab:2 flags=LICENSE_ONLY", "licenses=matlab:2 flags=ANY_NODES",
        "licenses=matlab=2 flags=any", "licenses=matlab:x flags=any", "licenses=matlab:2 nodecnt=1",
        "features=big nodecnt=1", "features=big", "features=big nodes=n1", "features=big nodes=n3", "features=zz nodecnt=1",
        "features=small nodecnt=1", "features=big|small nodecnt=3", "features=big&fast nodecnt=1", "features=big nodecnt=3",
        "feature=small corecnt=4", "features=big nodes=ALL", "features=!big nodecnt=1", "features=(big|small)&fast nodecnt=1",
        "groups=adm nodes=n1", "maxstartdelay")),
    *(f"{NOBODY} {argv} nodes=n1" for argv in (
        "groups=daemon", "groups=zz", "groups=-daemon", "groups=daemon,root", "group=root", "groups=root flags=MAGNETIC")),
)  # fmt: skip


class LicensedPair(EmptyPair):
    """Both, with licenses and features."""

    fields = (*EmptyPair.fields, "Features", "Licenses", "Groups")


@pytest.fixture(scope="module")
def pair() -> Iterator[LicensedPair]:
    with side_by_side(LicensedPair, slurm_site=SLURM_SITE, warpdeck_site=SITE) as both:
        yield both


@pytest.mark.parametrize("line", MADE)
def test_one_is_made_alike(pair: LicensedPair, line: str) -> None:
    pair.same_after(line)


@pytest.mark.parametrize(
    ("of", "argv"),
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
def test_one_is_changed_alike(pair: LicensedPair, of: str, argv: str) -> None:
    pair.same_after(f"{WHOSE} {of}", f"{UPDATE} {argv}")


@pytest.mark.parametrize(
    "argv", ["groups=root", "groups+=root", "groups-=daemon", "users=nobody", "users+=root", "groups="]
)
def test_one_of_groups_is_changed_alike(pair: LicensedPair, argv: str) -> None:
    pair.same_after(f"{NOBODY} groups=daemon nodes=n1", f"{UPDATE} {argv}")


def test_licenses_are_kept_for_its_jobs(pair: LicensedPair) -> None:
    made = "create reservation reservationname=L starttime=now duration=60 users=root licenses=matlab:8 flags=ANY_NODES"
    told = []
    for cluster in (pair.slurm, pair.warpdeck):
        assert cluster.run(["scontrol", *made.split()]).rc == 0
        jobs = []
        for argv, wanted in (
            ("-L matlab:3", "PD (null) Licenses"),
            ("-L matlab:8 --reservation=L", "R L None"),
        ):
            done = cluster.run(["sbatch", "--parsable", "-t5", *argv.split(), "--wrap", "sleep 1000"])
            jobs.append(done.out.strip())
            if wanted.startswith("R") and cluster is pair.warpdeck:
                pair.warpdeck.wait_until_running(int(jobs[-1]))
            shown = ["squeue", "-h", "-j", jobs[-1], "-o", "%t %v %r"]
            eventually(
                lambda run=cluster.run, shown=shown, wanted=wanted: run(shown).out.strip() == wanted,
                what=argv,
                timeout_s=60,
            )
        told.append(cluster.run(["squeue", "-h", "-j", ",".join(jobs), "-S", "i", "-o", "%t %v %r"]).out)
        told[-1] += cluster.run(["scontrol", "show", "licenses"]).out
        for job in jobs:
            cluster.run(["scancel", job])
    assert told[1] == told[0]
