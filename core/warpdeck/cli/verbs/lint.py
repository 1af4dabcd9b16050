"""`warpdeck lint SCRIPT`: show how sbatch reads a batch script, and likely mistakes. It asks the controller
only if one runs.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpdeck.base.current_folder import current_folder
from warpdeck.base.errors import UserError
from warpdeck.base.output import clean, print_json
from warpdeck.base.passwd import existing_gid, existing_uid
from warpdeck.base.paths import default_paths
from warpdeck.cli.arguments import Argument
from warpdeck.cli.shared.progress import progress
from warpdeck.cli.verb import Verb
from warpdeck.client.blocking_client import SyncClient
from warpdeck.client.submission import draft_components, dry_run, local_files
from warpdeck.notation.options.directives import MAX_SCRIPT_BYTES, script_error
from warpdeck.notation.options.given_options import OptionSource
from warpdeck.notation.options.option_table import SBATCH, SBATCH_22_05, with_plugins
from warpdeck.notation.reading.components import Component
from warpdeck.notation.reading.script import read_components
from warpdeck.notation.script_lint import Remark, in_words, remarks
from warpdeck.notation.validation.result import ValidationResult, rejection
from warpdeck.notation.validation.script import validate_components

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
        source = _source(cwd)
        components = read_components(text, name, source, known=with_plugins(SBATCH, plugins))
        result = _validate(text, name, components, source, plugins)
        _check_size(result, name)
        warnings = remarks(text, result, is_folder=os.path.isdir)
        if result.rejection is not None and result.rejection.hint:
            warnings.insert(0, Remark(result.rejection.line, result.rejection.hint))
        if result.accepted:
            warnings += _submission_remarks(
                data, components, name=name, cwd=cwd, client=client, plugins=plugins
            )
    if args.json:
        print_json(
            {
                "accepted": result.accepted,
                "components": [_printable(shown) for shown in result.shown],
                "errors": []
                if result.rejection is None
                else [_text(line) for line in result.rejection.lines],
                "warnings": [_text(str(warning)) for warning in warnings],
            }
        )
    else:
        _print_report(result, warnings)
    return 0 if result.accepted else 1


MAX_SHOWN_CHARS = 1 << 24
"""Limit for all components together. Each repeats the options of the whole job, and a script may have
thousands of components.
"""


def _check_size(result: ValidationResult, name: str) -> None:
    if sum(len(value) for shown in result.shown for value in shown.values()) > MAX_SHOWN_CHARS:
        words = f"the options of {name} ({len(result.shown):,} components) are larger than {MAX_SHOWN_CHARS >> 20} MiB"
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


def _source(cwd: str) -> OptionSource:
    return OptionSource(
        cwd=cwd,
        environ=os.environ,
        now=time.time(),
        is_root=os.getuid() == 0,
        user_id=existing_uid,
        group_id=existing_gid,
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


def _validate(
    text: str, name: str, components: Sequence[Component], source: OptionSource, plugins: dict[str, str]
) -> ValidationResult:
    """Validate the script as Slurm 22.05 does, with the options of the site's plug-ins."""
    error = script_error(text, name)
    if error is not None:
        return ValidationResult([], [], rejection(error, source))
    return validate_components(components, source, known=with_plugins(SBATCH_22_05, plugins))


def _submission_remarks(
    data: bytes,
    components: Sequence[Component],
    *,
    name: str,
    cwd: str,
    client: SyncClient | None,
    plugins: dict[str, str],
) -> list[Remark]:
    """Return remarks on reasons for which a submission here would fail, or the job would never start."""
    try:
        script = {"script": data.decode()}
        known = with_plugins(SBATCH, plugins)
        draft = draft_components(
            components, name, script, cwd=cwd, environ=os.environ, known=known, read=local_files(cwd)
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


def _print_report(result: ValidationResult, warnings: list[Remark]) -> None:
    for number, shown in enumerate(result.shown, start=1):
        head = f"component {number}: " if len(result.shown) > 1 else ""
        print(clean(head + (", ".join(in_words(shown)) or "no options: one task on one CPU")))
    if result.rejection is not None:
        where = f"line {result.rejection.line}: " if result.rejection.line else ""
        print(clean(f"refused: {where}{'; '.join(result.rejection.lines)}"))
    for warning in warnings:
        print(clean(f"  {warning}"))
    if result.accepted and not warnings:
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
