"""The engine over a real Slurm keeps the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.integration.engines.contract import EngineContract, Rig
from tests.integration.engines.slurm_rig import slurm_rig, small_slurm


@pytest.mark.slurm
@pytest.mark.asyncio(loop_scope="class")
class TestSlurm(EngineContract):
    """All tests share one gateway."""

    @pytest_asyncio.fixture(scope="class", loop_scope="class")
    async def rig(self) -> AsyncIterator[Rig]:
        with small_slurm(accounting=True) as slurm:
            async for made in slurm_rig(slurm):
                yield made
