"""Help texts of the commands, and errors in arguments and scripts that need no controller."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.served import as_uid

from warpdeck.cli.arguments import flat
from warpdeck.cli.index import SUMMARIES, load
from warpdeck.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, short_tmp: Path) -> Run:
    """Run `warpdeck ARGV` in this process and an empty folder. Return (exit code, stdout, stderr)."""
    monkeypatch.setenv("WARPDECK_HOME", str(short_tmp / "home"))
    monkeypatch.chdir(short_tmp)

    def call(*argv: str) -> tuple[int, str, str]:
        try:
            code = main(argv)
        except SystemExit as end:  # argparse ends --help with it
            code = int(end.code or 0)
        said = capsys.readouterr()
        assert not (short_tmp / "home").exists(), "a controller was started"
        return code, said.out, said.err

    return call


@pytest.mark.parametrize(
    "words", [["srun", "-V"], ["srun", "--version"], ["salloc", "-V"], ["salloc", "-N2", "--version"]]
)
def test_what_only_tells_asks_for_no_allocation(run: Run, words: list[str]) -> None:
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    assert out.startswith("slurm 22.05")


@pytest.mark.parametrize("flag", ["--help", "-h", "help"])
def test_the_overview_names_every_verb(run: Run, flag: str) -> None:
    code, out, _ = run(flag)
    assert code == 0 and all(f"\n  {verb} " in out for verb in SUMMARIES)


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (["quee"], "unknown verb 'quee'", "did you mean `warpdeck queue`?"),
        (["sacct", "-X"], "unknown verb 'sacct'", '`eval "$(warpdeck shims)"`, then `sacct`'),
        (["xyzzy"], "unknown verb 'xyzzy'", "see `warpdeck --help`"),
        (["queue", "--jsn"], "warpdeck queue: unknown option --jsn", "did you mean --json?"),
        (["queue", "extra"], "warpdeck queue: unexpected argument extra", "--help"),
        (["queue", "--limit", "many"], "'many' is not between 1 and 1,000,000,000", "--help"),
        (["show"], "warpdeck show: no JOB given", "for example `warpdeck show 12`"),
        (["cancel"], "no jobs given to cancel", "--me"),
        (["release"], "no jobs given to release", "--me"),
        (["logs", "--tail", "x", "1"], "invalid int value", "--help"),
        (["node", "lss"], "invalid choice: 'lss'", "--help"),
        (["node"], "warpdeck node: no VERB given", "use one of add, ls, show, "),
        (["node", "ls", "--jsn"], "warpdeck node ls: unknown option --jsn", "did you mean --json?"),
        (["config", "show", "--jsn"], "warpdeck config show: unknown option --jsn", "did you mean --json?"),
        (
            ["simulate"],
            "warpdeck simulate: no --trace or --history given",
            "for example `warpdeck simulate -",
        ),
        (["attach"], "warpdeck attach: no JOB given", "see `warpdeck attach --help`"),
        (["attach", "1", "2"], "warpdeck attach: unexpected argument 2", "--help"),
        (["--readnoly"], "unknown option --readnoly", "did you mean --readonly?"),
        (["snapshot", "diff", "1", "2", "3"], "one or two jobs", "--help"),
        (["up", "--forse"], "unknown option --forse", "--help"),
    ],
)
def test_a_command_line_that_is_not_understood_ends_with_2(
    run: Run, argv: list[str], message: str, hint: str
) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert message in first and first.startswith("warpdeck: ") and hint in second


def verbs_with_required_arguments() -> list[tuple[str, list[str]]]:
    """Return command lines of verbs and sub-verbs without arguments, with the names that are missing."""
    found = []
    rows = [(["warpdeck", name], load(name)) for name in SUMMARIES]
    for argv, row in rows:
        rows += [([*argv, each.name], each) for each in row.subverbs]
        required = [each for each in flat(row.arguments) if not each.is_option and each.nargs in ("", "+")]
        names = ["VERB"] if row.subverbs else [each.value for each in required]
        if names:
            found.append((" ".join(argv), names))
    return found


@pytest.mark.parametrize(("line", "missing"), verbs_with_required_arguments())
def test_a_verb_without_its_required_arguments_names_them_and_a_next_step(
    run: Run, line: str, missing: list[str]
) -> None:
    code, out, err = run(*line.split()[1:])
    assert (code, out) == (2, "")
    first, second = err.splitlines()
    assert first == f"warpdeck: {line}: no {' and no '.join(missing)} given"
    step, see = second.strip().split("; ")
    assert step.startswith((f"for example `{line} ", "use one of ", f'for example `eval "$({line} '))
    assert see == f"see `{line} --help`"


def script(path: Path, *lines: str) -> None:
    path.write_text("#!/bin/bash\n" + "\n".join(lines) + "\ntrue\n")


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        (b"", "is empty", "#!/bin/bash"),
        (b"\n\n", "only whitespace", "#!/bin/bash"),
        (b"#!/bin/sh\r\ntrue\r\n", "DOS line breaks", "sed -i"),
        (b"echo hi\n", "does not look like a batch script", "#!/bin/bash"),
        (b"\n#!/bin/sh\n", "does not look like a batch script", "#!/bin/bash"),
        (b"\x7fELF\x02\0\0\0", "is a program", "--wrap job.sh"),
        (b"#!/bin/sh\n# caf\xe9\ntrue\n", "job.sh:2: the script is not UTF-8", "iconv"),
        (b"#!/bin/sh\n" + b"#" * 2**21, "is larger than 2 MiB", "move data out of the batch script"),
    ],
)
def test_a_file_that_is_no_batch_script_is_refused(
    run: Run, short_tmp: Path, data: bytes, message: str, hint: str
) -> None:
    (short_tmp / "job.sh").write_bytes(data)
    refused(run("submit", "job.sh"), message, hint)


def refused(said: tuple[int, str, str], message: str, hint: str) -> None:
    """Check for exit code 1, one sentence and one hint."""
    code, out, err = said
    assert (code, out) == (1, ""), said
    first, second = err.splitlines()
    assert message in first and hint in second, err


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (["submit", "missing.sh"], "there is no script missing.sh", "check the path"),
        (["submit", "."], ". is a folder", "batch script"),
        (["submit"], "no batch script given", "warpdeck submit"),
        (["submit", "--wrap"], "option '--wrap' requires an argument", "value"),
        (["run", "--gpus", "1"], "no command given", "COMMAND"),
    ],
)
def test_what_is_missing_is_said(run: Run, argv: list[str], message: str, hint: str) -> None:
    refused(run(*argv), message, hint)


def test_run_without_a_command_shows_its_help(run: Run) -> None:
    code, out, _ = run("run")
    assert code == 2 and "examples:" in out


@pytest.mark.root
def test_a_script_that_may_not_be_read(run: Run, short_tmp: Path) -> None:
    script(short_tmp / "job.sh")
    os.chmod(short_tmp / "job.sh", 0o600)
    os.chmod(short_tmp, 0o711)
    with as_uid(65534):
        said = run("submit", str(short_tmp / "job.sh"))
    refused(said, "Permission denied", "check its permissions")


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("--ntsks=2", "unrecognized option '--ntsks=2'", "did you mean --ntasks"),
        ("--zzz", "unrecognized option '--zzz'", "see sbatch --help"),
        ("-Y 3", "invalid option -- 'Y'", "see sbatch --help"),
        ("--ntasks", "option '--ntasks' requires an argument", "value"),
        ("--hold=1", "option '--hold' doesn't allow an argument", "--hold"),
        ("--nodes=two", '--nodes=two: "two" is not a valid node count', "MIN-MAX"),
        ("--nodes=4-2", "--nodes=4-2: Maximum node count 2 is less than minimum", "MIN-MAX"),
        ("--nodes=0", "--nodes=0 is out of range", "1 to 100,000"),
        ("--ntasks=99999999", "out of range", "1 to 10,000,000"),
        ("-c -1", 'Invalid numeric value "-1" for --cpus-per-task', "number"),
        ("--time=12h", "Invalid --time specification: '12h'", "D-HH:MM:SS"),
        ("--time=99999999999", "--time=99999999999 is longer than 68 years", "UNLIMITED"),
        ("--mem=64GiB", "Invalid --mem specification: '64GiB'", "64G"),
        ("--mem=1.5G", "Invalid --mem specification: '1.5G'", "64G"),
        ("--mem-per-cpu=lots", "Invalid --mem-per-cpu specification: 'lots'", "64G"),
        ("--gres=nvme:1", "only GPUs and shards of GPUs are supported", "gpu[:TYPE]:COUNT"),
        ("--gres=gpu:1,gpu:2", "two types of GPU", "one type"),
        ("--gpus=", "not a request for GPUs", "count"),
        ("--gpus=a:b:c", "not a request for GPUs", "TYPE:COUNT"),
        ("--array=9-0", "is empty", "smaller number first"),
        ("--array=0-9-2", "is not a range", "0-9"),
        ("--array=0-99999999", "more than 1,000,000 tasks", "split"),
        ("--array=x", "is not a range", "0-9"),
        ("--dependency=after-ok:1", "'after-ok:1' is not a dependency", "afterok"),
        ("--dependency=afterok:x", "is not a job ID", "12_3"),
        ("--dependency=afterok:1?afterok:2,afterok:3", "contains both , and ?", "use , for all"),
        ("--dependency=expand:1", "'expand:1' is not a dependency", "afterany"),
        ("--open-mode=shred", "Invalid --open-mode specification: 'shred'", "append or truncate"),
        ("--begin=tea-time", "Invalid --begin specification: 'tea-time'", "now+2hours"),
        ("--nice=99999999999", "Invalid --nice value, out of range", "smaller number"),
        ("--nodelist=gpu[1-", "is not a hostlist", "gpu[01-04"),
        ("--exclude=gpu[9-1-2]", "is not a hostlist", "gpu[01-04"),
        ("--network=ib", "--network is not supported: network settings", "leave the option out"),
        ("--signal=USR3@60", "Invalid --signal specification: 'USR3@60'", "USR1"),
        ("--mem=1G --mem-per-cpu=1G", "exclude each other", "one of them"),
        ("-J 'x", "Unmatched `'` in", "close the quote"),
        ("two words", "Invalid directive found in batch script: two", "quote"),
        ("-J a b", "Invalid directive found in batch script: b", "quote"),
    ],
)
def test_a_directive_that_is_wrong_names_line_and_option(
    run: Run, short_tmp: Path, line: str, message: str, hint: str
) -> None:
    script(short_tmp / "job.sh", "#SBATCH -J ok", f"#SBATCH {line}")
    said = run("submit", "job.sh")
    refused(said, message, hint)
    assert "exclude each other" in message or "job.sh:3" in said[2]


def test_the_same_on_the_command_line_names_the_command_line(run: Run, short_tmp: Path) -> None:
    script(short_tmp / "job.sh")
    refused(
        run("submit", "--time=12h", "job.sh"), "command line: Invalid --time specification: '12h'", "D-HH"
    )
    refused(run("submit", "--ntsks", "2", "job.sh"), "unrecognized option '--ntsks'", "did you mean --ntasks")
    refused(run("run", "--ntsks", "2", "true"), "unrecognized option '--ntsks'", "did you mean --ntasks")


def test_a_folder_that_was_deleted_under_us(run: Run, short_tmp: Path) -> None:
    gone = short_tmp / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    refused(run("submit", "--wrap", "true"), "folder does not exist any more", "change to one")
    os.chdir(short_tmp)


def test_verbs_that_only_ask_start_nothing(run: Run) -> None:
    code, out, err = run("status", "--json")
    assert code == 1 and '"running": false' in out and not err
    assert run("down")[0] == 0
