"""The files that agents of a site write: whose files are read, and which are left out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from warpdeck.base.errors import UserError
from warpdeck.engines.slurm.gpus.agent_files import MAX_FILE_BYTES, read_files
from warpdeck.model import NodeName
from warpdeck_agent.gpu import readings_file

pytestmark = pytest.mark.root
FOREIGN_UID = 12345
NODES = [NodeName(f"n{number}") for number in range(1, 9)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


def write(folder: Path, node: str, *, says: str = "") -> Path:
    path = folder / f"{node}.json"
    gpus = [{"index": 0, "util_pct": 7}]
    path.write_text(json.dumps({"node": says or node, "at_unix": 5.0, "cards": [], "gpus": gpus}))
    path.chmod(0o644)
    return path


def test_the_files_of_the_nodes_are_read(folder: Path) -> None:
    write(folder, "n1")
    write(folder, "other")
    [(name, line)] = read_files(str(folder), "", NODES).items()
    assert name == "n1" and line.gpus[0].util_pct == 7


def test_files_that_are_foreign_broken_or_no_files_are_left_out(folder: Path) -> None:
    os.chown(write(folder, "n1"), FOREIGN_UID, 0)
    write(folder, "n2").chmod(0o666)
    write(folder, "n3", says="n4")
    os.mkfifo(folder / "n5.json", 0o644)
    (folder / "n6.json").symlink_to(write(folder, "other"))
    write(folder, "n7").write_text("{" * 100)
    write(folder, "n8").write_text("{}" + " " * MAX_FILE_BYTES + "{}")
    assert read_files(str(folder), "", [*NODES, NodeName("../n1")]) == {}


def test_a_folder_into_which_others_could_write_is_not_read(folder: Path) -> None:
    write(folder, "n1")
    for mode in (0o777, 0o775, 0o1777):
        folder.chmod(mode)
        with pytest.raises(UserError, match="other accounts"):
            read_files(str(folder), "", NODES)
    folder.chmod(0o755)
    os.chown(folder, FOREIGN_UID, 0)
    with pytest.raises(UserError, match="other accounts"):
        read_files(str(folder), "", NODES)


def test_the_account_from_the_settings_is_trusted(folder: Path) -> None:
    os.chown(folder, 65534, 65534)
    os.chown(write(folder, "n1"), 65534, 65534)
    assert set(read_files(str(folder), "nobody", NODES)) == {"n1"}
    with pytest.raises(UserError, match="no account"):
        read_files(str(folder), "no-such-account", NODES)
    with pytest.raises(UserError, match="No such file"):
        read_files(f"{folder}/missing", "", NODES)


def test_a_name_that_is_no_file_name_is_refused(folder: Path) -> None:
    assert readings_file.main([str(folder), "../n1"]) == 2
