"""`warpdeck rerun JOB`: submit a job again with the same script, options, variables and code."""

from __future__ import annotations

from warpdeck.base.output import print_json, print_note
from warpdeck.base.paths import default_paths
from warpdeck.cli.shared.arguments import Arguments
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.submission import rerun


def main(_: str, words: list[str]) -> int:
    """Submit the job again and print the new id."""
    parser = Arguments(
        "warpdeck rerun",
        description="Submit one of your jobs again with the recorded script, options, environment and code snapshot.\n"
        "Later changes in the folder have no effect. The new job has a new id; `warpdeck requeue` keeps the id.",
        examples=(
            "warpdeck rerun 12",
            "warpdeck rerun 12_3                one task of an array",
            "warpdeck submit --code-of 12 ...   the same code with other options",
        ),
    )
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(words)
    with SyncClient.connect(default_paths()) as client:
        done = rerun(client, args.job)
    for line in done.notes:
        print_note(f"warpdeck: {line}")
    if args.json:
        print_json({"job_id": done.job_id, "label": done.label, "tasks": done.tasks, "notes": done.notes})
    else:
        print(f"Submitted batch job {done.job_id}")
    return 0
