"""The process of a site gateway to Slurm. Start it with python -m warpdeck.daemon.site_gateway_process --home FOLDER."""

from __future__ import annotations

import logging
import os
import sys

from warpdeck.base.paths import SiteGatewayPaths
from warpdeck.base.shared_home import open_site_gateway
from warpdeck.daemon.gateway_process import read_settings
from warpdeck.daemon.home_process import argument_parser, handle_signals, leave_starter, run_process
from warpdeck.engines.slurm.cluster.polling import Allowance
from warpdeck.engines.slurm.commands import SlurmCommands
from warpdeck.engines.slurm.site_gateway.answers import SiteAnswers
from warpdeck.engines.slurm.site_gateway.server import SiteServer, bind
from warpdeck.engines.slurm.versions import read_version
from warpdeck.slurm.shims.shim_scripts import path_without_shims

log = logging.getLogger("warpdeck")


async def serve(paths: SiteGatewayPaths) -> None:
    """Run until SIGTERM. A SIGHUP is ignored. Raises UserError if Slurm's commands are missing or too old."""
    stop, _ = handle_signals()
    open_site_gateway(paths)
    commands = SlurmCommands()
    read_version(await commands.read("sbatch", "--version"))
    answers = SiteAnswers(commands, Allowance(read_settings(paths.config)))
    listener = bind(paths.socket)
    async with SiteServer(answers).listening(listener):
        leave_starter(paths)
        log.info("serving all users on %s", paths.socket)
        await stop.wait()


def main() -> int:
    """Take the lock of the home folder and serve. Return the exit status."""
    args = argument_parser("site_gateway").parse_args()
    paths = SiteGatewayPaths(args.home)
    os.environ["PATH"] = path_without_shims(os.environ.get("PATH", os.defpath))
    return run_process(paths, lambda: serve(paths))


if __name__ == "__main__":
    sys.exit(main())
