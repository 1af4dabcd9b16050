"""Named presets for the "New job" form, in files presets.json.

The user's file is in the configuration folder, the site's file beside its config.toml.

{"presets": {"debug": {"options": "--gpus=1 --time=30 --partition=dev"},
             "eval": {"options": "--gpus=h100:1", "command": "python eval.py", "folder": "~/llm"}}}

The app writes the user's file; the administrator maintains the site's file. If both contain a name, the
user's preset is used. A preset replaces all options of a job. It replaces the script, the command and the
folder only if it names them, so that "debug" can be applied to any form.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from warpdeck.base.errors import UserError
from warpdeck_tui.viewmodels.job_form.preset import Preset, Presets

MAX_PRESETS = 200
"""Largest number of presets, because the user chooses from a list."""
MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_NAME_CHARACTERS = 40


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    presets: dict[str, Preset] = {}


def read_presets(own: Path, site: Path) -> tuple[Presets, list[str]]:
    """Return the presets, and a message for each file that cannot be used."""
    found: list[dict[str, Preset]] = []
    trouble = []
    for path in (own, site):
        try:
            found.append(_read(path))
        except UserError as error:
            found.append({})
            trouble.append(f"{error.message}. {error.hint}")
    return Presets(found[0], found[1]), trouble


def save_preset(path: Path, name: str, preset: Preset) -> None:
    """Save the preset in the user's file. Raises UserError. A file that cannot be read is left unchanged."""
    check_name(name)
    presets = _read(path)
    if len(presets) >= MAX_PRESETS and name not in presets:
        raise UserError(f"The limit of {MAX_PRESETS} presets is reached", "Remove a preset first")
    _write(path, {**presets, name: preset})


def remove_preset(path: Path, name: str) -> None:
    """Remove the preset from the user's file. Raises UserError."""
    presets = _read(path)
    if name not in presets:
        raise UserError(f"Cannot remove preset {name}: it belongs to the site", "Ask an administrator")
    _write(path, {each: preset for each, preset in presets.items() if each != name})


def check_name(name: str) -> None:
    """Raise UserError if this cannot be the name of a preset."""
    if not name.strip() or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        raise UserError(
            f"A preset name must have 1 to {MAX_NAME_CHARACTERS} characters", "Choose another name"
        )


def _read(path: Path) -> dict[str, Preset]:
    """Return the presets of the file; none if there is no file.

    Raises UserError that names the file and the problem.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UserError(
                f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB",
                "Remove the file; it is not a preset file",
            )
        return dict(msgspec.json.decode(data, type=_File).presets)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"Cannot use {path}: {error}", "Correct or remove it") from error


def _write(path: Path, presets: Mapping[str, Preset]) -> None:
    """Write the file atomically, readable only by its user, because a command may contain private data."""
    fresh = path.with_suffix(".new")
    data = msgspec.json.format(msgspec.json.encode(_File(presets=dict(presets)))) + b"\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(number, "wb") as file:
            file.write(data)
        os.replace(fresh, path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}", "Check its permissions") from error
