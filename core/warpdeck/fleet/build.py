"""Build the agent as one file: a zipapp of warpdeck_agent and pynvml.

The same sources give the same bytes.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import os
import zipfile
from pathlib import Path

MAIN = b"import sys\nfrom warpdeck_agent.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
MAX_BYTES = 400 * 1024
"""Maximum size of the file, so that one short upload brings the agent to a node."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build_zipapp(folder: str) -> tuple[str, str]:
    """Write agent-<hash>.pyz into the folder unless it exists. Returns (path, SHA-256)."""
    data, digest = _own()
    path = os.path.join(folder, f"agent-{digest[:12]}.pyz")
    if not os.path.exists(path):
        os.makedirs(folder, mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)
        temporary = f"{path}.{os.getpid()}"
        Path(temporary).write_bytes(data)
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)
    return path, digest


@functools.cache
def _own() -> tuple[bytes, str]:
    """Return the zipapp of this process and its hash. It is built once, from the sources at that time."""
    data = zipapp_bytes()
    return data, hashlib.sha256(data).hexdigest()


def zipapp_bytes() -> bytes:
    """Return the bytes of the zipapp, with a fixed order and fixed times of its members."""
    members = {"__main__.py": MAIN, "pynvml.py": _module_source("pynvml").read_bytes()}
    package = _module_source("warpdeck_agent").parent
    for file in sorted(package.rglob("*.py")):
        members[f"warpdeck_agent/{file.relative_to(package)}"] = file.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(members.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED, 9)
    assert buffer.tell() <= MAX_BYTES, f"the agent has {buffer.tell()} bytes"
    return buffer.getvalue()


def _module_source(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None, f"{name} is not installed"
    return Path(spec.origin)
