"""Reads tables of config.toml and formats values as TOML."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from warpdeck.base.errors import UserError

BY_HAND = "change it in the file itself"
_BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Matches a key that needs no quotes in TOML."""
_DELETE = "\x7f"
"""The only character that JSON leaves unescaped but TOML does not allow."""


def values_of(text: str, *path: str) -> dict[str, Any]:
    """Return the table at this path; {} if there is none. Raises UserError."""
    try:
        found: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"config.toml cannot be read: {error}", BY_HAND) from error
    for word in path:
        found = found.get(word) if isinstance(found, dict) else None
    return dict(found) if isinstance(found, dict) else {}


def literal(value: object) -> str:
    """Format a value as TOML; a table becomes an inline table."""
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{key_text((key,))} = {literal(each)}" for key, each in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(literal, value))}]"
    return json.dumps(value, ensure_ascii=False).replace(_DELETE, "\\u007f")


def key_text(path: Sequence[str]) -> str:
    """Format a dotted key, for example accounts."a.b".parent."""
    return ".".join(word if _BARE.fullmatch(word) else literal(word) for word in path)
