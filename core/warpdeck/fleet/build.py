"""Build the agent as one file: a zipapp of warpdeck_agent and pynvml.

A host over SSH gets the sources only, which are small and run on any Python. The same sources give the same bytes.
This machine's agent runs on our own Python, so its zipapp holds bytecode as well: the agent, each supervisor and each
terminal host start without compiling their modules, which takes a quarter of a second and some megabytes.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.util
import io
import marshal
import os
import sys
import types
import zipfile
from pathlib import Path

MAIN = b"import sys\nfrom warpdeck_agent.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
MAX_BYTES = 448 * 1024
"""Maximum size of the file, so that one short upload brings the agent to a node."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNCHECKED_HASH = 1
"""Flags of bytecode that is valid whatever the time of its source is (PEP 552)."""


def build_zipapp(folder: str) -> tuple[str, str]:
    """Write agent-<hash>.pyz into the folder unless it exists. Returns (path, SHA-256)."""
    data, digest = _own()
    path = os.path.join(folder, f"agent-{digest[:12]}.pyz")
    if not os.path.exists(path):
        _write(path, data)
    return path, digest


def build_local_zipapp(folder: str) -> tuple[str, str]:
    """Write the zipapp with bytecode for this Python unless it exists. Returns (path, SHA-256).

    Its name contains the hash of the sources, because bytecode need not be equal in two builds.
    """
    path = os.path.join(folder, f"agent-{_source_hash()[:12]}-{sys.implementation.cache_tag}.pyz")
    if not os.path.exists(path):
        _write(path, zipapp_bytes(with_bytecode=True))
    return path, hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    Path(temporary).write_bytes(data)
    os.chmod(temporary, 0o755)
    os.replace(temporary, path)


@functools.cache
def _own() -> tuple[bytes, str]:
    """Return the zipapp of this process and its hash. It is built once, from the sources at that time."""
    data = zipapp_bytes()
    return data, hashlib.sha256(data).hexdigest()


@functools.cache
def _source_hash() -> str:
    """Return the hash of the names and sources of all members, which needs no zipapp."""
    found = hashlib.sha256()
    for name, file in sorted(_sources().items()):
        data = file.read_bytes()
        found.update(f"{name} {len(data)}\n".encode() + data)
    return found.hexdigest()


def _sources() -> dict[str, Path]:
    """Return the source files of the zipapp's modules by their names in the zipapp."""
    pynvml, package = _module_source("pynvml"), _module_source("warpdeck_agent").parent
    return {"pynvml.py": pynvml} | {
        f"warpdeck_agent/{file.relative_to(package)}": file for file in sorted(package.rglob("*.py"))
    }


def zipapp_bytes(*, with_bytecode: bool = False) -> bytes:
    """Return the bytes of the zipapp, with a fixed order and fixed times of its members.

    The best compression pays for an upload only. The zipapp with bytecode stays on this machine, where its agent starts
    sooner without compression.
    """
    files = _sources()
    members = {"__main__.py": MAIN} | {name: file.read_bytes() for name, file in files.items()}
    if with_bytecode:
        members |= {f"{name}c": _bytecode(file) for name, file in files.items()}
    buffer = io.BytesIO()
    compression = zipfile.ZIP_STORED if with_bytecode else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in sorted(members.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, compression, 9)
    assert with_bytecode or buffer.tell() <= MAX_BYTES, f"the agent has {buffer.tell()} bytes"
    return buffer.getvalue()


def _bytecode(file: Path) -> bytes:
    """Return the bytecode of a module, in the format that a zipapp may contain. Python's cache has it usually."""
    code = importlib.machinery.SourceFileLoader("module", str(file)).get_code("module")
    assert isinstance(code, types.CodeType)
    flags, source_hash = _UNCHECKED_HASH.to_bytes(4, "little"), importlib.util.source_hash(file.read_bytes())
    return importlib.util.MAGIC_NUMBER + flags + source_hash + marshal.dumps(code)


def _module_source(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None, f"{name} is not installed"
    return Path(spec.origin)
