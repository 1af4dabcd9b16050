"""Write the pages of docs/reference, or check them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .pages import FOLDER, pages, stale


def main(words: Sequence[str]) -> int:
    """Write the pages, or check them."""
    if "--check" in words:
        found = stale()
        for name in found:
            print(
                f"docs/reference/{name} is out of date. Run `make docs` and commit the result.",
                file=sys.stderr,
            )
        return int(bool(found))
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
