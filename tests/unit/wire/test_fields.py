"""Messages with lists of launches."""

from __future__ import annotations

import pytest

from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import WireError


@pytest.mark.parametrize("tag", ["take_back", "given_back", "ask_launches"])
@pytest.mark.parametrize("launch", [[], [1], [1, 2, 3], [1, "x"], 1, None])
def test_a_launch_that_is_no_pair_is_refused(tag: str, launch: object) -> None:
    with pytest.raises(WireError):
        wire.decode({"t": tag, "launches": [[1, 0], launch]})
