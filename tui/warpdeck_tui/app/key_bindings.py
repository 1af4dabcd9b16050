"""The user's own key bindings, as they were last read from their file."""

from __future__ import annotations

from pathlib import Path

from warpdeck.base.paths import config_dir
from warpdeck_tui.user_files.keymap import KEYS_FILE, NO_KEYMAP, Keymap, keymap_lines, read_keymap


class KeyBindings:
    """The key bindings of one app."""

    def __init__(self) -> None:
        self._keymap: Keymap = NO_KEYMAP

    @property
    def keys(self) -> dict[str, str]:
        """Map binding ids to keys, for those actions to which the user gave other keys than the default ones."""
        return self._keymap.keys

    @property
    def _file(self) -> Path:
        return Path(config_dir()) / KEYS_FILE

    def read(self) -> None:
        """Read the file again. Raises UserError; then the previous keys stay in use."""
        self._keymap = read_keymap(self._file)

    def help_lines(self) -> list[tuple[str, str, str]]:
        """Return the lines of the page that lists the keys."""
        return keymap_lines(self._keymap, self._file)
