"""A real Slurm and our controller, each with the same site and the same command lines, and what they say side by side.

with side_by_side(Pair, their_site=H100_SITE, gres=H100_GRES) as pair:
    pair.same("squeue", "-S", "i")
"""

from __future__ import annotations

import difflib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, TypeVar

from .our_slurm import SITE as OUR_SITE
from .our_slurm import OurSlurm
from .real_slurm import SITE, Done, RealSlurm

P = TypeVar("P", bound="Pair")
H100_SITE = SITE.replace(
    "Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=64000", "RealMemory=65536"
).replace("a100", "h100")
"""Nodes such as ours say that they are."""
H100_GRES = "NodeName=n[1-4] Name=gpu Type=h100 File={folder}/gpu[0-3]\n"
TIME = {r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d": "TIME"}
JOB_FACTS = {
    **TIME,
    r"LastSchedEval=\S+": "LastSchedEval=T",
    r"AllocNode:Sid=\S+": "AllocNode:Sid=A",
    r"Priority=\d+ ": "Priority=P ",
    r"QOS=\S+": "QOS=Q",
    r",gres/gpu=\d+": "",
    r"slurm-wlm ": "slurm ",
}
"""What else of a job's text differs from one moment, machine and accounting to another."""


class Pair:
    """Both. What differs by its nature is `apart`: patterns, and what is read in their place."""

    apart: ClassVar[Mapping[str, str]] = TIME

    def __init__(self, theirs: RealSlurm, ours: OurSlurm) -> None:
        self.theirs = theirs
        self.ours = ours

    def same(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        user: str = "root",
        data: str = "",
        in_order: bool = True,
    ) -> str:
        """What ours prints of a command line, after all that it says and how it ends was compared with theirs."""
        wanted = self.theirs.run(words, env=env, user=user, data=data)
        found = self.ours.run(words, env=env, user=user, data=data)
        theirs, mine = self.plain(wanted), self.plain(found)
        if not in_order:
            theirs, mine = sorted(theirs), sorted(mine)
        assert mine == theirs, " ".join(words) + "\n" + difference(theirs, mine)
        return found.out

    def plain(self, done: Done) -> list[str]:
        """The lines that are compared."""
        return self.without(f"{done.out}errors:\n{done.err}exit code {done.rc}").splitlines()

    def without(self, text: str) -> str:
        """The text without their folders, and without what is `apart`."""
        for folder in (self.theirs.folder, self.ours.folder):
            text = text.replace(str(folder), "FOLDER")
        for pattern, word in self.apart.items():
            text = re.sub(pattern, word, text, flags=re.M)
        return text


def difference(theirs: Sequence[str], ours: Sequence[str]) -> str:
    """The lines that are not the same, for whoever reads why a test has failed."""
    return "\n".join(difflib.unified_diff(theirs, ours, "theirs", "ours", lineterm="", n=0))


@contextmanager
def side_by_side(
    kind: type[P],
    *,
    their_site: str = H100_SITE,
    gres: str = H100_GRES,
    our_site: str = OUR_SITE,
    accounting: bool = False,
    accounts: Sequence[str] = (),
) -> Iterator[P]:
    """Both, until the block ends; `accounting` and `accounts` are the real one's (RealSlurm)."""
    folder = Path(tempfile.mkdtemp(prefix="wdo", dir="/tmp"))
    real = RealSlurm(their_site, gres=gres, accounting=accounting, accounts=accounts)
    try:
        with real as theirs, OurSlurm(folder, site=our_site) as ours:
            yield kind(theirs, ours)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
