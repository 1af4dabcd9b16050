"""NVLink: the working links of a card, and the groups ("islands") of GPUs that NVLink connects.

Two cards are in one island if links lead from one to the other, directly or through a device to which both
are linked (an NVSwitch).
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

MAX_LINKS = 18
"""The most links of one card: NVML_NVLINK_MAX_LINKS."""
NONE = -1
"""The island of a card without a working link."""


def islands(pynvml: Any, handles: Sequence[Any]) -> List[int]:
    """Return the island of each card, numbered from 0 in the order of the cards.

    Blocks as long as the driver does.
    """
    joined: Dict[str, str] = {}
    own: List[str] = []
    for handle in handles:
        name = _bus_id(pynvml, "nvmlDeviceGetPciInfo", handle)
        others = _linked_to(pynvml, handle) if name else []
        own.append(name if others else "")
        for other in others:
            joined[_root(joined, other)] = _root(joined, name)
    numbers: Dict[str, int] = {}
    roots = [_root(joined, name) if name else "" for name in own]
    unlinked = {root for root in roots if roots.count(root) == 1}
    return [
        numbers.setdefault(root, len(numbers)) if root and root not in unlinked else NONE for root in roots
    ]


def link_states(pynvml: Any, handle: Any) -> List[bool]:
    """Return whether each of the card's links is up; empty for a card without NVLink."""
    found = []
    for link in range(MAX_LINKS):
        try:
            found.append(bool(pynvml.nvmlDeviceGetNvLinkState(handle, link)))
        except (pynvml.NVMLError, AttributeError):
            break  # the card has no link with this number or a higher one
    return found


def _linked_to(pynvml: Any, handle: Any) -> List[str]:
    """Return the bus ids at the other ends of the card's links that are up."""
    up = [link for link, state in enumerate(link_states(pynvml, handle)) if state]
    others = [_bus_id(pynvml, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link) for link in up]
    return [other for other in others if other]


def _bus_id(pynvml: Any, call: str, *args: Any) -> str:
    try:
        found = getattr(pynvml, call)(*args).busId
    except (pynvml.NVMLError, AttributeError):
        return ""
    return str(found.decode("ascii", "replace") if isinstance(found, bytes) else found).lower()


def _root(joined: Dict[str, str], name: str) -> str:
    while joined.get(name, name) != name:
        name = joined[name]
    return name
