"""Run the real sbatch, srun and salloc without a controller, to print the values of their options.

It also contains values to try.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.slurm_parity.peer.real_slurm import PACKAGES

CONF = """ClusterName=x
SlurmctldHost=localhost
SlurmctldPort=1
AuthType=auth/munge
GresTypes=gpu,shard,nvme
SelectType=select/cons_tres
MessageTimeout=1
TaskPlugin=task/affinity
PluginDir={plugins}
"""
ENVIRON = {"PATH": "/usr/bin:/bin", "TZ": "UTC"}
UNREACHED = "Unable to contact slurm controller"
"""The last message of a command with valid arguments."""

_COUNTS_ON = re.compile(r"(?=.*ntasks=2147483648)(?=.*(nodes|nodelist|nodefile)=)", re.DOTALL)


def terminates(text: str) -> bool:
    """Return whether the real commands terminate.

    With a negative number of tasks, for example 2**31, they loop over the tasks of each node.
    """
    return not _COUNTS_ON.search(text)


def without_controller(folder: Path) -> dict[str, str]:
    """Return an environment in which they run without a controller. Write the required files to the folder."""
    (plugins,) = (PACKAGES / "root/usr/lib").glob("*/slurm-wlm")
    (folder / "slurm.conf").write_text(CONF.format(plugins=plugins))
    return {"SLURM_CONF": str(folder / "slurm.conf"), "LD_LIBRARY_PATH": f"{plugins}:{plugins.parent}"}


def shown_by(command: str, output: str) -> list[dict[str, str]]:
    """Return the option values that a command shows with -vv, for each component."""
    parts = output.split(f"{command}: defined options\n")[1:]
    found = [
        dict(re.findall(rf"{command}: (\S+) *: (.*)", part.split(f"{command}: end of defined options")[0]))
        for part in parts
    ]
    for each in found:
        each.pop("verbose", None)
        each.pop("(null)", None)  # one half of --switches
    return found


COUNT = ["1", "2", "3", "4", "8", "16", "0", "-1", "x", "5:3", "2147483648"]
GPUS = ["1", "2", "4", "8", "a100:2", "a100", "0", "2,1", "a:1,b:2", "-1"]
SIZE = ["64G", "64gb", "512", "100K", "0", "1.5G", "1025K", "all", "-1"]
TIME = ["90", "1:30", "24:00", "2-0", "2-12:30:15", "0", "-1", "12h", "1-", "INFINITE", "1:2:3:4", "35791394"]
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
    "hint": ["nomultithread", "multithread", "compute_bound", "x", "help"],
    "gpu-bind": ["closest", "single:1", "map_gpu:0,1", "x", "map_gpu:0,x", "mask_gpu:0x1*g"],
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
