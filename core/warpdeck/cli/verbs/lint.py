"""`warpdeck lint SCRIPT`: show how sbatch reads a batch script, and likely mistakes. It asks the controller
only if one runs.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from warpdeck.base.current_folder import current_folder
from warpdeck.base.errors import UserError
from warpdeck.base.output import clean, print_json
from warpdeck.base.passwd import group_there, user_there
from warpdeck.base.paths import default_paths
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.verb import Argument, Verb
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.submission import draft_script, dry_run, local_files
from warpdeck.notation.option_values.option_fields import OptionSource
from warpdeck.notation.options.directives import MAX_SCRIPT_BYTES
from warpdeck.notation.options.options import SBATCH, SBATCH_22_05, with_plugins
from warpdeck.notation.script_lint import Remark, in_words, remarks
from warpdeck.notation.verdict.verdict import Verdict, judge

if TYPE_CHECKING:
    from argparse import Namespace


def _lint(args: Namespace) -> int:
    """Return 0 if sbatch accepts the script, else 1."""
    name = "stdin" if args.script == "-" else args.script
    data = _read(args.script)
    text = data.decode("utf-8", "surrogateescape")
    cwd = current_folder()
    client = _client()
    with progress("checking the script ..."), client or contextlib.nullcontext():
        plugins = {} if client is None else dict(client.call("plugin_options")["options"])
        known = with_plugins(SBATCH_22_05, plugins)
        verdict = judge(text, name, _option_source(cwd), known=known)
        _check_size(verdict, name)
        warnings = remarks(text, verdict, is_folder=os.path.isdir)
        if verdict.fault is not None and verdict.fault.hint:
            warnings.insert(0, Remark(verdict.fault.line, verdict.fault.hint))
        warnings += _submission_remarks(
            text, data, verdict, name=name, cwd=cwd, client=client, plugins=plugins
        )
    if args.json:
        print_json(
            {
                "accepted": verdict.accepted,
                "components": [_printable(shown) for shown in verdict.shown],
                "errors": [] if verdict.fault is None else [_text(line) for line in verdict.fault.words],
                "warnings": [_text(str(warning)) for warning in warnings],
            }
        )
    else:
        _print_report(verdict, warnings)
    return 0 if verdict.accepted else 1


MAX_SHOWN_CHARS = 1 << 24
"""Limit for all components together. Each repeats the options of the whole job, and a script may have
thousands of components.
"""


def _check_size(verdict: Verdict, name: str) -> None:
    if sum(len(value) for shown in verdict.shown for value in shown.values()) > MAX_SHOWN_CHARS:
        words = f"the options of {name} ({len(verdict.shown):,} components) are larger than {MAX_SHOWN_CHARS >> 20} MiB"
        raise UserError(words, "shorten the values that apply to all components")


def _read(path: str) -> bytes:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_SCRIPT_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(MAX_SCRIPT_BYTES + 1)
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {os.strerror(error.errno or 0)}", "name a batch script, or -"
        ) from error
    if len(data) > MAX_SCRIPT_BYTES:
        raise UserError(
            f"{path} is larger than {MAX_SCRIPT_BYTES >> 20} MiB", "move data out of the batch script"
        )
    return data


def _option_source(cwd: str) -> OptionSource:
    return OptionSource(
        cwd=cwd,
        environ=os.environ,
        now=time.time(),
        is_root=os.getuid() == 0,
        user_id=user_there,
        group_id=group_there,
        read_text=_read_text,
    )


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(MAX_SCRIPT_BYTES)


def _client() -> SyncClient | None:
    """Connect to the controller, if one runs."""
    try:
        return SyncClient.connect(default_paths(), start=False)
    except (UserError, OSError):
        return None


def _submission_remarks(
    text: str,
    data: bytes,
    verdict: Verdict,
    *,
    name: str,
    cwd: str,
    client: SyncClient | None,
    plugins: dict[str, str],
) -> list[Remark]:
    """Return remarks on reasons for which a submission here would fail, or the job would never start."""
    if not verdict.accepted:
        return []
    try:
        data.decode()
        known = with_plugins(SBATCH, plugins)
        files = local_files(cwd)
        draft = draft_script(
            text, name, cwd=cwd, environ=os.environ, now=time.time(), known=known, read=files
        )
        if client is None:
            return []
        found = dry_run(client, draft)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return [Remark(line, "the script is not UTF-8 text and would be refused; convert it with iconv")]
    except UserError as error:
        return [Remark(0, f"the job would be refused: {error.message}; {error.hint}")]
    if found["verdict"] != "never":
        return []
    return [
        Remark(
            0,
            f"the job can never start here: {found['sentence']}"
            + (f"; {found['hint']}" if found["hint"] else ""),
        )
    ]


def _print_report(verdict: Verdict, warnings: list[Remark]) -> None:
    for number, shown in enumerate(verdict.shown, start=1):
        head = f"component {number}: " if len(verdict.shown) > 1 else ""
        print(clean(head + (", ".join(in_words(shown)) or "no options: one task on one CPU")))
    if verdict.fault is not None:
        where = f"line {verdict.fault.line}: " if verdict.fault.line else ""
        print(clean(f"refused: {where}{'; '.join(verdict.fault.words)}"))
    for warning in warnings:
        print(clean(f"  {warning}"))
    if verdict.accepted and not warnings:
        print("  no problems found")


def _printable(shown: dict[str, str]) -> dict[str, str]:
    return {option: _text(value) for option, value in shown.items()}


def _text(words: str) -> str:
    """Return the text with bytes that are not UTF-8 replaced by the replacement character."""
    return words.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


VERBS = (
    Verb(
        "lint", """\
Check a batch script as sbatch reads it, without submitting it. Prints each option with its value in Slurm's
format, and warns about likely mistakes: ignored directives, times in minutes, missing folders, and requests
that no node can satisfy. SBATCH_* variables are read as well.""",
        (
            Argument("SCRIPT", "a batch script; - for standard input"),
            Argument("--json", "print JSON: accepted, components, errors, warnings"),
        ),
        examples=("warpdeck lint train.sh", "warpdeck lint --json train.sh", "generate | warpdeck lint -"),
        run=_lint,
    ),
)  # fmt: skip
