"""In ARCHITECTURE.md each invariant names an existing test, and the page stays short."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
MOST_LINES = 176


def test_each_invariant_names_a_test_that_exists() -> None:
    invariants = PAGE.partition("## Invariants")[2].partition("\n## ")[0]
    numbered = re.split(r"\n\d+\. ", invariants)[1:]
    assert len(numbered) > 20
    for text in numbered:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", text)
        assert named, text
        for path, name in named:
            assert re.search(
                rf"(?m)(?:def|class) {name}\b|^{name} = ", (ROOT / "tests" / path).read_text()
            ), (path, name)


def test_the_page_is_no_longer_than_two_screens() -> None:
    assert len(PAGE.splitlines()) <= MOST_LINES
