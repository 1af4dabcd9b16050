"""Kill the parts of a real site at random under load, and count the errors.

The load consists of submissions, arrays, cancels, sruns and waits. With --nodes, the agent is also killed and its
node is drained. With --hosts, the site has its controller, a standby and its nodes on hosts of the lab, and all of
them are killed, cut off and replaced. The exit code is 1 if there is any error.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from .hosts import HostsChaos
from .load import Chaos


def main() -> int:
    """Run the site and print the counts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", action="store_true", help="kill the agent and drain its node, too")
    parser.add_argument(
        "--hosts", action="store_true", help="run on hosts with sshd, with a standby and takeovers"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wd", dir="/tmp") as folder:
        chaos = (
            HostsChaos(Path(folder), args.seed)
            if args.hosts
            else Chaos(Path(folder), args.seed, nodes=args.nodes)
        )
        begun = time.monotonic()
        try:
            chaos.run(args.seconds)
            lost, twice = chaos.errors_of_runs()
        finally:
            chaos.close()
    for words, count in chaos.errors.most_common(10):
        print(f"{count:4}  {words}")
    print(*chaos.report(), sep="\n")
    print(f"{time.monotonic() - begun:.0f} s, {len(chaos.accepted)} submissions accepted")
    print(
        f"{len(chaos.uncertain)} clients failed, {len(lost)} lost, {len(twice)} twice, {len(chaos.hung)} hung"
    )
    for what, found in (("lost", lost), ("twice", twice), ("hung", chaos.hung)):
        for each in found[:10]:
            print(f"{what}: {each}")
    return int(bool(lost or twice or chaos.hung))


if __name__ == "__main__":
    sys.exit(main())
