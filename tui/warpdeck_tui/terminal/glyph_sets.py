"""ASCII replacements for the app's symbols, for terminals, fonts and screen readers without them.

Each symbol becomes one with the same meaning and the same number of columns. Names can be in any script; a
character without a replacement becomes one "?" for each of its columns.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rich.cells import get_character_cell_size

_SIGNS = {
    **dict(zip("●◌✓✗⊘◔◕◷◫◆⚠", "*o+x-cC@=*!", strict=True)),
    **dict(zip("▲▼←→↑↓↳↩…·≈°×–—‘’“”╵", "^v<>^v`<~.~'x--''\"\"'", strict=True)),
    **dict(zip("▁▂▃▄▅▆▇█", "._-=+*%#", strict=True)),
    **dict(zip("━╸", "==", strict=True)),
    **dict(zip("▏▎▍▌▋▊▉▐░▒▓▀", '...>=##|:%#"', strict=True)),
}
"""▌ marks the cursor before a line, and is also the end of a bar."""
_STATES = re.compile("[●◌✓✗⊘◔◕◷◫◆↩] ?")
_WORDS = {"°": "°", "≈": "about ", "⚠": "warning:", "→": "to", "…": "...", "·": "none"}
"""Words for symbols in text that is read aloud."""
_BRAILLE = range(0x2800, 0x2900)
_BRAILLE_SIGNS = " ..::+###"
"""Replacements of braille characters, indexed by how many of the eight dots are set."""
_BOX, _BLOCKS = range(0x2500, 0x2580), range(0x2580, 0x25A0)
_HORIZONTAL, _VERTICAL = "─┄┅┈┉╌╍═╴╶╺", "│┃┆┇┊┋╎╏║╷╹╻"


@lru_cache(4096)
def ascii_text(text: str) -> str:
    """Return the text in ASCII, with the same width."""
    return text if text.isascii() else "".join(map(_sign, text))


def _sign(char: str) -> str:
    code = ord(char)
    if char.isascii():
        sign = char
    elif char in _SIGNS:
        sign = _SIGNS[char]
    elif code in _BRAILLE:
        sign = _BRAILLE_SIGNS[(code - _BRAILLE.start).bit_count()]
    elif code in _BOX:
        sign = "-" if char in _HORIZONTAL else "|" if char in _VERTICAL else "+"
    elif code in _BLOCKS:
        sign = "#"
    else:
        sign = "?" * get_character_cell_size(char)
    return sign


@lru_cache(4096)
def in_words(text: str) -> str:
    """Return the text as a screen reader should say it, without the app's symbols.

    A symbol of a state stands beside its letters and is left out. Letters and digits of any script stay, because
    they belong to names.
    """
    if text.isascii():
        return text
    return "".join(
        char if char.isalnum() else _WORDS.get(char) or _sign(char) for char in _STATES.sub("", text)
    )
