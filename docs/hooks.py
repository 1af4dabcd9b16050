"""Hooks of MkDocs.

The pictures of the app lie in tui/screenshots, where a forge shows them, and are copied into the site. A page that mkdocs.yml does not
name appears at the end of the section of its folder.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parent.parent
PICTURES = "tui/screenshots"


def on_config(config: MkDocsConfig, /) -> MkDocsConfig:
    """Add pages that the navigation does not name to the section of their folder."""
    sections = {
        title: entries
        for each in config.nav or []
        for title, entries in each.items()
        if isinstance(entries, list)
    }
    named = {path for entries in sections.values() for entry in entries for path in entry.values()}
    for entries in sections.values():
        folder = next(iter(entries[0].values())).partition("/")[0]
        found = sorted(f"{folder}/{path.name}" for path in (REPOSITORY / "docs" / folder).glob("*.md"))
        entries += [path for path in found if path not in named]
    return config


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Add the pictures to the files of the site."""
    for path in sorted((REPOSITORY / PICTURES).glob("*.svg")):
        files.append(File.generated(config, f"screenshots/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the paths that a forge follows to the copies in the site."""
    up = "../" * page.file.src_uri.count("/")
    return markdown.replace(f"]({up}../{PICTURES}/", f"]({up}screenshots/")
