"""The engine over a real Slurm keeps the contract, with each supported version of Slurm."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.integration.engines.contract import EngineContract
from tests.integration.engines.rig import Rig
from tests.integration.engines.slurm_rig import slurm_rig, small_slurm
from tests.slurm_parity.peer.real_slurm import VERSIONS

TESTED = ("22.05", "26.05") if os.environ.get("CI") else VERSIONS
"""Under CI the version that most machines of this release of Debian have, and the newest one."""
ACCOUNTING = ("22.05", "26.05")
"""The others run as a site without accounting."""


@pytest.mark.slurm
@pytest.mark.asyncio(loop_scope="class")
class TestSlurm(EngineContract):
    """All tests of a version share one gateway."""

    @pytest_asyncio.fixture(scope="class", loop_scope="class", params=TESTED)
    async def rig(self, request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
        with small_slurm(request.param, accounting=request.param in ACCOUNTING) as slurm:
            async for made in slurm_rig(slurm):
                yield made
