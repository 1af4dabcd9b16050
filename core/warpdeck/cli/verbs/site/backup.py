"""`warpdeck backup|restore|verify`: keep the site's state safe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpdeck.base.output import clean, print_json, print_note
from warpdeck.base.paths import default_paths
from warpdeck.cli.arguments import JSON, Argument, UsageError, number
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.verb import Verb

if TYPE_CHECKING:
    from argparse import Namespace

    from warpdeck.backup.manifest import Counters

MIB = 1024 * 1024


class _Line:
    """The text after the line of a progress."""

    def __init__(self) -> None:
        self.text = ""

    def show(self, text: str) -> None:
        self.text = text

    def more(self) -> str:
        return self.text


def _check_backup(args: Namespace) -> None:
    from os.path import isdir

    if args.keep and not isdir(args.target):
        raise UsageError(
            "--keep needs a folder of backups", f"create {args.target} with mkdir, or remove --keep"
        )


def _backup(args: Namespace) -> int:
    from warpdeck.backup.create import make_backup

    _check_backup(args)
    line = _Line()
    with progress("backing up: ", more=line.more):
        made = make_backup(
            default_paths(), args.target, keep=args.keep or 0, with_keys=args.keys, with_trees=args.trees, show=line.show
        )  # fmt: skip
    if args.json:
        import msgspec

        print_json(msgspec.to_builtins(made))
        return 0
    print(f"{clean(made.file)}: {_counters_text(made.manifest.counters)}, {made.size_bytes / MIB:.2f} MiB")
    for file in made.deleted:
        print(f"deleted {clean(file)}")
    return 0


def _restore(args: Namespace) -> int:
    from warpdeck.backup.restore import restore

    line = _Line()
    with progress("restoring: ", more=line.more):
        done = restore(default_paths(), args.source, force=args.force, show=line.show)
    if args.json:
        import msgspec

        print_json(msgspec.to_builtins(done))
        return 0
    print(f"restored {clean(done.source)}")
    print(f"the replaced state is kept in {clean(done.replaced)}")
    print(f"before:  {_counters_text(done.before)}")
    print(f"backup:  {_counters_text(done.backup)}")
    print(f"now:     {_counters_text(done.after)}")
    if done.before is not None and done.before.next_job_id > done.backup.next_job_id:
        first, last = done.backup.next_job_id, done.before.next_job_id - 1
        newer = f"job {first} is" if first == last else f"jobs {first} to {last} are"
        print(f"{newer} newer than the backup, so this database does not know whether they run")
    print(
        "next: `warpdeck up`, and `warpdeck recover --dry-run`, which lists jobs that the nodes know and this database does not"
    )
    return 0


def _counters_text(found: Counters | None) -> str:
    if found is None:
        return "no readable database"
    jobs = f"{found.jobs} job{'' if found.jobs == 1 else 's'}"
    return f"{jobs}, highest id {found.highest_job_id}, next id {found.next_job_id}, schema {found.schema}"


def _verify(args: Namespace) -> int:
    from warpdeck.backup.verify import verify

    line = _Line()
    with progress("checking: ", more=line.more):
        report = verify(default_paths(), args.source or None, show=line.show)
    if args.json:
        import msgspec

        print_json(msgspec.to_builtins(report))
        return int(bool(report.problems))
    for problem in report.problems:
        print(clean(f"{problem.sentence}; salvage: {problem.salvage}"))
    if report.truncated:
        print_note("there are more problems; these are the first ones")
    count = len(report.problems)
    text = "no problems" if not count else f"{count} problem{'' if count == 1 else 's'}"
    print(f"{clean(report.path)}: {_counters_text(report.counters)}: {text}")
    return int(bool(count))


VERBS = (
    Verb(
        "backup",
        "Back up the database, the configuration and the host keys of your home into one file, while the controller runs\n"
        "or is stopped. A folder gets a new file each time. The file contains the scripts and environments of all jobs, so\n"
        "only you can read it.",
        (
            Argument("FILE", "new file, or a folder that exists", into="target"),
            Argument("--keep N", "in a folder, keep the last N backups of this site and delete older ones", parse=number(1)),
            Argument("--keys", "also back up the private key for SSH into jobs"),
            Argument("--trees", "also back up the packed code snapshots of jobs"),
            JSON,
        ),
        examples=(
            "warpdeck backup site.tar.gz",
            "warpdeck backup /var/backups/warpdeck --keep 14    for a timer or cron",
        ),
        reads=False, run=_backup,
    ),
    Verb(
        "restore",
        "Replace the database and the configuration of your home by those of a backup. The controller must be stopped; jobs\n"
        "keep running. The backup is checked first, and the replaced state stays in a dated folder of the home, which can be\n"
        "restored in the same way. The state is replaced completely or not at all.",
        (
            Argument("FILE", "a backup, a folder of backups (its newest one), or a folder of replaced state", into="source"),
            Argument("--force", "restore a backup with problems; see `warpdeck verify`"),
            JSON,
        ),
        examples=("warpdeck restore site.tar.gz    after `warpdeck down`",),
        notes="Ids of jobs that were given out after the backup are not given out again if the replaced database can be read.",
        reads=False, run=_restore,
    ),
    Verb(
        "verify",
        "Check the database of your home, or a backup: SQLite's pages, every row, references between tables, counters,\n"
        "charged usage, and the invariants of the state. Each problem names its table and key, and what salvage does with\n"
        "it. Nothing is changed. The exit code is 1 if there is a problem.",
        (
            Argument("[FILE]", "a backup, a folder of backups (its newest one), a home, or a database", into="source"),
            JSON,
        ),
        examples=("warpdeck verify", "warpdeck verify site.tar.gz", "warpdeck verify --json"),
        run=_verify,
    ),
)  # fmt: skip
