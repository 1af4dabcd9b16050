"""Conversion of frozen dataclasses to JSON values and back.

It uses the standard library only, so that an agent needs no installed package.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Literal, Optional, Union, get_args, get_origin, get_type_hints

from .frames import WireError

MAX_TEXT_CHARS = 64 * 1024
"""Longest text in a message, in characters. Texts from users' programs and paths can be long, and the
controller accepts at most twice this length.
"""
MAX_NUMBER = 2**53
MAX_AMOUNT = 1e15
PAIR = 2
"""Length of a list inside a list: a launch as [job id, restarts]."""
_FIELDS: Dict[Any, Dict[str, _Kind]] = {}
_DEFAULTS: Dict[Any, Dict[str, Any]] = {}
_AS_THEY_ARE = frozenset((str, int, float, bool, dict, type(None)))
"""Types of values that are already JSON values. Most values have one of these types."""
_ALWAYS = ("t", "version")
"""Fields that are always encoded, even with their default values: the tag, and the protocol version, which
peers of other versions read.
"""


class _Kind:
    """A field's type, analyzed once.

    Asking `typing` for every field of every message would take half of the decoding time.
    """

    def __init__(self, hint: Any) -> None:
        self.type = hint
        self.origin = get_origin(hint)
        args = [arg for arg in get_args(hint) if arg is not type(None)]
        if self.origin in (list, Union):
            self.inner: Optional[_Kind] = _Kind(args[0])
        else:
            self.inner = _Kind(args[1]) if self.origin is dict else None
        self.is_message = dataclasses.is_dataclass(hint)


def encode(message: Any) -> Dict[str, Any]:
    """Return `message` as JSON values, ready for `json_frame`.

    Fields that have their default values are omitted. `dataclasses.asdict` is not used because it copies
    every value, which is five times slower.
    """
    defaults = _DEFAULTS.get(type(message))
    if defaults is None:
        defaults = _DEFAULTS[type(message)] = _defaults(type(message))
    items = vars(message).items()
    return {
        name: value if type(value) in _AS_THEY_ARE else _plain(value)
        for name, value in items
        if name not in defaults or value != defaults[name]
    }


def _defaults(cls: Any) -> Dict[str, Any]:
    """Return the default values of the fields of `cls` that a message may omit."""
    found: Dict[str, Any] = {}
    for each in dataclasses.fields(cls):
        if each.name not in _ALWAYS and each.default is not dataclasses.MISSING:
            found[each.name] = each.default
        elif each.default_factory is not dataclasses.MISSING:
            found[each.name] = each.default_factory()
    return found


def _plain(value: Any) -> Any:
    if type(value) is list:
        return [_plain(item) for item in value]
    return encode(value) if hasattr(value, "__dataclass_fields__") else value


def limit_sizes(value: Any) -> Any:
    """Return the JSON value `value` cut to the sizes that the controller accepts.

    The controller closes the link of an agent that sends larger values, and some of an agent's messages
    contain text or numbers from its users' processes.
    """
    kind = type(value)
    if kind is str:
        return value if len(value) <= MAX_TEXT_CHARS else value[:MAX_TEXT_CHARS]
    if kind is int:
        return max(-MAX_NUMBER, min(MAX_NUMBER, value))
    if kind is float:
        return value if -MAX_AMOUNT <= value <= MAX_AMOUNT else 0.0
    if kind is list:
        return [limit_sizes(item) for item in value]
    if kind is dict:
        return {name: limit_sizes(item) for name, item in value.items()}
    return value


def build(cls: Any, value: Any, where: str) -> Any:
    """Return an instance of the dataclass `cls` made from the JSON object `value`.

    `where` names the value in error messages. Raises WireError if a field is missing or has the wrong type.
    """
    if not isinstance(value, dict):
        raise WireError(f"{where}: expected an object")
    fields = _FIELDS.get(cls)
    if fields is None:
        hints = get_type_hints(cls)
        fields = _FIELDS[cls] = {item.name: _Kind(hints[item.name]) for item in dataclasses.fields(cls)}
    given: Dict[str, Any] = {}
    for name, found in value.items():
        kind = fields.get(name)
        if kind is not None:
            plain = type(found) is kind.type  # plain str, int or bool, the common case
            given[name] = found if plain else _convert(kind, found, f"{where}.{name}")
    try:
        return cls(**given)
    except TypeError as error:
        raise WireError(f"{where}: {error}") from error


def _convert(kind: _Kind, value: Any, where: str) -> Any:
    origin, inner = kind.origin, kind.inner
    if origin is Literal:
        return value
    if origin is Union:
        assert inner is not None
        return None if value is None else _convert(inner, value, where)
    if origin is list:
        assert inner is not None
        if not isinstance(value, list):
            raise WireError(f"{where}: expected a list")
        found = [_convert(inner, entry, where) for entry in value]
        if inner.origin is list and any(len(entry) != PAIR for entry in found):
            raise WireError(f"{where}: expected pairs")
        return found
    if origin is dict:
        assert inner is not None
        if not isinstance(value, dict) or not {inner.type}.issuperset(map(type, value.values())):
            raise WireError(f"{where}: expected values of {inner.type.__name__}")
        return value
    if kind.is_message:
        return build(kind.type, value, where)
    if kind.type is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind.type) or (kind.type is int and isinstance(value, bool)):
        raise WireError(f"{where}: expected {kind.type.__name__}")
    return value
