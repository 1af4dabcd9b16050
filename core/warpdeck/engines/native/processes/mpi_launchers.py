"""Advice for MPI launchers that start their processes with srun if these cannot connect back to the launcher.

MPICH's mpiexec in the shell of an salloc waits on that machine for its proxies. They must resolve the
machine's own host name. If nodes cannot resolve it, or a firewall is in between, the proxies fail, and
mpiexec by its design waits forever. Open MPI's mpirun tries all addresses of the machine.
"""

from __future__ import annotations

from warpdeck.model.step import Step

PROXIES = ("hydra_pmi_proxy", "hydra_bstrap_proxy", "pmi_proxy")
"""Proxies of MPICH's mpiexec, of launchers derived from it, and of Intel's launcher."""
CALLS_BACK = (
    "error: mpiexec waits here for processes on the nodes, which could not connect to this machine. Leave it with Ctrl-C and "
    "start the program itself: srun --mpi=pmi2 PROGRAM. Or start mpiexec on a node, from a batch script"
)


def advice(step: Step) -> str:
    """Return a line of advice if a step has failed in this way, or "" for any other step."""
    failed = step.exit is not None and step.exit.code != 0 and not step.ending_cause
    return CALLS_BACK if failed and step.caller is None and step.name in PROXIES else ""
