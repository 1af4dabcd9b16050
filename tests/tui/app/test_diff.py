"""The page with the differences of two jobs: parsing, layout, and moving between files and hunks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.tui.app.app_pilot import AppPilot, run_app
from tests.tui.app.test_viewmodels import words

from warpdeck_tui.screens.shared.diff_page import DiffPage, DiffView
from warpdeck_tui.viewmodels.diffs.layout import Labels, changed_words, lay_out
from warpdeck_tui.viewmodels.diffs.parsing import MAX_LINES, Parsed, fact_diff, parse, text_diff, unquoted

LABELS = Labels("job 1", "job 2")
DIFF = """diff --git a/train.py b/train.py
index 0123456..789abcd 100644
--- a/train.py
+++ b/train.py
@@ -10,4 +10,5 @@ def train(model):
     model.train()
-    loss = step(model, lr=0.1)
+    loss = step(model, lr=0.3)
+    log(loss)
     return loss
diff --git a/old.txt b/old.txt
deleted file mode 100644
index 0123456..0000000
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
---dashes
\\ No newline at end of file
diff --git "a/na\\303\\257ve.md" "b/na\\303\\257ve.md"
new file mode 100644
--- /dev/null
+++ "b/na\\303\\257ve.md"
@@ -0,0 +1 @@
+hello
diff --git a/a.png b/b.png
similarity index 100%
rename from a.png
rename to b.png
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
"""


def text_of(parsed: Parsed, *, width: int, side_by_side: bool = False) -> list[str]:
    return [words(line) for line in lay_out(parsed, LABELS, width=width, side_by_side=side_by_side).lines]


def test_files_hunks_and_line_numbers_are_parsed() -> None:
    files = parse(DIFF).files
    assert [(file.path, file.note, file.count("+"), file.count("-")) for file in files] == [
        ("train.py", "", 2, 1),
        ("old.txt", "deleted", 0, 1),
        ("na\u00efve.md", "new file", 1, 0),
        ("b.png", "renamed from a.png", 0, 0),
        ("run.sh", "executable", 0, 0),
    ]
    (hunk,) = files[0].hunks
    assert hunk.where == "def train(model):"
    assert [(line.sign, line.old, line.new) for line in hunk.lines] == [
        (" ", 10, 10),
        ("-", 11, None),
        ("+", None, 11),
        ("+", None, 12),
        (" ", 12, 13),
    ]
    assert files[1].hunks[0].lines[0].text == "--dashes"
    assert parse("") == Parsed()


def test_git_headers_are_not_shown_but_the_summary_is() -> None:
    lines = text_of(parse(DIFF), width=100)
    text = "\n".join(lines)
    assert "index 0123456" not in text and "@@" not in text and "diff --git" not in text
    assert "5 changed   +3 -2" in text
    assert any("train.py" in line and "+2" in line and "-1" in line and "++++" in line for line in lines)
    assert "   11      -     loss = step(model, lr=0.1)" in lines
    assert "        11 +     loss = step(model, lr=0.3)" in lines
    assert any(line.startswith("  line 10   def train(model):") for line in lines)
    assert "No differences" in "\n".join(text_of(Parsed(), width=80))


@pytest.mark.parametrize("width", [40, 101, 160])
@pytest.mark.parametrize("side_by_side", [False, True])
def test_no_line_is_wider_than_the_page_and_no_text_is_lost(width: int, side_by_side: bool) -> None:
    wide = "x" * 90 + "\u4f60\u597d" * 40 + "\x1b[31m\tend"
    file = text_diff("long.txt", "same\nshort\n", f"same\n{wide}\n")
    assert file is not None
    lines = text_of(Parsed((file,)), width=width, side_by_side=side_by_side)
    assert max(map(cell_len, lines)) <= width
    text = "".join(lines)
    assert text.count("x") >= 90 and text.count("\u4f60") == 40 and "\x1b" not in text


def test_old_and_new_lines_stand_beside_each_other() -> None:
    lines = text_of(parse(DIFF), width=160, side_by_side=True)
    (row,) = [line for line in lines if "lr=0.1" in line]
    left, right = row.split("│")
    assert left.startswith("   11 -     loss = step(model, lr=0.1)")
    assert right.startswith("   11 +     loss = step(model, lr=0.3)")
    (row,) = [line for line in lines if "log(loss)" in line]
    assert row.split("│")[0].strip() == ""


def test_changed_words_are_marked_only_in_lines_that_are_alike() -> None:
    before, after = changed_words("lr=0.1 seed=3", "lr=0.3 seed=3")
    assert [text for text, mark in before if mark] == ["1"]
    assert [text for text, mark in after if mark] == ["3"]
    before, after = changed_words("import os", "def train(model):")
    assert not any(mark for _, mark in (*before, *after))


def test_options_have_no_line_numbers() -> None:
    file = fact_diff("options", [("gpus: ", "1", "2"), ("new: ", "", "x")])
    assert file is not None
    lines = text_of(Parsed((file,), note="no code"), width=80)
    assert lines[-3:] == ["  - gpus: 1", "  + gpus: 2", "  + new: x"]
    assert "no code" in lines
    assert fact_diff("options", []) is None


def test_a_huge_diff_is_cut_and_laid_out_quickly() -> None:
    huge = DIFF + "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,1 +1,60000 @@\n"
    huge += "".join(f"+line {number} of a new file\n" for number in range(60_000))
    began = time.process_time()
    parsed = parse(huge)
    laid = lay_out(parsed, LABELS, width=160, side_by_side=True)
    assert time.process_time() - began < 3.0
    assert parsed.is_cut and len(laid.lines) < MAX_LINES + 100
    assert any("are cut" in words(line) for line in laid.lines)


def test_quoted_paths_are_decoded() -> None:
    assert unquoted("a\\tb\\303\\251.txt") == "a\tb\u00e9.txt"


async def open_page(ui: AppPilot) -> DiffView:
    many = "".join(f"line {number}\n" for number in range(60))
    files = [
        text_diff(f"f{at}.py", many, many.replace("line 3\n", "x\n").replace("line 40\n", "y\n"))
        for at in range(3)
    ]
    parsed = Parsed(tuple(file for file in files if file is not None))
    ui.app.push_screen(DiffPage("Changes", parsed, LABELS))
    await ui.shows("Changes   3 files, +6 -6", "3 changed   +6 -6")
    return ui.app.screen.query_one(DiffView)


async def test_keys_move_between_files_hunks_and_matches(folder: Path) -> None:
    async with run_app(folder, size=(150, 20)) as ui:
        view = await open_page(ui)

        def top() -> str:
            return words(view.lines[view.scroll_offset.y])  # type: ignore[arg-type]

        await ui.press("right_square_bracket")
        await ui.until(lambda: top().startswith("f0.py"), "the first file")
        await ui.press("J", "J")
        await ui.until(lambda: top().startswith("  line 38"), "the second change")
        await ui.press("K")
        await ui.until(lambda: top().startswith("  line 1"), "the first change")
        await ui.press("right_square_bracket")
        await ui.until(lambda: top().startswith("f1.py"), "the second file")
        await ui.press("left_square_bracket")
        await ui.until(lambda: top().startswith("f0.py"), "back")
        await ui.press("slash", "y", "enter")
        await ui.until(lambda: "line 38" in top(), "two lines above the match")
        await ui.press("slash", "q", "q", "enter")
        await ui.shows_notification("Not found")
        await ui.press("escape")
        assert isinstance(ui.app.screen, DiffPage)
        await ui.press("escape")
        await ui.until(lambda: not isinstance(ui.app.screen, DiffPage), "the page is closed")


async def test_lines_are_side_by_side_on_a_wide_terminal(folder: Path) -> None:
    async with run_app(folder, size=(150, 30)) as ui:
        await open_page(ui)
        await ui.shows("4 + x", "│")
        assert any("line 3 " in line and "x " in line for line in ui.text().splitlines())
        await ui.press("v")
        await ui.until(
            lambda: all("│" not in line.strip(" │") for line in ui.text().splitlines() if "line 3" in line),
            "one column",
        )
        await ui.pilot.resize_terminal(80, 24)
        await ui.shows("3 changed")
