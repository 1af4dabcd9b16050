"""This machine's agent in the foreground, for systemd: python -m warpdeck.daemon.agent_process --home FOLDER."""

from __future__ import annotations

import os
import sys

from warpdeck.base.paths import OWN, Paths
from warpdeck.daemon.home_process import argument_parser
from warpdeck.fleet.build import build_local_zipapp


def main() -> int:
    """Replace this process by the agent of our build."""
    paths = Paths(argument_parser("agent").parse_args().home, wanted_engine=OWN)
    program, _ = build_local_zipapp(paths.agent)
    os.execv(sys.executable, [sys.executable, program, "serve", "--dir", paths.agent])


if __name__ == "__main__":
    sys.exit(main())
