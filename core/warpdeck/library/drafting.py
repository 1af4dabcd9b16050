"""Turn the arguments of `Client.submit` into a submission that is ready to be sent."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Mapping, Sequence
from typing import Literal

from warpdeck.base.errors import UserError
from warpdeck.client.submission import Draft, draft_script, local_files, read_script

from .options import option_words

Snapshots = Literal["auto", "none", "require"]


def draft(
    script: str | os.PathLike[str] | None,
    args: Sequence[str],
    *,
    text: str | None,
    command: str | Sequence[str] | None,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    options: Mapping[str, object],
    now: float,
) -> Draft:
    """Return the submission. Raises UserError unless exactly one of script, text and command is given."""
    folder = os.path.abspath(os.path.expanduser(cwd or "."))
    name, source = _source(script, text, command, folder)
    words = option_words({"job_name": _name(command), **options} if command is not None else options)
    environ = os.environ if env is None else env
    return draft_script(
        source,
        name,
        args=[str(arg) for arg in args],
        options=words,
        cwd=folder,
        environ=environ,
        now=now,
        host=socket.gethostname(),
        read=local_files(folder),
    )


def _source(
    script: str | os.PathLike[str] | None, text: str | None, command: str | Sequence[str] | None, folder: str
) -> tuple[str, str]:
    """Return the script's name and its text."""
    if sum(each is not None for each in (script, text, command)) != 1:
        raise UserError(
            "give exactly one of a script, text= or command=", 'for example submit("train.sh", gpus=1)'
        )
    if script is not None:
        path = os.path.join(folder, os.path.expanduser(script))
        if not os.path.exists(path):
            example = f"command={os.fspath(script)!r}"
            raise UserError(
                f"there is no script {path}", f"check the path; a command line is submitted with {example}"
            )
        return path, read_script(path)
    if text is not None:
        return "script", text
    assert command is not None
    line = command if isinstance(command, str) else shlex.join(str(word) for word in command)
    if not line.strip():
        raise UserError("the command is empty", 'for example submit(command=["python", "train.py"])')
    return "wrap", f"#!/bin/sh\n{line}\n"


def _name(command: str | Sequence[str] | None) -> str:
    """Return the job name: sbatch's name for a wrapped command, or the name of the program."""
    return (
        "wrap" if command is None or isinstance(command, str) else os.path.basename(str(command[0]) or "wrap")
    )
