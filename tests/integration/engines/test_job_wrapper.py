"""The scripts that start a job: they claim the submission, go to the code, and change no variable."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from warpdeck.engines.slurm.submitting.job_folder import JobFolder
from warpdeck.engines.slurm.submitting.wrapper import code_text, run_text, start_text
from warpdeck.model import JobId, Request, Snapshot

PATH = {"PATH": "/usr/bin:/bin"}
SHELLS_OWN = {"PWD", "OLDPWD", "SHLVL", "_"}


class Folder:
    """A job's folder that starts a command."""

    def __init__(
        self, path: Path, command: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> None:
        self.path = path
        path.mkdir()
        (path / "run").write_text(run_text(str(path)))
        (path / "start").write_text(start_text(command, variables or {}))

    def script(self, text: str) -> None:
        (self.path / "script").write_text(text)
        (self.path / "script").chmod(0o700)

    def run(self, job: int, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the wrapper as slurmd does: a copy of it, with the variables of the job."""
        spooled = self.path.with_name(f"slurm_script.{os.urandom(4).hex()}")
        spooled.write_text((self.path / "run").read_text())
        return subprocess.run(
            ["/bin/bash", "-p", str(spooled)],
            env={**PATH, "SLURM_JOB_ID": str(job), **env},
            cwd=self.path.parent,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def test_a_file_tells_that_a_job_runs_and_that_it_has_ended(tmp_path: Path) -> None:
    look = (
        "from warpdeck.engines.slurm.submitting.job_folder import JobFolder\n"
        f"print(JobFolder({str(tmp_path / 'job')!r}).is_running(12))"
    )
    folder = Folder(tmp_path / "job", [sys.executable, "-c", look], {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert folder.run(12).stdout == "True\n"
    found = JobFolder(str(folder.path))
    assert found.started() == [12] and not found.is_running(JobId(12))
    found.ended(JobId(12))
    assert found.started() == [] and found.is_running(JobId(12))


def test_a_job_runs_in_a_folder_without_space_for_its_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "job", ["echo", "ran"])
    (folder.path / "running-12").mkdir()
    done = folder.run(12)
    assert (done.stdout, done.stderr, done.returncode) == ("ran\n", "", 0)


def test_a_second_job_of_a_submission_ends_at_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "a'b $x", ["sh", "-c", "echo ran"])
    assert folder.run(12).stdout == "ran\n"
    second = folder.run(13)
    assert second.returncode == 1 and second.stdout == ""
    assert second.stderr == "warpdeck: this submission runs as job 12, so job 13 ends.\n"
    assert folder.run(12, SLURM_RESTART_COUNT="1").stdout == "ran\n"
    assert os.readlink(folder.path / "claim") == "job-12"


def test_of_two_jobs_that_start_together_one_runs(tmp_path: Path) -> None:
    for number in range(10):
        folder = Folder(tmp_path / str(number), ["echo", "ran"])
        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(folder.run, (1, 2, 3, 4)))
        assert sorted(each.stdout for each in done) == ["", "", "", "ran\n"]


def test_all_tasks_of_an_array_run(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "f", ["echo", "ran"])
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda job: folder.run(job, SLURM_ARRAY_JOB_ID="20"), (20, 21, 22, 23)))
    assert [each.stdout for each in done] == ["ran\n"] * 4
    assert folder.run(30, SLURM_ARRAY_JOB_ID="30").stdout == ""


def test_a_node_without_the_folder_says_what_to_do(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "f", ["true"])
    (folder.path / "start").unlink()
    done = folder.run(1)
    assert done.returncode == 1 and "a folder that all nodes share" in done.stderr


def test_a_folder_that_cannot_be_written_runs_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "f", ["echo", "ran"])
    (folder.path / "claim").mkdir()
    done = folder.run(1)
    assert done.returncode == 1 and done.stdout == "" and "cannot write" in done.stderr


def test_the_environment_and_the_arguments_arrive_unchanged(tmp_path: Path) -> None:
    odd = {
        "BASH_FUNC_module%%": "() {  echo x\n}",
        "a.b": "dotted",
        "TEXT": " two\nlines 'and' \"quotes\" $HOME `x` \\",
        "BASH_ENV": str(tmp_path / "never-read"),
        "warpdeck__x": "kept",
    }
    (tmp_path / "never-read").write_text("echo start file; exit 9\n")
    folder = Folder(tmp_path / "f", ["/usr/bin/env", "-0"], {"SBATCH_QOS": "it's\nodd"})
    done = folder.run(5, **odd)
    found = dict(pair.split("=", 1) for pair in done.stdout.split("\0") if pair)
    assert {name: text for name, text in found.items() if name not in SHELLS_OWN} == {
        **PATH,
        **odd,
        "SLURM_JOB_ID": "5",
        "SBATCH_QOS": "it's\nodd",
    }
    words = ["-x", "", "a b", "$HOME", "line\nbreak", "'"]
    other = Folder(tmp_path / "g", ["printf", "%s|", *words])
    assert other.run(6).stdout == "".join(f"{word}|" for word in words)


def test_the_command_replaces_the_wrapper(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "f", ["sh", "-c", "kill -9 $$"])
    assert folder.run(1).returncode == -9


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "tree.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, mode in (("top.txt", 0o644), ("src/run.sh", 0o755), ("src/-odd 'name'", 0o644)):
            member = tarfile.TarInfo(name)
            member.size, member.mode = 2, mode
            archive.addfile(member, io.BytesIO(b"1\n"))
    return path


def snapshot(root: Path, **fields: object) -> Snapshot:
    return Snapshot(commit="c", tree="d" * 40, root=str(root), **fields)  # type: ignore[arg-type]


def with_code(path: Path, packed: Path, found: Snapshot, command: str, **fields: object) -> Folder:
    folder = Folder(path, ["sh", "-c", command])
    (path / "code").write_text(code_text(found, str(packed), Request(**fields)))  # type: ignore[arg-type]
    return folder


def test_a_job_runs_in_a_private_checkout_with_links(tmp_path: Path, packed: Path) -> None:
    root = tmp_path / "root"
    (root / "data set").mkdir(parents=True)
    (root / "top.txt").write_text("changed since\n")
    found = snapshot(root, subdir="src", links=("data set", "top.txt", "missing", "../x"))
    folder = with_code(tmp_path / "f", packed, found, "pwd; ls; cat ../top.txt; readlink '../data set'")
    done = folder.run(1)
    work = folder.path / "work"
    assert done.stdout.split("\n")[:-1] == [
        f"{work}/src",
        "-odd 'name'",
        "run.sh",
        "1",
        str(root / "data set"),
    ], done.stderr
    assert os.access(work / "src/run.sh", os.X_OK) and sorted(os.listdir(work)) == [
        "data set",
        "src",
        "top.txt",
    ]
    assert not list(folder.path.glob("work.*"))


def test_a_restarted_job_gets_its_code_back_and_keeps_its_files(tmp_path: Path, packed: Path) -> None:
    folder = with_code(tmp_path / "f", packed, snapshot(tmp_path), "cat top.txt; echo 2 >top.txt; ls; >new")
    assert folder.run(1).stdout == "1\nsrc\ntop.txt\n"
    assert folder.run(1, SLURM_RESTART_COUNT="1").stdout == "1\nnew\nsrc\ntop.txt\n"


def test_tasks_that_start_together_share_one_checkout(tmp_path: Path, packed: Path) -> None:
    folder = with_code(tmp_path / "f", packed, snapshot(tmp_path), "cat top.txt; pwd")
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda job: folder.run(job, SLURM_ARRAY_JOB_ID="9"), range(9, 15)))
    assert {each.stdout for each in done} == {f"1\n{folder.path}/work\n"}
    assert not list(folder.path.glob("work.*"))


def test_a_job_in_place_uses_the_checkout_only_without_its_folder(tmp_path: Path, packed: Path) -> None:
    found = snapshot(tmp_path)
    here = with_code(tmp_path / "f", packed, found, "pwd", in_place=True, submit_dir=str(tmp_path))
    assert here.run(1).stdout == f"{tmp_path}\n"
    away = with_code(tmp_path / "g", packed, found, "pwd", in_place=True, submit_dir="/no/such/folder")
    assert away.run(1).stdout == f"{away.path}/work\n"


def test_damaged_code_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.tar.gz").write_bytes(b"not an archive")
    folder = with_code(tmp_path / "f", tmp_path / "bad.tar.gz", snapshot(tmp_path), "echo ran")
    done = folder.run(1)
    assert done.returncode == 1 and done.stdout == "" and "cannot unpack the code snapshot" in done.stderr
