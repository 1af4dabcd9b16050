"""The tree of a snapshot's files, and the text of a file."""

from __future__ import annotations

from warpdeck_tui.viewmodels.jobs.job import CodeState, code_lines, file_text
from warpdeck_tui.viewmodels.jobs.tree import OPEN_AT_MOST, tree_of, tree_rows

FILES = ["train.py", "src/model/attention.py", "src/data.py", "a\x1b[31m.py", "docs/x.md"]


def shown(paths: list[str], *turned: str) -> list[str]:
    tree = tree_of(paths)
    for folder in turned:
        tree = tree.turned(folder)
    return ["".join(cell.text for cell in cells).rstrip() for _, cells in tree_rows(tree)]


def test_folders_come_first_and_show_their_number_of_files() -> None:
    assert shown(FILES) == [
        "▾ docs/1 file",
        "    x.md",
        "▾ src/2 files",
        "  ▾ model/1 file",
        "      attention.py",
        "    data.py",
        "  a\ufffd[31m.py",
        "  train.py",
    ]


def test_a_closed_folder_hides_its_contents() -> None:
    assert shown(FILES, "src", "docs")[:3] == ["▸ docs/1 file", "▸ src/2 files", "  a\ufffd[31m.py"]
    assert shown(FILES, "src", "src") == shown(FILES)
    keys = [key for key, _ in tree_rows(tree_of(FILES))]
    assert keys[:4] == ["docs/", "docs/x.md", "src/", "src/model/"]


def test_a_large_tree_opens_with_its_folders_closed() -> None:
    many = [f"data/part/{number}.json" for number in range(OPEN_AT_MOST)] + ["run.py"]
    assert shown(many) == ["▸ data/60 files", "  run.py"]
    assert shown(many, "data")[1] == "  ▾ part/60 files"
    assert shown([]) == []


def test_binary_files_are_not_shown_as_text() -> None:
    assert file_text(b"\x7fELF\0").startswith("Binary file")
    assert file_text(b"") == "Empty file\n"
    assert file_text("ä\n".encode()) == "ä\n"


def test_a_job_without_a_snapshot_shows_the_reason_and_the_next_step() -> None:
    words = "\n".join("".join(cell.text for cell in line) for line in code_lines(None, CodeState()))
    assert "No snapshot" in words
    assert "git repository" in words
    assert "git init" in words


def test_a_job_of_slurms_own_sbatch_names_the_command_that_records_a_snapshot() -> None:
    lines = code_lines(None, CodeState(is_foreign=True))
    words = "\n".join("".join(cell.text for cell in line) for line in lines)
    assert "No snapshot" in words and "Slurm's own sbatch" in words and "`warpdeck submit`" in words


def test_changed_files_and_their_folders_show_added_and_removed_lines() -> None:
    rows = tree_rows(tree_of(FILES), {"src/data.py": (3, 1), "src/model/attention.py": (2, 0)})
    cells = {key: [cell.text for cell in line[1:3]] for key, line in rows}
    assert cells["src/"] == ["+5", "-1"]
    assert cells["src/model/"] == ["+2", ""]
    assert cells["src/data.py"] == ["+3", "-1"]
    assert cells["train.py"] == ["", ""]


def test_the_head_of_the_code_names_branch_and_changes() -> None:
    snapshot = {"tree": "t" * 40, "head": "a" * 40, "root": "/w", "dirty": True}
    state = CodeState(files=5, branch="main", changed_files=2, added=5, removed=1)
    text = "\n".join("".join(cell.text for cell in line) for line in code_lines(snapshot, state))
    assert "commit aaaaaaaaaaaa on branch main, with uncommitted changes" in text
    assert "changed 2 files since the commit  +5 -1" in text
