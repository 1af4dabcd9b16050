"""Reasons why options of sbatch, salloc or srun are rejected, and alternatives.

These options would change the resources of a job, so they are not ignored. Options without an entry here are
rejected with a general message.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError

_SOCKETS = "CPUs are not chosen by socket"
_FREQUENCY = ("clock frequencies are not changed", "ask an administrator for a prolog that sets them")
_ORDER = ("nodes are chosen by their free resources", "name the nodes with --nodelist")
_OTHER_USER = ("jobs run as the user who submits them", "submit as that user: sudo -u NAME sbatch ...")
_CLUSTER = ("there is one cluster here, called warpdeck", "leave the option out")
_ON_SUBMIT_HOST = (
    "srun runs no programs on the submit host",
    "run the program in the script, before or after srun",
)
_COPY = (
    "programs are not copied to nodes",
    "put the program where all nodes see it, or use the job's code snapshot",
)

REASONS: dict[str, tuple[str, str]] = {
    "batch": (
        "the script runs on the first node of its job",
        "put --constraint on the component that needs it",
    ),
    "bb": ("there are no burst buffers", "copy the data to $TMPDIR in the script"),
    "bbf": ("there are no burst buffers", "copy the data to $TMPDIR in the script"),
    "bcast": _COPY,
    "bcast-exclude": _COPY,
    "cluster": _CLUSTER,
    "cluster-constraint": _CLUSTER,
    "clusters": _CLUSTER,
    "compress": _COPY,
    "container": ("OCI bundles are not supported", "write --container-image=IMAGE"),
    "container-id": ("OCI bundles are not supported", "write --container-name=NAME"),
    "container-save": (
        "containers are not saved as images",
        "run `podman commit` or `enroot export` in the job",
    ),
    "context": ("jobs have no SELinux contexts", "leave the option out"),
    "cpu-freq": _FREQUENCY,
    "epilog": _ON_SUBMIT_HOST,
    "gid": _OTHER_USER,
    "gpu-freq": _FREQUENCY,
    "gpus-per-socket": (_SOCKETS, "ask for --gpus-per-node"),
    "mcs-label": ("jobs have no MCS labels", "use accounts and partitions"),
    "network": ("network settings are not changed", "leave the option out"),
    "no-allocate": ("every task belongs to an allocation", "leave the option out"),
    "ntasks-per-socket": (_SOCKETS, "write --ntasks-per-node"),
    "ntasks-per-tres": ("Slurm replaced it by --ntasks-per-gpu", "write --ntasks-per-gpu"),
    "prolog": _ON_SUBMIT_HOST,
    "reboot": ("nodes are not rebooted for a job", "ask an administrator to run scontrol reboot"),
    "segment": _ORDER,
    "spread-segments": _ORDER,
    "uid": _OTHER_USER,
    "x11": ("X11 is not forwarded", "use `warpdeck attach` or `warpdeck forward`"),
}


def unsupported(option: str, where: str) -> UserError:
    """Return the error for an unsupported option."""
    reason, hint = REASONS.get(option, ("", "leave the option out if the job can run without it"))
    return UserError(f"{where}: --{option} is not supported{': ' if reason else ''}{reason}", hint)
