"""Command line of the agent: python3 agent.pyz start|serve|attach --dir FOLDER.

The internal commands are `supervise`, `ptyhost`, `ptytask`, `readfile`, `unpack`, and `check`, which tests
whether this Python can run the agent. `jobterminal`, `gateway` and `gpusampler` run inside jobs of Slurm, and
`readings` on Slurm's nodes, if their administrators want it.
"""

from __future__ import annotations

import sys
from typing import List

USAGE = "usage: agent.pyz start|serve|attach --dir FOLDER"

OLDEST = (3, 9)


def main(argv: List[str]) -> int:
    """Run one command and return its exit code.

    Modules are imported on demand, so that attach and ptyhost stay small.
    """
    if len(argv) > 1 and argv[0] == "ptyhost":
        from warpdeck_agent.streams.pty_host import main as ptyhost

        return ptyhost(argv[1:])
    if len(argv) > 1 and argv[0] == "jobterminal":
        from warpdeck_agent.attach.job_terminal import main as job_terminal

        return job_terminal(argv[1:])
    if len(argv) > 1 and argv[0] == "gateway":
        sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]  # asyncio would load it
        from warpdeck_agent.attach.gateway_session import main as serve_gateway

        return serve_gateway(argv[1:])
    if len(argv) > 1 and argv[0] in ("gpusampler", "readings"):
        return _measure(argv)
    if len(argv) > 1 and argv[0] == "ptytask":
        from warpdeck_agent.tasks.pty_task import main as ptytask

        return ptytask(argv[1:])
    if len(argv) == 3 and argv[0] == "readfile":
        from warpdeck_agent.linux.file_reading import main as read_file

        return read_file(argv[1:])
    if argv == ["unpack"]:
        from warpdeck_agent.code.unpacking import main as unpack

        return unpack()
    if argv == ["check"]:
        return 0 if sys.version_info >= OLDEST else 1
    if len(argv) == 3 and argv[:2] == ["supervise", "--dir"]:
        from warpdeck_agent.supervisor.supervisor import main as supervise

        return supervise(argv[2])
    if len(argv) == 3 and argv[1] == "--dir":
        sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]  # asyncio would load it: 4 MB for nothing
        from .daemon import detached

        commands = {"start": detached.start, "serve": detached.serve, "attach": detached.attach}
        if argv[0] in commands:
            return commands[argv[0]](argv[2])
    print(USAGE, file=sys.stderr)
    return 2


def _measure(argv: List[str]) -> int:
    """Run a program that only reads the GPUs of the node."""
    if argv[0] == "gpusampler":
        from warpdeck_agent.gpu.job_sampler import main as sample_gpus

        return sample_gpus(argv[1:])
    from warpdeck_agent.gpu.readings_file import main as write_readings

    return write_readings(argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
