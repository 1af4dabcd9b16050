"""What we say of a script beside what the real sbatch says of it, on scripts that nobody wrote."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.lab.peer import PACKAGES

from warpdeck.notation.options import SBATCH_22_05
from warpdeck.notation.sbatch.fields import Place
from warpdeck.notation.sbatch.verdict import judge

CONF = """ClusterName=x
SlurmctldHost=localhost
SlurmctldPort=1
AuthType=auth/munge
GresTypes=gpu,shard,nvme
SelectType=select/cons_tres
MessageTimeout=1
PluginDir={plugins}
"""
SBATCH_S = 60.0
ENVIRON = {"PATH": "/usr/bin:/bin", "TZ": "UTC"}
_VALUE = re.compile(r"sbatch: (\S+) *: (.*)")
UNREACHED = "Unable to contact slurm controller"
"""What sbatch says at the end of a script that it takes."""


class Sbatch:
    """The real one, whose controller is nowhere: it says what a script sets and comes back."""

    def __init__(self, folder: Path) -> None:
        (plugins,) = (PACKAGES / "root/usr/lib").glob("*/slurm-wlm")
        (folder / "slurm.conf").write_text(CONF.format(plugins=plugins))
        self.folder = folder
        self._environ = {
            **ENVIRON,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "LD_LIBRARY_PATH": f"{plugins}:{plugins.parent}",
        }

    def judge(self, text: str) -> tuple[bool, list[dict[str, str]]]:
        """(whether it takes it, the options it shows)."""
        (self.folder / "job.sh").write_text(text)
        words = [str(PACKAGES / "root/usr/bin/sbatch"), "-vv", "job.sh"]
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self._environ,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=SBATCH_S,
        )
        said = done.stderr.decode()
        parts = said.split("sbatch: defined options\n")[1:]
        shown = [dict(_VALUE.findall(part.split("sbatch: end of defined options")[0])) for part in parts]
        for each in shown:
            each.pop("verbose", None)
        return UNREACHED in said, shown


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Sbatch:
    return Sbatch(tmp_path_factory.mktemp("sbatch"))


COUNT = ["1", "2", "3", "4", "8", "16", "0", "-1", "x", "5:3", "2147483648"]
GPUS = ["1", "2", "4", "8", "a100:2", "a100", "0", "2,1", "a:1,b:2", "-1"]
SIZE = ["64G", "64gb", "512", "100K", "0", "1.5G", "1025K", "all", "-1"]
TIME = ["90", "1:30", "24:00", "2-0", "2-12:30:15", "0", "-1", "12h", "1-", "INFINITE", "1:2:3:4"]
VALUES: dict[str, list[str]] = {
    "nodes": ["1", "2", "2-4", "4-2", "4k", "1-1", "-3", "2,4", "0"],
    **dict.fromkeys(["ntasks", "cpus-per-task", "ntasks-per-node", "mincpus", "sockets-per-node"], COUNT),
    **dict.fromkeys(["ntasks-per-gpu", "cpus-per-gpu", "threads-per-core", "ntasks-per-socket"], COUNT),
    **dict.fromkeys(["gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"], GPUS),
    "gres": [
        "gpu",
        "gpu:2",
        "gpu:a100:2",
        "gpu:",
        "gpu=2",
        "none",
        "foo:1",
        "shard:4",
        "gpu:1,nvme:2",
        "gpu:1,shard:1",
    ],
    **dict.fromkeys(["mem", "mem-per-cpu", "mem-per-gpu", "tmp"], SIZE),
    "time": TIME,
    "time-min": TIME,
    "delay-boot": TIME,
    "signal": ["USR1", "B:USR1@120", "SIGTERM@5", "RB:10", "FOO", "USR1@70000", "b:usr1", "@60"],
    "mail-type": ["ALL", "begin,end", "NONE", "FOO", "END,FOO", "TIME_LIMIT_80,FAIL"],
    "distribution": ["block", "cyclic:fcyclic", "*:*", "plane=2", "plane", "arbitrary", "block,pack", "x"],
    "nodelist": ["a", "n[1-3]", "a,b,a", "n[3-1]", "n[1-", "./hosts"],
    "exclude": ["a", "n[3-1]", "/nowhere"],
    "hint": ["nomultithread", "multithread", "compute_bound", "x"],
    "gpu-bind": ["closest", "single:1", "map_gpu:0,1", "x"],
    "cpu-freq": ["low-high", "high-low", "performance", "powersave", "2400000"],
    "mem-bind": ["local", "v,rank", "map_mem:0,1", "mask_mem:x"],
    "exclusive": ["user", "x"],
    "extra-node-info": ["2:3", "*:2", "1-2", "x"],
    "switches": ["1", "2@5", "x"],
    "nice": ["5", "x", "9999999999"],
    "propagate": ["ALL", "MEMLOCK", "x"],
    "begin": ["2030-01-20T12:34", "01/20/30", "soon", "2030-13-01"],
    "open-mode": ["append", "t", "x"],
    "output": ["a.out", "logs/%j", "/abs/x", "none"],
    "job-name": ["a", "'a b'", '"a#b"', "a#b", "$USER"],
    "comment": ['""', "größe", "a\\ b"],
}
ODD = [
    "#SBATCH hetjob",
    "#SBATCH packjob",
    "# c",
    "",
    "true",
    "#SBATCH",
    "#SBATCH :",
    "#SBATCH -J x y",
    " #SBATCH -n 9",
]
FLAGS = [
    "--requeue",
    "--no-requeue",
    "--exclusive",
    "--overcommit",
    "-s",
    "--nice",
    "--wait",
    "-k",
    "--co",
    "--bogus",
]


def _option(name: str, value: str) -> str:
    return f"#SBATCH --{name}={value}"


LINES = st.one_of(
    *(st.builds(_option, st.just(name), st.sampled_from(values)) for name, values in VALUES.items()),
    st.sampled_from(FLAGS).map("#SBATCH {}".format),
    st.sampled_from(ODD),
    st.sampled_from(sorted(SBATCH_22_05.shorts)).map("#SBATCH -{}2".format),
)


@pytest.mark.slurm
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(lines=st.lists(LINES, min_size=1, max_size=6))
def test_the_real_sbatch_says_the_same(real: Sbatch, lines: list[str]) -> None:
    folder = real.folder
    text = "#!/bin/sh\n" + "\n".join(lines) + "\n"
    place = Place(
        cwd=str(folder), environ=ENVIRON, now=time.time(), is_root=True, user_id=_number, group_id=_number
    )
    found = judge(text, "job.sh", place)
    assert (found.accepted, found.shown) == real.judge(text), found.fault


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
