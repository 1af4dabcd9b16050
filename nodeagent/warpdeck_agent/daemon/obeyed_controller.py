"""The controller that this agent obeys, remembered across restarts of the agent.

Data: the identity of the controller, and its start (`ControllerStart`). `accepts` is the decision:

  seen                           hello                                  result
  nothing                        any                                    accepted
  another identity               any                                    accepted
  the same identity              a higher epoch                         accepted
  the same identity              the same epoch and instance            accepted
  the same identity              the same epoch, another instance       refused
  the same identity              a lower epoch                          refused

A controller with another identity belongs to another site, whose epochs cannot be compared. An older controller, which
has no epochs, has the epoch 0 and no instance. The general rules then apply to it.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import Any, Dict, Optional

from warpdeck_agent.storage.spool import Folder
from warpdeck_agent.wire.epochs import ControllerStart
from warpdeck_agent.wire.fields import build, encode
from warpdeck_agent.wire.frames import WireError
from warpdeck_agent.wire.jsontext import dumps, loads
from warpdeck_agent.wire.messages import Hello

FILE = "controller"
"""Name of the file in the agent's folder."""


@dataclass(frozen=True)
class Obeyed:
    """The controller that an agent obeys."""

    controller_id: str
    start: ControllerStart


def accepts(seen: Optional[Obeyed], hello: Obeyed) -> bool:
    """Return whether an agent that has seen `seen` obeys the controller of `hello`."""
    if seen is None or seen.controller_id != hello.controller_id:
        return True
    if hello.start.epoch != seen.start.epoch:
        return hello.start.epoch > seen.start.epoch
    return hello.start.instance == seen.start.instance


def refusal(holder: ControllerStart, refused: ControllerStart) -> str:
    """Return why the agent does not obey `refused`, as one sentence."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.started_unix))
    return (
        f"this node obeys the controller on {holder.host} (pid {holder.pid}, started {since}, epoch {holder.epoch}), "
        f"not the one on {refused.host or 'an unknown host'} (pid {refused.pid}, epoch {refused.epoch})"
    )


class ObeyedController:
    """The controller that this agent obeys. It is kept in a file of the agent's folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._seen = _parse(folder.read(FILE))

    def refuses(self, hello: Hello) -> Optional[ControllerStart]:
        """Obey the controller and return None, or return the start that is obeyed instead.

        The new controller is on disk before this returns. If the disk is full, it is known until the agent ends.
        """
        asking = Obeyed(hello.controller_id, hello.start)
        if not accepts(self._seen, asking):
            assert self._seen is not None
            return self._seen.start
        if asking != self._seen:
            self._seen = asking
            try:
                self._store(asking)
            except OSError as error:
                print(f"cannot record the controller's epoch: {error}", file=sys.stderr, flush=True)
        return None

    def obeys(self, hello: Hello) -> bool:
        """Return whether the controller of an accepted Hello is still the one that the agent obeys."""
        return self._seen == Obeyed(hello.controller_id, hello.start)

    def _store(self, obeyed: Obeyed) -> None:
        values = {"controller_id": obeyed.controller_id, "start": encode(obeyed.start)}
        self._folder.write(FILE, dumps(values))
        directory = os.open(self._folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)  # Without it, a power failure may bring the earlier file back.
        finally:
            os.close(directory)


def _parse(text: str) -> Optional[Obeyed]:
    """Return the controller of the file's text, or None if there is none or the text is damaged."""
    try:
        values: Dict[str, Any] = loads(text)
        return Obeyed(str(values["controller_id"]), build(ControllerStart, values["start"], FILE))
    except (ValueError, KeyError, TypeError, WireError):
        return None
