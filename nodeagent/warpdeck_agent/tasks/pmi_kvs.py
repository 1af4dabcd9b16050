"""The values that the ranks of a step exchange through PMI: key-value pairs, and attributes of the node.

A value that a rank puts becomes visible to the ranks of other nodes after a fence, which blocks every rank
until all ranks of the step have reached it. Fences are numbered from 0.
"""

from __future__ import annotations

from typing import Dict, Mapping, Optional

from warpdeck_agent.wire.steps import Pmi

from .pmi import MAX_KEY_BYTES, MAX_VALUE_BYTES

MAX_PUT_BYTES = 4 * 1024 * 1024
"""The most bytes that the ranks of one node may put between two fences. MPICH's ranks put a kilobyte each."""
MAX_ATTRIBUTES = 4096
"""The most attributes of the node, which its ranks put for each other."""
FENCES_KEPT = 2
"""Number of fences for which this node's puts are kept, to send them again after a broken link."""


class KeyValueSpace:
    """The values that the ranks on this node can get."""

    def __init__(self, pmi: Pmi) -> None:
        self.pmi = pmi
        self.fence_number = 0
        """The number of the next fence."""
        self._values: Dict[str, str] = {"PMI_process_mapping": pmi.mapping} if pmi.mapping else {}
        self._puts: Dict[str, str] = {}
        """The values that the ranks on this node have put since the last fence."""
        self._put_bytes = 0
        self._incoming: Dict[str, str] = {}
        """The values of all nodes for the present fence, as far as they have arrived."""
        self._attributes: Dict[str, str] = {}
        self._sent: Dict[int, Dict[str, str]] = {}
        """The puts of this node for the last fences, by the number of the fence."""

    def put(self, key: str, value: str) -> str:
        """Put a value. Returns why that is not possible, or ""."""
        if not _fits(key, value):
            return f"a key may have 1 to {MAX_KEY_BYTES} characters, a value at most {MAX_VALUE_BYTES}"
        if self._put_bytes + len(key) + len(value) > MAX_PUT_BYTES:
            return f"more than {MAX_PUT_BYTES} bytes between two fences"
        self._puts[key] = value
        self._put_bytes += len(key) + len(value)
        return ""

    def get(self, key: str) -> Optional[str]:
        """Return the value of a key that a rank on this node, or any rank before the last fence, has put."""
        return self._puts.get(key, self._values.get(key))

    def job_attribute(self, key: str) -> Optional[str]:
        """Return an attribute of the whole step, or None if there is none of that name."""
        known = {**self._values, "universeSize": str(self.pmi.size), "hasNameServ": "FALSE"}
        return known.get(key)

    def put_node_attribute(self, key: str, value: str) -> str:
        """Set an attribute of the node. Returns why that is not possible, or ""."""
        if not _fits(key, value) or len(self._attributes) >= MAX_ATTRIBUTES:
            return "the attribute is too long, or the node has too many attributes"
        self._attributes[key] = value
        return ""

    def node_attribute(self, key: str) -> Optional[str]:
        """Return an attribute of the node, or None if no rank has set it."""
        return self._attributes.get(key)

    def reach_fence(self) -> Dict[str, str]:
        """Record that all ranks on this node have reached the fence. Returns the values that they put."""
        self._sent[self.fence_number] = self._puts
        self._sent.pop(self.fence_number - FENCES_KEPT, None)
        return self._puts

    def sent(self) -> Dict[int, Dict[str, str]]:
        """Return the puts of this node for the last fences, in the order of the fences."""
        return dict(sorted(self._sent.items()))

    def expects(self, fence_number: int) -> bool:
        """Return whether the ranks on this node wait at that fence for the values of all nodes."""
        return fence_number == self.fence_number and fence_number in self._sent

    def add_incoming(self, values: Mapping[str, str]) -> Dict[str, str]:
        """Add values of other nodes for the present fence. Returns all that have arrived."""
        self._incoming.update(values)
        return self._incoming

    def pass_fence(self, values: Mapping[str, str]) -> None:
        """Make the values of all nodes visible, and begin the time until the next fence."""
        self._values.update(values)
        self._puts, self._put_bytes, self._incoming = {}, 0, {}
        self.fence_number += 1


def _fits(key: str, value: str) -> bool:
    return 0 < len(key) <= MAX_KEY_BYTES and len(value) <= MAX_VALUE_BYTES
