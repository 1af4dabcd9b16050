"""Import asyncssh without a search for compilers, before any other module of the package imports it.

asyncssh looks for liboqs with `ctypes.util.find_library`. If the library is not installed, that function starts ldconfig, and
then each compiler and linker on PATH, which takes a third of a second at each start of a controller. Without a PATH it starts
ldconfig only, which knows every installed library. Libraries in LD_LIBRARY_PATH are known to the linker only.
"""

from __future__ import annotations

import os

_path = os.environ.get("PATH")
if _path is not None and not os.environ.get("LD_LIBRARY_PATH"):
    os.environ["PATH"] = os.devnull  # An empty PATH would mean the current folder.
try:
    import asyncssh as asyncssh
finally:
    if _path is not None:
        os.environ["PATH"] = _path
