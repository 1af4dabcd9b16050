"""The shell's side of a submission, message by message. The test plays the submitter."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.support.processes import read
from tests.support.waiting import WAIT_S, eventually

from warpdeck.slurm.shims.sbatch_script import LOOK, script
from warpdeck.submitter.request_fifos import ShellRequest, Slots

SHELLS = {
    "sh": ["/bin/sh"],
    "bash": ["/bin/bash", "--posix"],
    "busybox": ["/bin/busybox", "sh"],
}
OTHER = 7
"""Exit code of the stand-in for the Python client."""
LOST = f"sbatch: error: the answer was lost, and the job may have been submitted\n  {LOOK}\n"

KILLED = """
import select
from warpdeck.submitter.request_fifos import Slots, lock_folder
held = lock_folder({folder!r})
slots = Slots({folder!r})
print("ready", flush=True)
select.select([slots], [], [])
(request,) = slots.requests()
request.slot.say("{message}")
print("asked", flush=True)
select.select([], [], [])
"""
"""A submitter that sends this answer and nothing else."""


class Desk:
    """A folder of slots, and the script that submits there."""

    def __init__(self, folder: Path, shell: list[str]) -> None:
        self.folder = folder / "asked"
        self.folder.mkdir(mode=0o700)
        self.slots = Slots(str(self.folder))
        self.shell = shell
        python = folder / "python"
        python.write_text(
            '#!/bin/sh\nshift 3\nfor word; do printf "<%s>" "$word"; done\n'
            f"base64 -d <&8 >{folder}/environ\nexit {OTHER}\n"
        )
        python.chmod(0o700)
        self.environ = folder / "environ"
        self.program = folder / "sbatch"
        self.program.write_text(
            script(head="#", home="/a/home", folder=str(self.folder), interpreter=str(python), folders=[])
        )

    @contextmanager
    def start(
        self, *argv: str, stdout: int = subprocess.PIPE, **environ: str
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a submitting shell. It is killed at the end, so that a failing test does not wait for it."""
        with subprocess.Popen(
            [*self.shell, self.program, *argv],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": "/usr/bin:/bin", **environ},
        ) as running:
            try:
                yield running
            finally:
                running.kill()

    def request(self) -> ShellRequest:
        """Return the next request when it arrives."""
        assert select.select([self.slots], [], [], WAIT_S)[0], "no shell asks"
        (found,) = self.slots.requests()
        return found

    def answer(self, *lines: str, argv: tuple[str, ...] = ("x",)) -> tuple[int, str, str]:
        """Return the shell's result for an answer of these lines."""
        with self.start(*argv) as asking:
            request = self.request()
            assert (request.pid, request.words) == (asking.pid, len(argv))
            request.slot.say("".join(f"{line}\n" for line in lines))
            request.slot.close()
            out, err = asking.communicate(timeout=WAIT_S)
        return asking.returncode, out, err


@pytest.fixture(params=["sh", "bash", pytest.param("busybox", marks=pytest.mark.shells)])
def desk(request: pytest.FixtureRequest, short_tmp: Path) -> Iterator[Desk]:
    new_desk = Desk(short_tmp, SHELLS[request.param])
    yield new_desk
    if new_desk.folder.exists():
        new_desk.slots.close()


def test_answer_lines_are_printed_on_output_and_errors(desk: Desk) -> None:
    lines = ("?", "2sbatch: a note", "1Submitted batch job 17", r"1  \n is *  kept ", "1", ".")
    assert desk.answer(*lines) == (0, "Submitted batch job 17\n  \\n is *  kept \n\n", "sbatch: a note\n")


def test_non_ascii_characters_are_printed_unchanged(desk: Desk) -> None:
    assert desk.answer("?", "1äöü ß 漢字 ā", ".") == (0, "äöü ß 漢字 ā\n", "")


@pytest.mark.parametrize("lines", [[], ["?", "-"]], ids=["turned away", "refused"])
def test_without_an_answer_the_python_client_gets_all_arguments(desk: Desk, lines: list[str]) -> None:
    argv = ("-J", "a b", "", "new\nline", "*", "'\"$HOME\\")
    assert desk.answer(*lines, argv=argv) == (OTHER, "".join(f"<{word}>" for word in argv), "")


def test_a_lost_answer_is_reported(desk: Desk) -> None:
    assert desk.answer("?") == (1, "", LOST)


def test_a_shell_does_not_wait_if_no_submitter_listens(desk: Desk) -> None:
    desk.slots.close()
    with desk.start("x") as asking:
        assert asking.communicate(timeout=WAIT_S) == ("<x>", "")


@pytest.mark.parametrize(("message", "seen"), [("", (OTHER, "<x>", "")), ("?\\n", (1, "", LOST))])
def test_a_shell_stops_waiting_when_the_submitter_is_killed(
    desk: Desk, message: str, seen: tuple[int, str, str]
) -> None:
    desk.slots.close()
    with ExitStack() as stack:
        program = [sys.executable, "-c", KILLED.format(folder=str(desk.folder), message=message)]
        serving = stack.enter_context(subprocess.Popen(program, stdout=subprocess.PIPE))
        stack.callback(serving.kill)
        assert serving.stdout and serving.stdout.readline()  # it listens
        asking = stack.enter_context(desk.start("x"))
        assert serving.stdout.readline()  # it received a request
        serving.kill()
        out, err = asking.communicate(timeout=WAIT_S)
    assert (asking.returncode, out, err) == seen
    shutil.rmtree(desk.folder)


def test_stale_fifos_of_a_killed_submitter_block_no_shell(desk: Desk) -> None:
    shutil.rmtree(desk.folder)
    desk.folder.mkdir(mode=0o700)
    for name in ("ask", "1-1.slot", "1-2.slot"):
        os.mkfifo(desk.folder / name)
    with desk.start("x") as asking:
        assert asking.communicate(timeout=WAIT_S) == ("<x>", "")
    assert asking.returncode == OTHER
    shutil.rmtree(desk.folder)


def test_without_a_free_slot_the_python_client_is_used(desk: Desk) -> None:
    for slot in list(desk.folder.glob("*.slot")):
        Path(f"{slot}.taken").touch()
    with desk.start("x") as asking:
        assert asking.communicate(timeout=WAIT_S) == ("<x>", "")


def test_a_slot_that_served_another_shell_in_the_meantime_is_not_used(desk: Desk) -> None:
    """The `.taken` file is a FIFO here, so the shell stops between its check of the slot and its mark."""
    first = min(desk.folder.glob("*.slot"))
    os.mkfifo(f"{first}.taken")
    mark = desk.folder.parent / "mark"
    os.link(f"{first}.taken", mark)
    with desk.start("x") as asking:
        eventually(lambda: b") S " in read(asking.pid, "stat"), what="the shell stops")
        with open(desk.folder / "ask", "w", encoding="ascii") as other_shell:
            other_shell.write(f"1 0 {first.name}\n")
        desk.request().slot.close()
        os.close(os.open(mark, os.O_RDONLY))  # lets the shell go on
        request = desk.request()
        request.slot.say("?\n1Submitted batch job 1\n.\n")
        request.slot.close()
        assert asking.communicate(timeout=WAIT_S) == ("Submitted batch job 1\n", "")


def test_each_of_many_shells_has_a_separate_slot(desk: Desk) -> None:
    with ExitStack() as stack:
        asking = [stack.enter_context(desk.start(str(number))) for number in range(8)]
        requests: list[ShellRequest] = []
        while len(requests) < len(asking):
            assert select.select([desk.slots], [], [], WAIT_S)[0]
            requests += desk.slots.requests()
        for request in requests:
            request.slot.say(f"?\n1{request.pid}\n.\n")
            request.slot.close()
        outputs = [each.communicate(timeout=WAIT_S)[0] for each in asking]
    assert outputs == [f"{each.pid}\n" for each in asking]


@pytest.mark.root
@pytest.mark.parametrize("of", ["folder", "slots"])
def test_fifos_of_another_user_are_not_used(desk: Desk, of: str) -> None:
    for path in [desk.folder] if of == "folder" else desk.folder.glob("*.slot"):
        os.chown(path, 65_534, 65_534)
    with desk.start("x") as asking:
        assert asking.communicate(timeout=WAIT_S) == ("<x>", "")


def test_the_python_client_gets_the_environment_unchanged(desk: Desk) -> None:
    desk.slots.close()
    environ = {
        "BASH_FUNC_f%%": "() {  :\n}",
        "IFS": "x",
        "line": ".",
        "sent": "yes",
        "a.b": "",
        "OPTIND": "7",
    }
    environ |= {f"V{number}": "x" * 100_000 for number in range(3)}
    with desk.start("x", stdout=subprocess.PIPE, **environ) as asking:
        asking.communicate(timeout=WAIT_S)
    found = dict(each.split("=", 1) for each in desk.environ.read_text().split("\0")[:-1])
    assert found == {"PATH": "/usr/bin:/bin", **environ}


def test_without_arguments_the_submitter_is_not_asked(desk: Desk) -> None:
    with desk.start() as asking:
        asking.communicate(timeout=WAIT_S)
    assert (asking.returncode, desk.slots.requests()) == (OTHER, [])


def test_an_interrupt_ends_the_waiting_shell(desk: Desk) -> None:
    with desk.start("x") as asking:
        request = desk.request()
        asking.send_signal(signal.SIGINT)
        assert asking.wait(WAIT_S) == 130
        request.slot.say("?\n1late\n.\n")  # nothing reads it, and nothing fails
        request.slot.close()


def test_a_closed_pipe_is_ignored_and_a_full_disk_is_reported(desk: Desk) -> None:
    out, other_end = os.pipe()
    os.close(out)
    full = os.open("/dev/full", os.O_WRONLY)
    message = []
    for descriptor in (other_end, full):
        with desk.start("x", stdout=descriptor) as asking:
            os.close(descriptor)
            request = desk.request()
            request.slot.say("?\n1Submitted batch job 1\n.\n")
            request.slot.close()
            message.append((asking.communicate(timeout=WAIT_S)[1], asking.returncode))
    full_words = "sbatch: error: the answer cannot be written\n  the command may have taken effect; check before you repeat it\n"
    assert message == [("", 1), (full_words, 1)]


@pytest.mark.parametrize("number", [6, 7])
def test_descriptors_of_the_caller_stay_open(desk: Desk, number: int) -> None:
    (desk.folder.parent / "python").write_text(f"#!/bin/sh\ncat <&{number}\n")
    shell = [*desk.shell, str(desk.program), "x"]
    held = desk.folder.parent / "held"
    held.write_text("held")
    with subprocess.Popen(
        ["sh", "-c", f'exec {number}<{held} && exec "$@"', "sh", *shell], stdout=subprocess.PIPE, text=True
    ) as asking:
        out, _ = asking.communicate(timeout=WAIT_S)
    assert (out, desk.slots.requests()) == ("held", [])


def test_a_shell_without_output_does_not_use_the_submitter(desk: Desk) -> None:
    mark = desk.folder.parent / "mark"
    (desk.folder.parent / "python").write_text(f"#!/bin/sh\n: >{mark}\n")
    line = 'exec >&-; exec "$@"'
    subprocess.run(["sh", "-c", line, "sh", *desk.shell, desk.program, "x"], timeout=WAIT_S, check=True)
    assert mark.exists() and desk.slots.requests() == []


def test_a_shell_with_another_home_does_not_use_this_submitter(desk: Desk) -> None:
    with desk.start("x", WARPDECK_HOME="/another") as running:
        out, _ = running.communicate(timeout=WAIT_S)
    assert (running.returncode, out) == (OTHER, "<x>")
    assert desk.slots.requests() == []
