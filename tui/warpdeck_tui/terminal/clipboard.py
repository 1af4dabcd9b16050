"""Copies text to the buffer of tmux and to a file, which do not depend on the terminal's clipboard (OSC 52).

tmux passes OSC 52 on only if its user allows it, so inside tmux the text also goes to its newest buffer. The
file is for terminals that support neither: `cat` it, or read it from another machine.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from warpdeck.base.paths import config_dir

FILE_NAME = "copied"
TMUX_TIMEOUT_S = 5.0
"""Seconds to wait for tmux. It answers in milliseconds unless its server hangs, and then our terminal hangs,
too.
"""


async def keep(text: str, *, environ: Mapping[str, str]) -> str:
    """Store the text in tmux and in the file.

    Return a phrase that says where it is besides the terminal's clipboard.
    """
    places = []
    if environ.get("TMUX") and await _to_tmux(text):
        places.append("the tmux buffer")
    path = os.path.join(config_dir(), FILE_NAME)
    if await asyncio.to_thread(_to_file, path, text):
        places.append(path)
    return f"Also in {' and '.join(places)}" if places else ""


async def _to_tmux(text: str) -> bool:
    try:
        process = await asyncio.create_subprocess_exec(
            *("tmux", "load-buffer", "-"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return False
    try:
        await asyncio.wait_for(process.communicate(text.encode()), TMUX_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
    return process.returncode == 0


def _to_file(path: str, text: str) -> bool:
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(opened, "w") as file:
            file.write(text + "\n")
    except OSError:
        return False
    return True
