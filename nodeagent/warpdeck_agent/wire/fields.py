"""Frozen dataclasses as JSON values and back: plain json, no packages, so that an agent needs none."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Dict, Literal, Union, get_args, get_origin, get_type_hints

from .frames import WireError

MAX_SAID_CHARS = 64 * 1024
"""Of a text: what users' programs and paths have in it may be long, and the controller takes no more than twice this."""
MAX_SAID_NUMBER = 2**53
MAX_SAID_AMOUNT = 1e15
_FIELDS: Dict[Any, Dict[str, Any]] = {}
_DEFAULTS: Dict[Any, Dict[str, Any]] = {}
_AS_THEY_ARE = frozenset((str, int, float, bool, dict, type(None)))
"""Of values of these types JSON's are the same: most are."""
_origin: Callable[[Any], Any] = functools.lru_cache(maxsize=None)(get_origin)
_args: Callable[[Any], Any] = functools.lru_cache(maxsize=None)(get_args)
"""Asked for at every field that is no plain value; there are as many types as fields."""
_ALWAYS = ("t", "version")
"""Fields that are said whatever they are: the tag, and what strangers look at."""


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
        fields = _FIELDS[cls] = {item.name: hints[item.name] for item in dataclasses.fields(cls)}
    given: Dict[str, Any] = {}
    for name, found in value.items():
        kind = fields.get(name)
        if kind is not None:
            plain = type(found) is kind  # most are: str, int, bool
            given[name] = found if plain else _convert(kind, found, f"{where}.{name}")
    try:
        return cls(**given)
    except TypeError as error:
        raise WireError(f"{where}: {error}") from error


def _convert(kind: Any, value: Any, where: str) -> Any:
    origin = _origin(kind)
    if origin is Union:
        inner = [arg for arg in _args(kind) if arg is not type(None)]
        return None if value is None else _convert(inner[0], value, where)
    if origin is list:
        if not isinstance(value, list):
            raise WireError(f"{where}: expected a list")
        item = _args(kind)[0]
        return [_convert(item, entry, where) for entry in value]
    if origin is dict:
        item = _args(kind)[1]
        if not isinstance(value, dict) or not {item}.issuperset(map(type, value.values())):
            raise WireError(f"{where}: expected values of {item.__name__}")
        return value
    if origin is Literal:
        return value
    if dataclasses.is_dataclass(kind):
        return build(kind, value, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise WireError(f"{where}: expected {kind.__name__}")
    return value
