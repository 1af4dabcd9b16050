"""`warpdeck snapshot show|diff JOB [JOB2]`: the code that a job ran."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.output import clean, print_json
from warpdeck.base.paths import default_paths
from warpdeck.cli.shared.arguments import Arguments
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.code import store_of, tree_now


def main(_: str, words: list[str]) -> int:
    """Run the sub-verb."""
    parser = Arguments(
        "warpdeck snapshot",
        description="Show the code snapshot of a job, or compare it with that of another job or with the current folder.",
        examples=(
            "warpdeck snapshot show 12",
            "warpdeck snapshot diff 12       compare with the current folder",
            "warpdeck snapshot diff 12 15",
        ),
    )
    parser.add_argument("verb", choices=["show", "diff"])
    parser.add_argument("jobs", metavar="JOB", nargs="+")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(words)
    if len(args.jobs) > (1 if args.verb == "show" else 2):
        parser.error(f"{args.verb} takes {'one job' if args.verb == 'show' else 'one or two jobs'}")
    with SyncClient.connect(default_paths()) as client:
        found = [_snapshot(client, job) for job in args.jobs]
    return _show(found[0], args) if args.verb == "show" else _diff(found, args)


def _snapshot(client: SyncClient, job: str) -> dict[str, Any]:
    snapshot = client.call("job", job=job).get("snapshot")
    if not snapshot:
        raise UserError(
            f"job {job} has no snapshot",
            "it ran in its folder; to get snapshots, submit from a git repository",
        )
    return dict(snapshot)


def _show(snapshot: dict[str, Any], args: argparse.Namespace) -> int:
    store = store_of(snapshot)
    meta, files = store.meta(snapshot["tree"]), store.files(snapshot["tree"])
    if args.json:
        print_json({**snapshot, "meta": meta, "paths": files})
        return 0
    print(f"tree    {snapshot['tree']}")
    print(f"root    {clean(snapshot['root'])}")
    if snapshot["head"]:
        changed = " with uncommitted changes" if snapshot["dirty"] else ""
        print(f"commit  {snapshot['head']} ({clean(meta.get('branch') or 'no branch')}){changed}")
    for name in meta.get("skipped", []):
        print(f"left out (too large)  {clean(name)}")
    print(f"files   {len(files)}")
    for name in files:
        print(f"  {clean(name)}")
    return 0


def _diff(found: list[dict[str, Any]], args: argparse.Namespace) -> int:
    first = found[0]
    other = found[1]["tree"] if len(found) > 1 else tree_now(first)
    text = store_of(first).diff(first["tree"], other)
    if args.json:
        print_json({"old": first["tree"], "new": other, "diff": text, "at": time.time()})
    else:
        sys.stdout.write(text)
    return 0
