"""Puts our program for nodes into the shared folder: the terminals of sessions and the steps that join them.

It is the agent of the native engine as one file. Nothing is installed on nodes; they need Python 3.9 or newer. The name
contains the hash of the program, so jobs that run keep theirs when warpdeck is updated.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from dataclasses import dataclass, field

from warpdeck.base.errors import UserError
from warpdeck.fleet.build import build_local_zipapp
from warpdeck.model import Request

_RUN = """\
#!/bin/sh
# Runs warpdeck's program for nodes with the first Python that is new enough.
for python in {own} python3 /usr/bin/python3 /usr/local/bin/python3 \\
    python3.14 python3.13 python3.12 python3.11 python3.10 python3.9; do
    if "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
        exec "$python" -I {agent} "$@"
    fi
done
echo "warpdeck: $(uname -n) has no Python 3.9 or newer, which sessions need" >&2
exit 127
"""


@dataclass
class Programs:
    """The programs below the gateway's folder on the shared file system."""

    folder: str
    _run: str = field(default="", init=False)

    async def run(self) -> str:
        """Return the path of the script that runs the program. Raises UserError if it cannot be written."""
        if not self._run or not os.path.exists(self._run):
            self._run = await asyncio.to_thread(self._write)
        return self._run

    async def terminal(self, request: Request) -> list[str]:
        """Return the beginning of a command line that runs a command on a terminal. Raises UserError."""
        assert request.pty is not None
        return [await self.run(), "jobterminal", str(request.pty.rows), str(request.pty.cols)]

    def _write(self) -> str:
        folder = os.path.join(self.folder, "programs")
        try:
            agent, _ = build_local_zipapp(folder)
            path = f"{agent.removesuffix('.pyz')}.sh"
            temporary = f"{path}.{os.getpid()}"
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(_RUN.format(own=shlex.quote(sys.executable), agent=shlex.quote(agent)))
            os.chmod(temporary, 0o755)
            os.replace(temporary, path)
        except OSError as error:
            raise UserError(
                f"cannot write {folder}: {error.strerror}",
                "Set the key folder in the table [slurm] of config.toml to a folder that all nodes share.",
            ) from error
        return path
