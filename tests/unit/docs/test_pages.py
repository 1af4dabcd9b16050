"""Pages of the documentation name only existing things."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.documented import REPOSITORY, read_pages

PAGES = [page.path for page in read_pages()]
LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(REPOSITORY)) for path in PAGES])
def test_links_and_tests_of_a_page_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = {found[1] for found in LINK.finditer(text)}
    assert [link for link in sorted(links) if not (path.parent / link).exists()] == []
    tests = set(re.findall(r"`(tests/[\w/]+\.py)`", text))
    assert [name for name in sorted(tests) if not (REPOSITORY / name).exists()] == []
