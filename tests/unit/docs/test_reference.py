"""The reference pages of the documentation match the code."""

from __future__ import annotations

import re

import pytest
from docs.generate import pages as reference
from docs.generate.verbs import commands_page

from warpdeck.cli.index import SUMMARIES
from warpdeck.slurm.command_table import COMMANDS


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


@pytest.mark.parametrize("name", reference.PAGES)
def test_each_committed_page_equals_the_generated_page(pages: dict[str, str], name: str) -> None:
    committed = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert committed == pages[name], (
        f"docs/reference/{name} is out of date: run `make docs` and commit the result"
    )


def test_generated_pages_do_not_depend_on_the_terminal(
    pages: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert commands_page() == pages["commands.md"]


def test_every_key_of_the_configuration_has_a_meaning(pages: dict[str, str]) -> None:
    lines = [line for line in pages["configuration.md"].splitlines() if line.startswith("| `")]
    assert len(lines) > 100
    assert [line for line in lines if re.search(r"\| +\|$", line)] == []


def test_every_command_of_the_overview_has_a_section(pages: dict[str, str]) -> None:
    for verb in SUMMARIES:
        assert f"\n## warpdeck {verb}\n" in pages["commands.md"]


def test_every_slurm_command_has_its_help(pages: dict[str, str]) -> None:
    for name in (*COMMANDS, "sbcast"):
        assert f"\n## {name}\n\n```text\n" in pages["slurm-commands.md"], name
