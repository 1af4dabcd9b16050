"""`warpdeck attach`: return to a job's terminal."""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.base.paths import default_paths
from warpdeck.cli.shared.run_help import HELP
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.terminal_session import join


def main(_: str, words: list[str]) -> int:
    """Join the terminal."""
    if not words or words[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0 if words else 2
    watch = words[0] == "--watch"
    jobs = words[watch:]
    if len(jobs) != 1 or jobs[0].startswith("-"):
        raise UserError(
            "attach needs exactly one job",
            "usage: warpdeck attach 12, or warpdeck attach --watch 12",
            exit_code=2,
        )
    with SyncClient.connect(default_paths()) as client:
        return join(client, jobs[0], watch=watch)
