"""The jobs selected by scancel's filters."""

from __future__ import annotations

import pytest

from warpdeck.slurm.console.console import CommandError
from warpdeck.slurm.submit.cancel_choice import user_named


@pytest.mark.parametrize("word", ["root", "0"])
def test_a_user_is_named_or_numbered(word: str) -> None:
    assert user_named(word) == "root"


@pytest.mark.parametrize("word", ["", "nobody-of-that-name", "4294967295", "99999999999999999999"])
def test_a_user_that_there_is_not_is_told(word: str) -> None:
    with pytest.raises(CommandError, match="Invalid user name: " + word):
        user_named(word)
