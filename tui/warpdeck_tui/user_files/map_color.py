"""The value that colors the GPU map, as the user chose it last: the file "map-color" in the configuration folder."""

from __future__ import annotations

from pathlib import Path

from warpdeck.base.errors import UserError
from warpdeck.base.paths import config_dir

MAX_BYTES = 100


def read_map_color() -> str:
    """Return the stored choice, or "" if there is none."""
    try:
        with (Path(config_dir()) / "map-color").open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def keep_map_color(name: str) -> None:
    """Store the choice for the next start. Raises UserError."""
    path = Path(config_dir()) / "map-color"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(f"{name}\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}", "Check its permissions") from error
