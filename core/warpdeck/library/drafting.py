"""Turn the arguments of `Client.submit` into a submission that is ready to be sent.

Keyword arguments are sbatch's options with _ for -, such as gpus=2, time=timedelta(hours=4), array="0-9%2", or hold=True. None
and False omit an option, True is an option without a value, and several values are joined by commas. A plain number has
the unit that sbatch gives it: minutes for `time`, MiB for `mem`.
"""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

from warpdeck.base.errors import UserError
from warpdeck.client.submission import Draft, draft_script, local_files, read_script

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


def option_words(options: Mapping[str, object]) -> list[str]:
    """Return the options as command-line arguments. Raises UserError for a value that no option accepts."""
    words: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        words.append(flag if value is True else f"{flag}={_text(name, value)}")
    return words


def _text(name: str, value: object) -> str:
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        if minutes < 0 or name in ("begin", "deadline"):
            raise UserError(
                f"{name} cannot be {value!r}",
                "use a timedelta for a time limit and a datetime for a point in time",
            )
        return f"{minutes}:{seconds:02}"
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%dT%H:%M:%S")
    if isinstance(value, list | tuple):
        return ",".join(_text(name, each) for each in value)
    raise UserError(
        f"{name} cannot be {value!r}", "use a string, a number, True, a timedelta, a datetime or a list"
    )
