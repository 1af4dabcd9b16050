"""Imports of the command line. Each start pays for them, so a verb imports only its own parts."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ("asyncio", "msgspec", "textual", "asyncssh", "dataclasses", "inspect", "shutil")


def loaded(*argv: str) -> set[str]:
    """Return the modules that are loaded after `warpdeck ARGV`."""
    code = (
        "import contextlib, io, sys\n"
        "from warpdeck.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main(sys.argv[1:])\n"
        "print(*sys.modules)\n"
    )
    command = [sys.executable, "-c", code, *argv]
    return set(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split())


@pytest.mark.parametrize("verb", ["queue", "show", "cancel", "node", "prio", "run", "srun", "attach"])
def test_a_verb_starts_without_what_is_slow_to_import(verb: str) -> None:
    assert not loaded(verb, "--help") & set(SLOW)


def test_a_verb_loads_no_module_of_another_group() -> None:
    verbs = {name for name in loaded("queue", "--help") if name.startswith("warpdeck.cli.verbs.")}
    assert verbs == {"warpdeck.cli.verbs.queue"}


@pytest.mark.parametrize(
    "argv", [["--help"], ["--version"], ["completion", "--words", "bash", "--", "warpdeck", "q"]]
)
def test_the_overview_and_the_completion_of_verbs_load_no_verb(argv: list[str]) -> None:
    verbs = {name for name in loaded(*argv) if name.startswith("warpdeck.cli.verbs.")}
    assert verbs <= {"warpdeck.cli.verbs.completion"}
