"""The table of terms, and the texts of the app that must follow it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpdeck_tui.table.actions import ACTIONS, PLACES
from warpdeck_tui.viewmodels.shell.palette_verbs import ACTION_SYNONYMS, VERBS

TUI = Path(__file__).parents[3] / "tui"
ROW = re.compile(r"^\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \| (?P<banned>[^|]+) \|$")
SOURCES = sorted((TUI / "warpdeck_tui").rglob("*.py"))


def terms() -> dict[str, list[str]]:
    """Return the words that are not to be used, by the term that replaces them."""
    rows = [found for line in (TUI / "TERMS.md").read_text().splitlines() if (found := ROW.match(line))]
    return {row["term"]: row["banned"].split(", ") for row in rows if row["term"] != "Term"}


BANNED = {word: term for term, words in terms().items() for word in words}
PATTERN = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, BANNED))})(?![\w-])", re.IGNORECASE)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Return the texts in a module that a user may see: its strings with a space, without docstrings."""
    tree = ast.parse(path.read_text())
    documents = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
        if is_text and " " in node.value and path.name != "palette_verbs.py":  # type: ignore[attr-defined]
            yield node.lineno, node.value  # type: ignore[attr-defined]


def test_the_table_has_terms_and_no_word_is_both_right_and_wrong() -> None:
    assert len(terms()) >= 20
    assert not {word for term in terms() for word in term.split(", ")} & set(BANNED)


def test_the_search_finds_a_wrong_word_and_leaves_out_parts_of_words() -> None:
    assert PATTERN.search("Give up the job") and PATTERN.search("its turn")
    assert not PATTERN.search("return") and not PATTERN.search("background")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(TUI / "warpdeck_tui")))
def test_texts_use_the_terms(path: Path) -> None:
    wrong = [
        f"{path.name}:{line}: write {BANNED[found[1].lower()]!r} for {found[1]!r} in {text!r}"
        for line, text in texts(path)
        for found in PATTERN.finditer(text)
    ]
    assert not wrong


def test_labels_of_actions_and_contexts_use_the_terms() -> None:
    labels = [text for action in ACTIONS for text in (action.title, action.help, action.short)]
    labels += [*PLACES.values(), *(verb.title for verb in VERBS)]
    assert not [label for label in labels if PATTERN.search(label)]
    assert ACTION_SYNONYMS, "synonyms may be other words, because users type them"
