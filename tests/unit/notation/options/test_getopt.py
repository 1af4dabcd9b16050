"""Command lines in which options and other words are mixed."""

from __future__ import annotations

import pytest

from warpdeck.base.errors import UserError
from warpdeck.notation.options.getopt import parse_anywhere, parse_leading
from warpdeck.notation.options.option_table import NONE, OPTIONAL, REQUIRED, table

KNOWN = table("cmd", {"signal": ("s", REQUIRED), "verbose": ("v", NONE), "steps": ("", OPTIONAL)})


@pytest.mark.parametrize(
    ("words", "found", "others"),
    [
        ("12 --signal USR1 13", [("signal", "USR1")], ["12", "13"]),
        ("-v 12 -vsTERM", [("verbose", ""), ("verbose", ""), ("signal", "TERM")], ["12"]),
        ("12 --steps 13", [("steps", "")], ["12", "13"]),
        ("12 -- -v --", [], ["12", "-v", "--"]),
        ("-s -- 12", [("signal", "--")], ["12"]),
        ("-", [], ["-"]),
        ("", [], []),
    ],
)
def test_options_after_other_words_are_found_as_in_getopt_long(
    words: str, found: list[tuple[str, str]], others: list[str]
) -> None:
    assert parse_anywhere(words.split(), "cmd", KNOWN) == (found, others)


def test_commands_that_run_a_program_stop_at_the_first_other_word() -> None:
    assert parse_leading(["-v", "12", "-v"], "cmd", KNOWN) == ([("verbose", "")], ["12", "-v"])


def test_errors_after_other_words_are_reported() -> None:
    with pytest.raises(UserError, match=r"^cmd: unrecognized option '--no-such'"):
        parse_anywhere(["12", "--no-such"], "cmd", KNOWN)
