"""The rate of submissions without a standby, and with a standby in the modes async and sync."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.waiting import eventually

from . import jobs
from .loopback import is_possible, open_loopback
from .rig import Rig
from .table import Line, Table

LINES = {
    mode: Line(f"submissions, {text}", "/s", more_is_better=True)
    for mode, text in (("", "no standby"), ("async", "standby async"), ("sync", "standby sync"))
}


def measure(table: Table) -> None:
    """Measure a controller whose standby is another home of this machine, over the loopback address."""
    if not is_possible():
        for line in LINES.values():
            table.left_out(line, "no sshd is installed")
        return
    with TemporaryDirectory(prefix="wdb", dir="/tmp") as folder, open_loopback(Path(folder)) as host:
        rig = Rig(Path(folder), HOME=str(host.home), SSH_AUTH_SOCK="")
        try:
            rig.up("--no-local-node")
            for mode, line in LINES.items():
                if mode:
                    options = ["--mode", mode, "--accept-host-key", host.fingerprint()]
                    rig.home.ok("standby", host.target, "--home", f"{folder}/standby", *options)
                    eventually(lambda: _follows(rig), what="the standby follows")
                table.add(line, jobs.submission_rate(rig))
        finally:
            rig.close()


def _follows(rig: Rig) -> bool:
    row = rig.home.request("standby")["standby"]
    return bool(row["state"] == "following" and not row["behind_batches"])
