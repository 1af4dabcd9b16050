"""The process of a gateway to Slurm. Start it with python -m warpdeck.daemon.gateway_process --home FOLDER."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time

import msgspec

from warpdeck.base.background_task import cancel
from warpdeck.base.errors import UserError
from warpdeck.base.paths import SLURM, Paths
from warpdeck.daemon.home_process import argument_parser, handle_signals, leave_starter, run_process
from warpdeck.engines.slurm.engine import slurm_engine
from warpdeck.engines.slurm.settings import SlurmSettings
from warpdeck.server.server import ApiServer
from warpdeck.slurm.shims.shim_scripts import path_without_shims

log = logging.getLogger("warpdeck")

MAX_CONFIG_BYTES = 64 * 1024
"""Largest size of config.toml. It has a few lines, so a larger file is there by mistake."""


class GatewayConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of config.toml in the home of a gateway."""

    slurm: SlurmSettings = SlurmSettings()


def read_settings(path: str) -> SlurmSettings:
    """Return the settings of the file, or the defaults if there is none. Raises UserError."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_CONFIG_BYTES + 1)
        if len(text) > MAX_CONFIG_BYTES:
            raise ValueError(f"larger than {MAX_CONFIG_BYTES // 1024} KiB")
        return msgspec.toml.decode(text, type=GatewayConfig).slurm
    except FileNotFoundError:
        return SlurmSettings()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "check its permissions") from error
    except ValueError as error:  # errors of msgspec are ValueErrors
        raise UserError(f"cannot use {path}: {error}", "correct or remove it") from error


async def serve(paths: Paths) -> None:
    """Run until SIGTERM, which also ends a start that waits for Slurm. A SIGHUP is ignored."""
    stop, _ = handle_signals()
    serving = asyncio.create_task(_serve(paths, stop))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
    await cancel(serving, stopped)
    if not serving.cancelled():
        serving.result()


async def _serve(paths: Paths, stop: asyncio.Event) -> None:
    """Serve until this task is canceled."""
    async with slurm_engine(paths, read_settings(paths.config), clock=time.time) as engine:
        server = ApiServer(engine, paths, stop=stop, clock=time.time)
        await server.start()
        try:
            leave_starter(paths)
            log.info("serving on %s", paths.socket)
            await asyncio.Event().wait()
        finally:
            await server.close()


def main() -> int:
    """Take the lock of the home folder and serve. Return the exit status."""
    args = argument_parser("gateway").parse_args()
    paths = Paths(args.home, wanted_engine=SLURM)
    os.environ["PATH"] = path_without_shims(os.environ.get("PATH", os.defpath))
    return run_process(paths, lambda: serve(paths))


if __name__ == "__main__":
    sys.exit(main())
