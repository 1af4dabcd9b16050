"""Reservations of licenses, for groups and on nodes with features, beside a real Slurm: said alike, and the same afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.our_slurm import SITE as OUR_SITE
from tests.slurm_parity.peer.pair import H100_SITE, side_by_side
from tests.slurm_parity.reservations.test_reservations import UPDATE, WHEN, WHOSE, EmptyPair
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
NODES = next(line for line in H100_SITE.splitlines() if line.startswith("NodeName="))
FIRST = NODES.replace("n[1-4]", "n[1-2]", 1).replace("6821]", "6819]") + " Feature=big,fast"
SECOND = NODES.replace("n[1-4]", "n[3-4]", 1).replace("[6818", "[6820") + " Feature=small"
THEIR_SITE = H100_SITE.replace(NODES, f"Licenses=matlab:10,comsol:4\n{FIRST}\n{SECOND}")
SITE = (
    OUR_SITE
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
    *(f"{WHOSE} {words}" for words in (
        "licenses=matlab:2", "licenses=matlab:2 nodes=n1", "licenses=matlab:200", "licenses=zz:2", "licenses=matlab",
        "licenses=matlab:2 flags=LICENSE_ONLY", "licenses=matlab:2 flags=ANY_NODES",
        "licenses=matlab=2 flags=any", "licenses=matlab:x flags=any", "licenses=matlab:2 nodecnt=1",
        "features=big nodecnt=1", "features=big", "features=big nodes=n1", "features=big nodes=n3", "features=zz nodecnt=1",
        "features=small nodecnt=1", "features=big|small nodecnt=3", "features=big&fast nodecnt=1", "features=big nodecnt=3",
        "feature=small corecnt=4", "features=big nodes=ALL", "features=!big nodecnt=1", "features=(big|small)&fast nodecnt=1",
        "groups=adm nodes=n1", "maxstartdelay")),
    *(f"{NOBODY} {words} nodes=n1" for words in (
        "groups=daemon", "groups=zz", "groups=-daemon", "groups=daemon,root", "group=root", "groups=root flags=MAGNETIC")),
)  # fmt: skip


class LicensedPair(EmptyPair):
    """Both, with licenses and features."""

    fields = (*EmptyPair.fields, "Features", "Licenses", "Groups")


@pytest.fixture(scope="module")
def pair() -> Iterator[LicensedPair]:
    with side_by_side(LicensedPair, their_site=THEIR_SITE, our_site=SITE) as both:
        yield both


@pytest.mark.parametrize("line", MADE)
def test_one_is_made_alike(pair: LicensedPair, line: str) -> None:
    pair.same_after(line)


@pytest.mark.parametrize(
    ("of", "words"),
    [
        *(
            ("nodes=n1", words)
            for words in ("licenses=matlab:2", "licenses=", "features=big", "groups=adm", "groups+=adm")
        ),
        *(
            ("licenses=matlab:2 flags=any", words)
            for words in ("licenses=matlab:3", "licenses=", "licenses+=comsol:1", "nodes=n1", "licenses=zz:3")
        ),
        *(
            ("features=big nodecnt=1", words)
            for words in ("features=small", "features=", "nodecnt=2", "nodes=n3", "features=small nodecnt=2")
        ),
    ],
)
def test_one_is_changed_alike(pair: LicensedPair, of: str, words: str) -> None:
    pair.same_after(f"{WHOSE} {of}", f"{UPDATE} {words}")


@pytest.mark.parametrize(
    "words", ["groups=root", "groups+=root", "groups-=daemon", "users=nobody", "users+=root", "groups="]
)
def test_one_of_groups_is_changed_alike(pair: LicensedPair, words: str) -> None:
    pair.same_after(f"{NOBODY} groups=daemon nodes=n1", f"{UPDATE} {words}")


def test_licenses_are_kept_for_its_jobs(pair: LicensedPair) -> None:
    made = "create reservation reservationname=L starttime=now duration=60 users=root licenses=matlab:8 flags=ANY_NODES"
    told = []
    for cluster in (pair.theirs, pair.ours):
        assert cluster.run(["scontrol", *made.split()]).rc == 0
        jobs = []
        for words, wanted in (
            ("-L matlab:3", "PD (null) Licenses"),
            ("-L matlab:8 --reservation=L", "R L None"),
        ):
            done = cluster.run(["sbatch", "--parsable", "-t5", *words.split(), "--wrap", "sleep 1000"])
            jobs.append(done.out.strip())
            if wanted.startswith("R") and cluster is pair.ours:
                pair.ours.runs(int(jobs[-1]))
            shown = ["squeue", "-h", "-j", jobs[-1], "-o", "%t %v %r"]
            eventually(
                lambda run=cluster.run, shown=shown, wanted=wanted: run(shown).out.strip() == wanted,
                what=words,
                timeout_s=60,
            )
        told.append(cluster.run(["squeue", "-h", "-j", ",".join(jobs), "-S", "i", "-o", "%t %v %r"]).out)
        told[-1] += cluster.run(["scontrol", "show", "licenses"]).out
        for job in jobs:
            cluster.run(["scancel", job])
    assert told[1] == told[0]
