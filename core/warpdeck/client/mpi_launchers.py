"""MPI's own launchers that start their processes by srun: what to do where those could not come back to them.

MPICH's mpiexec in the shell of an salloc waits on that machine for its proxies, which must find it by the name that it has there.
Where nodes do not know the name, or a firewall is between, the proxies fail, and mpiexec, as it is written, waits for ever.
Open MPI's mpirun tries all addresses that it has.
"""

from __future__ import annotations

from warpdeck.model.step import Step

PROXIES = ("hydra_pmi_proxy", "hydra_bstrap_proxy", "pmi_proxy")
"""Of MPICH's mpiexec, of those made of it, and of Intel's."""
CALLS_BACK = (
    "error: mpiexec waits here for processes on the nodes, which could not connect to this machine. Leave it with Ctrl-C and "
    "start the program itself: srun --mpi=pmi2 PROGRAM. Or start mpiexec on a node, from a batch script"
)


def advice(step: Step) -> str:
    """A line for the srun of a step that has failed so; "" for any other."""
    failed = step.exit is not None and step.exit.code != 0 and not step.ending_cause
    return CALLS_BACK if failed and step.caller is None and step.name in PROXIES else ""
