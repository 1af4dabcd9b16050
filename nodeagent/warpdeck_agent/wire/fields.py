"""Frozen dataclasses as JSON values and back: plain json, no packages, so that an agent needs none."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Literal, Optional, Union, get_args, get_origin, get_type_hints

from .frames import WireError

MAX_SAID_CHARS = 64 * 1024
"""Of a text: what users' programs and paths have in it may be long, and the controller takes no more than twice this."""
MAX_SAID_NUMBER = 2**53
MAX_SAID_AMOUNT = 1e15
_FIELDS: Dict[Any, Dict[str, _Kind]] = {}
_DEFAULTS: Dict[Any, Dict[str, Any]] = {}
_AS_THEY_ARE = frozenset((str, int, float, bool, dict, type(None)))
"""Of values of these types JSON's are the same: most are."""
_ALWAYS = ("t", "version")
"""Fields that are said whatever they are: the tag, and what strangers look at."""


class _Kind:
    """A field's type, taken apart once: to ask typing of it at every field of every message is half of reading one."""

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
    """A message as JSON values, ready for json_frame; fields with their default values go without saying. Not asdict, which
    copies every value it meets: five times slower."""
    defaults = _DEFAULTS.get(type(message))
    if defaults is None:
        defaults = _DEFAULTS[type(message)] = _defaults(type(message))
    said = vars(message).items()
    return {
        name: value if type(value) in _AS_THEY_ARE else _plain(value)
        for name, value in said
        if name not in defaults or value != defaults[name]
    }


def _defaults(cls: Any) -> Dict[str, Any]:
    """What those fields hold that a message does not name."""
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


def sayable(value: Any) -> Any:
    """JSON values as the controller takes them: it ends the link of an agent that says more, and some of what an agent says is
    made of what its users' processes have said."""
    kind = type(value)
    if kind is str:
        return value if len(value) <= MAX_SAID_CHARS else value[:MAX_SAID_CHARS]
    if kind is int:
        return max(-MAX_SAID_NUMBER, min(MAX_SAID_NUMBER, value))
    if kind is float:
        return value if -MAX_SAID_AMOUNT <= value <= MAX_SAID_AMOUNT else 0.0
    if kind is list:
        return [sayable(item) for item in value]
    if kind is dict:
        return {name: sayable(item) for name, item in value.items()}
    return value


def build(cls: Any, value: Any, where: str) -> Any:
    """The dataclass of these JSON values; `where` is how errors call them. Raises WireError."""
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
            plain = type(found) is kind.type  # most are: str, int, bool
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
        return [_convert(inner, entry, where) for entry in value]
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
