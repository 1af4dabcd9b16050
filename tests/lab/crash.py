"""python crash.py FILE FUNCTION call|return VERB ...: run the agent and kill it at that point.

The whole process is really killed, before the function's first line or after its last.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType


def main(argv: list[str]) -> int:
    file, function, moment, *verb = argv

    def watch(frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if event == moment and code.co_name == function and os.path.basename(code.co_filename) == file:
            os.kill(os.getpid(), signal.SIGKILL)

    from warpdeck_agent.__main__ import main as agent

    threading.setprofile(watch)
    sys.setprofile(watch)
    return agent(verb)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
