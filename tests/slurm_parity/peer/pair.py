"""A real Slurm and our controller with the same site and command lines, and their outputs compared.

with side_by_side(Pair, slurm_site=H100_SITE, gres=H100_GRES) as pair:
    pair.assert_same("squeue", "-S", "i")
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

from .real_slurm import SITE, CommandResult, RealSlurm
from .warpdeck_cluster import SITE as WARPDECK_SITE
from .warpdeck_cluster import WarpdeckCluster

Side = RealSlurm | WarpdeckCluster
P = TypeVar("P", bound="Pair")
H100_SITE = SITE.replace(
    "Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=64000", "RealMemory=65536"
).replace("a100", "h100")
"""The site with nodes as our simulated nodes describe themselves."""
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
"""Other parts of a job's text that differ between moments, machines and accounting setups."""


class Pair:
    """Both schedulers.

    `masks` maps patterns of text that necessarily differs to the text that replaces them.
    """

    masks: ClassVar[Mapping[str, str]] = TIME

    def __init__(self, slurm: RealSlurm, warpdeck: WarpdeckCluster) -> None:
        self.slurm = slurm
        self.warpdeck = warpdeck

    @property
    def both(self) -> tuple[Side, Side]:
        return self.slurm, self.warpdeck

    def assert_same(
        self,
        *argv: str,
        env: Mapping[str, str] | None = None,
        user: str = "root",
        data: str = "",
        in_order: bool = True,
    ) -> str:
        """Run a command line on both, assert equal output and exit code, and return our output."""
        wanted = self.slurm.run(argv, env=env, user=user, data=data)
        found = self.warpdeck.run(argv, env=env, user=user, data=data)
        expected, actual = self.comparable_lines(wanted), self.comparable_lines(found)
        if not in_order:
            expected, actual = sorted(expected), sorted(actual)
        assert actual == expected, " ".join(argv) + "\n" + diff_text(expected, actual)
        return found.out

    def comparable_lines(self, result: CommandResult) -> list[str]:
        """Return the lines that are compared."""
        return self.mask(f"{result.out}errors:\n{result.err}exit code {result.rc}").splitlines()

    def mask(self, text: str) -> str:
        """Return the text without the two folders and with `masks` applied."""
        for folder in (self.slurm.folder, self.warpdeck.folder):
            text = text.replace(str(folder), "FOLDER")
        for pattern, word in self.masks.items():
            text = re.sub(pattern, word, text, flags=re.M)
        return text


def diff_text(slurm: Sequence[str], warpdeck: Sequence[str]) -> str:
    """Return the lines that differ, for the message of a failed test."""
    return "\n".join(difflib.unified_diff(slurm, warpdeck, "slurm", "warpdeck", lineterm="", n=0))


@contextmanager
def side_by_side(
    kind: type[P],
    *,
    slurm_site: str = H100_SITE,
    gres: str = H100_GRES,
    warpdeck_site: str = WARPDECK_SITE,
    accounting: bool = False,
    accounts: Sequence[str] = (),
    database: str = "",
) -> Iterator[P]:
    """Run both schedulers until the block ends. `accounting` and `accounts` configure the real one (see
    RealSlurm).
    """
    folder = Path(tempfile.mkdtemp(prefix="wdo", dir="/tmp"))
    real = RealSlurm(slurm_site, gres=gres, accounting=accounting, accounts=accounts, database=database)
    try:
        with real as slurm, WarpdeckCluster(folder, site=warpdeck_site) as warpdeck:
            yield kind(slurm, warpdeck)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
