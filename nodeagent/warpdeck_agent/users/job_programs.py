"""The programs that jobs find on their PATH.

They are small scripts that run the agent's client code with a Python of this node. The folders belong to the
agent, so jobs can run the programs but not change them. The modules are stored unpacked and compiled, because
a program that is compiled at every start takes ten times as long.
"""

from __future__ import annotations

import contextlib
import os
import pkgutil
import py_compile
import shlex
import sys

from warpdeck_agent.storage.spool import write_all

from .interpreters import for_everybody

PROGRAMS = "bin"
LIBRARY = "programs"
NAMES = (
    *("sacct", "sacctmgr", "sattach", "sbatch", "sbcast", "scancel", "scontrol", "sdiag", "seff", "sinfo"),
    *("sprio", "squeue", "sreport", "srun", "sshare", "sstat", "strigger"),
)
MODULES = (
    "__init__.py",
    "wire/__init__.py",
    "wire/frames.py",
    "wire/hostnames.py",
    "wire/jsontext.py",
    "client/__init__.py",
    "client/access.py",
    "client/command.py",
    "client/keys.py",
    "client/lines.py",
    "client/main.py",
    "client/process.py",
    "client/sbcast.py",
    "client/standard.py",
    "client/step.py",
    "client/stepfiles.py",
    "client/visible.py",
)
MAIN = """import sys
sys.path.insert(0, sys.argv[1])
from warpdeck_agent.client.main import main
sys.exit(main(sys.argv[2], sys.argv[3:]))
"""
DIRECT = """#!{python} -IS
import sys
sys.path.insert(0, {library!r})
from warpdeck_agent.client.main import main
sys.exit(main({name!r}, sys.argv[1:]))
"""
LONGEST_INTERPRETER = 120
"""The longest interpreter path in a script's first line; kernels cut the line at 127 bytes."""
SCRIPT = """#!/bin/sh
for python in {python} /usr/bin/python3 /usr/local/bin/python3 python3; do
    command -v "$python" >/dev/null 2>&1 && exec "$python" -I -S {main} {library} {name} "$@"
done
echo "{name}: this user can run no Python on this node; install python3" >&2
exit 127
"""


def install(folder: str) -> None:
    """Write scripts and modules below the agent's folder, unless they are up to date. Raises OSError."""
    library = os.path.join(folder, LIBRARY)
    for name in MODULES:
        source = pkgutil.get_data("warpdeck_agent", name)
        assert source is not None, name
        path = os.path.join(library, "warpdeck_agent", name)
        if write(path, source, mode=0o644):
            with contextlib.suppress(py_compile.PyCompileError):
                py_compile.compile(path, doraise=True)
    main = os.path.join(library, "main.py")
    write(main, MAIN.encode(), mode=0o644)
    python = for_everybody()
    for name in NAMES:
        write(os.path.join(folder, PROGRAMS, name), _script(name, python, main, library).encode(), mode=0o755)


def _script(name: str, python: str, main: str, library: str) -> str:
    """Return a script that Python runs directly, if possible.

    A shell would add a millisecond, and drop exported functions from the environment.
    """
    if python and " " not in python and len(python) <= LONGEST_INTERPRETER:
        return DIRECT.format(name=name, python=python, library=library)
    values = {"python": sys.executable, "main": main, "library": library}
    return SCRIPT.format(name=name, **{key: shlex.quote(value) for key, value in values.items()})


def write(path: str, data: bytes, *, mode: int) -> bool:
    """Write a file atomically unless it is up to date. Returns whether it was written. Raises OSError."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        if file.read() == data:
            return False
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)
    os.chmod(path + ".new", mode)
    os.replace(path + ".new", path)
    return True
