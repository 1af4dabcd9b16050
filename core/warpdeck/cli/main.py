"""Entry point of the command line: run the verb, and print each error as one sentence with a next step."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence

from warpdeck._version import __version__
from warpdeck.base.errors import ANSWERED, VERBATIM, UserError, WarpdeckError
from warpdeck_agent.client.standard import prepare_standard_streams

from .index import GROUPS, SUMMARIES, load

NEXT_STEPS = {
    errno.ENOSPC: "free space on this disk, then try again",
    errno.EDQUOT: "free space within your quota, then try again",
    errno.EMFILE: "raise the limit of open files: ulimit -n",
}
"""Maps an error of the system to the next step of the user."""
HELP_FLAGS = ("-h", "--help", "help")
ENGINE_OPTION = "--engine"


def usage() -> str:
    """Return the list of verbs with a line of help for each."""
    lines = [
        "usage: warpdeck [--engine {warpdeck,slurm} [--save]] [VERB ...]",
        "",
        "Without a verb, the full-screen app opens (options: --readonly, --theme NAME). `warpdeck VERB --help` explains a verb.",
        "--engine slurm connects to a real Slurm for this command, and --save uses it for all later commands, too.",
        "",
    ]
    for title, verbs in GROUPS.items():
        lines += [f"{title}:", *(f"  {verb:<12} {summary}" for verb, (_, summary) in verbs.items()), ""]
    lines += [
        "examples:",
        "  warpdeck node add gpu01          add a node over SSH",
        "  warpdeck submit train.sh         submit a job",
        "  warpdeck run --gpus 1 --pty bash open a shell with a GPU",
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    prepare_standard_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(words)
        sys.stdout.flush()  # flush here, where a closed pipe is handled
        return code
    except UserError as error:
        if error.code == ANSWERED:
            print(error.message)
            return error.exit_code
        return _failed(
            error.message, error.hint, exit_code=error.exit_code, is_complete=error.code == VERBATIM
        )
    except WarpdeckError as error:
        return _failed(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        hint = NEXT_STEPS.get(error.errno or 0, "check the path and its permissions")
        return _failed(f"{where}{error.strerror or error}", hint)
    except KeyboardInterrupt:
        return 130


def _failed(message: str, hint: str = "", *, exit_code: int = 1, is_complete: bool = False) -> int:
    print(message if is_complete else f"warpdeck: {message}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
    return exit_code


def _dispatch(words: list[str]) -> int:
    if words and words[0] in HELP_FLAGS:
        print(usage())
        return 0
    if words and words[0] in ("--version", "version"):
        print(_version_line())
        return 0
    if words and words[0].partition("=")[0] == ENGINE_OPTION:
        from .shared.engine_option import take_engine

        words, is_complete = take_engine(words)
        return 0 if is_complete else _dispatch(words)
    if not words:
        from .shared.engine_offer import offer_engine

        offer_engine()
        # Imported by name, because the core must not depend on the app.
        return int(importlib.import_module("warpdeck_tui.entry").main())
    if words[0].startswith("-"):
        from .verbs.app import APP

        return APP.main(words)
    verb = words[0]
    if verb not in SUMMARIES:
        raise UserError(f"unknown verb {verb!r}", _meant_by(verb), exit_code=2)
    return load(verb).main(words[1:])


def _version_line() -> str:
    system = os.uname()
    python = ".".join(map(str, sys.version_info[:3]))
    return f"warpdeck {__version__} (Python {python}, {system.sysname} {system.machine})"


def _meant_by(verb: str) -> str:
    """Return the next step for a user who typed an unknown verb."""
    import difflib  # slow to import, and needed here only

    from warpdeck.slurm.command_table import COMMANDS

    if verb in COMMANDS:
        return f'{verb} is a Slurm command: run `eval "$(warpdeck shims)"`, then `{verb}`'
    near = difflib.get_close_matches(verb, SUMMARIES, n=1)
    return f"did you mean `warpdeck {near[0]}`?" if near else "see `warpdeck --help`"


if __name__ == "__main__":
    sys.exit(main())
