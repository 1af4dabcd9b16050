"""Reasons why options of sbatch, salloc or srun are rejected, and alternatives.

These options would change the resources of a job, so they are not ignored. Options without an entry here are
rejected with a general message.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError

_SOCKETS = "jobs hold CPUs of a node here, wherever these lie"
_FREQUENCY = ("clocks are not set here", "ask an admin for a prolog that sets them")
_ORDER = ("nodes are chosen by what is free on them", "name them with --nodelist if they must be those")
_OTHER_USER = ("nobody acts as somebody else here", "submit as that user: sudo -u NAME sbatch ...")
_CLUSTER = ("there is one cluster here, called warpdeck", "take it out")
_ON_SUBMIT_HOST = ("srun runs no programs of its own", "run it in the script, before srun or behind it")
_COPY = ("programs are not copied to nodes", "put it where the nodes see it, or use the job's code snapshot")

REASONS: dict[str, tuple[str, str]] = {
    "batch": (
        "the script runs on the first node of its job",
        "put --constraint on the component that needs it",
    ),
    "bb": ("there are no burst buffers", "copy the data in the script, to $TMPDIR"),
    "bbf": ("there are no burst buffers", "copy the data in the script, to $TMPDIR"),
    "bcast": _COPY,
    "bcast-exclude": _COPY,
    "cluster": _CLUSTER,
    "cluster-constraint": _CLUSTER,
    "clusters": _CLUSTER,
    "compress": _COPY,
    "container": ("OCI bundles are not run", "write --container-image=IMAGE"),
    "container-id": ("OCI bundles are not run", "write --container-name=NAME"),
    "container-save": ("images are not written back", "run `podman commit` or `enroot export` in the job"),
    "context": ("there are no SELinux contexts for jobs", "take it out"),
    "cpu-freq": _FREQUENCY,
    "epilog": _ON_SUBMIT_HOST,
    "gid": _OTHER_USER,
    "gpu-freq": _FREQUENCY,
    "gpus-per-socket": (_SOCKETS, "ask for --gpus-per-node"),
    "mcs-label": ("there are no labels of security", "use accounts and partitions"),
    "network": ("switches of networks are not set here", "take it out"),
    "no-allocate": ("every task belongs to an allocation", "take it out"),
    "ntasks-per-socket": (_SOCKETS, "write --ntasks-per-node"),
    "ntasks-per-tres": ("it was replaced", "write --ntasks-per-gpu"),
    "prolog": _ON_SUBMIT_HOST,
    "reboot": ("nodes are not started anew for a job", "ask an admin: scontrol reboot"),
    "segment": _ORDER,
    "spread-segments": _ORDER,
    "uid": _OTHER_USER,
    "x11": ("X11 is not forwarded", "use `warpdeck attach` or `warpdeck forward`"),
}


def unsupported(option: str, where: str) -> UserError:
    """Return the error for an unsupported option."""
    reason, hint = REASONS.get(option, ("", "take it out if the job can run without it"))
    return UserError(f"{where}: --{option} is not supported{': ' if reason else ''}{reason}", hint)
