"""Table of the Slurm-compatible commands.

This module imports nothing, because `squeue` reads it at each start.
"""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    "sacct": "sacct.sacct",
    "sacctmgr": "sacctmgr.sacctmgr",
    "sattach": "viewers.sattach",
    "sbatch": "submit.sbatch",
    "scancel": "submit.scancel",
    "scontrol": "scontrol.scontrol",
    "sdiag": "viewers.sdiag",
    "seff": "sacct.seff",
    "sinfo": "viewers.sinfo",
    "sprio": "viewers.sprio",
    "squeue": "viewers.squeue",
    "sreport": "sacct.sreport",
    "sshare": "viewers.sshare",
    "sstat": "sacct.sstat",
    "strigger": "viewers.strigger",
}
"""Command -> module below warpdeck.slurm with `main(words, console) -> exit code`."""
FRONTED = ("srun", "salloc", "sbcast")
"""Commands that use the terminal directly: modules of warpdeck.slurm.interactive with `main(name, words)`."""
APP = "sview"
