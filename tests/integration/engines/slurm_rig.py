"""A gateway in this process over a real Slurm whose only node is in its own namespaces."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.engines.rig import Rig
from tests.slurm_parity.peer.real_slurm import HOST, NO_ACCOUNTING, PORT, RealSlurm
from tests.support.home import Home, temporary_home

from warpdeck.base.paths import Paths
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.engine import slurm_engine
from warpdeck.engines.slurm.settings import SlurmSettings
from warpdeck.ports.caller import Caller, Principal

NODE = "n1"
SITE = f"""
SelectTypeParameters=CR_Core_Memory
EnforcePartLimits=ALL
GresTypes=gpu
DefMemPerCPU=100
JobCompType=jobcomp/none
{NO_ACCOUNTING}\
NodeName={NODE} NodeHostname={HOST} NodeAddr=127.0.0.1 Port={PORT + 1} \
CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=64000 Gres=gpu:a100:4 State=UNKNOWN
PartitionName=gpu Nodes={NODE} Default=YES MaxTime=7-0 DefaultTime=1:00:00 State=UP
"""
GRES = f"NodeName={NODE} Name=gpu Type=a100 File={{folder}}/gpu[0-3]\n"
OFTEN = 6000.0
"""Requests a minute in tests, which would else wait for the next look most of their time."""


@contextmanager
def small_slurm(version: str = "22.05", *, accounting: bool = False) -> Iterator[RealSlurm]:
    """Run a Slurm with one node."""
    with RealSlurm(SITE, nodes=(NODE,), gres=GRES, version=version, accounting=accounting) as slurm:
        yield slurm


def commands_of(slurm: RealSlurm, folder: Path) -> SlurmCommands:
    """Return commands that run in the namespaces of this Slurm."""
    return SlurmCommands({**os.environ, **slurm.wrappers(folder / "bin")})


def often(home: Home) -> SlurmSettings:
    """Return settings with which a test need not wait for the next look."""
    return SlurmSettings(
        requests_per_minute=OFTEN, idle_requests_per_minute=OFTEN, folder=str(home.path.parent / "shared")
    )


async def slurm_rig(slurm: RealSlurm) -> AsyncIterator[Rig]:
    """Yield a rig with an open gateway. Its user is root, because Slurm's daemons know no other user of this machine."""
    with temporary_home() as home:
        home.path.mkdir()
        folder = home.path.parent / "work"
        folder.mkdir()
        uid = os.geteuid()
        user = Principal(user=pwd.getpwuid(uid).pw_name, uid=uid)
        commands = commands_of(slurm, home.path.parent)
        async with slurm_engine(
            Paths(str(home.path)), often(home), clock=time.time, commands=commands
        ) as engine:
            yield Rig(
                engine=engine,
                user=Caller(user),
                other=Caller(Principal(user="somebody", uid=uid + 1)),
                admin=Caller(Principal(user=user.user, uid=uid, admin=True)),
                node=NODE,
                folder=folder,
            )
