"""Read the command lines of README.md and the documentation, and run them like a reader.

Conventions of a page:

- A fenced block ```console contains command lines that begin with "$ ". A command with a trailing backslash or an open
  here-document (<<) continues in the next line. All other lines are output for the reader, and nothing compares them.
- `<!-- exit: 1 -->` right before a block gives the exit code of its last command. Every other command must end with 0.
- `<!-- needs: WORD, ... -->` right before a block lists its needs besides this machine: gpu, ssh, root, slurm, or a
  program.
- `<!-- types: TEXT -->` gives the input of an interactive command. The default is "exit" for a shell and "q" for the
  app.
- A fenced block with a title, for example ```bash title="train.sh", is a file. It is written before the commands run.

All commands of a page run in one bash, in an empty home folder, with one site that has this machine as its node. The
fake NVML library gives this machine four GPUs, so blocks that need `gpu` run here if there is a C compiler. Pages with
blocks that need `ssh` or `root` run on the hosts of the lab. Other commands (`slurm`, programs that are not installed)
are only parsed: the command's own parser must accept the arguments, and nothing connects.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from warpdeck.base.errors import UserError
from warpdeck.cli.index import SUMMARIES, load
from warpdeck.cli.parser import parse
from warpdeck.cli.slurm_verb import SlurmVerb
from warpdeck.notation.options import option_table as options
from warpdeck.notation.options.getopt import parse_leading

REPOSITORY = Path(__file__).parent.parent.parent
GENERATED = "docs/reference"
COMMAND_S = 30.0
"""Time after which a command of a page counts as hanging."""
TYPE_EVERY_S = 0.12
FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*) *(?P<rest>.*)")
COMMENT = re.compile(r"<!-- *(exit|needs|types): *(.*?) *-->")
TITLE = re.compile(r'title="([^"]+)"')
SHELLS = re.compile(r"--pty\b|\bwarpdeck attach\b|\bsalloc\b(?!.*(--no-shell| srun | -- ))")
APP = re.compile(
    r"^(?:\w+=\S* )*warpdeck( demo| --?\w.*| screen (?!.*(--plain|--json)).*| attach --watch.*)?( *#.*)?$"
)
NOT_APP = re.compile(r"warpdeck (--help|--version|-h)")


@dataclass(frozen=True)
class Command:
    """One command line of a page."""

    line: int
    text: str
    exit: int = 0
    needs: frozenset[str] = frozenset()
    types: str | None = None

    @property
    def typed(self) -> str | None:
        """Return the input that is typed at an interactive command, or None for other commands."""
        if self.types is not None:
            return self.types + "\r"
        bare = self.text.split(" #")[0].rstrip()
        if APP.fullmatch(bare) and not NOT_APP.match(bare):
            return "q"
        return "exit\r" if SHELLS.search(bare) and "--help" not in bare else None


@dataclass
class Page:
    """The commands and files of one page."""

    path: Path
    commands: list[Command] = field(default_factory=list)
    files: list[tuple[str, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.path.relative_to(REPOSITORY))

    @property
    def needs(self) -> frozenset[str]:
        """Return the needs of all blocks of the page."""
        return frozenset().union(*(command.needs for command in self.commands))


def read_pages() -> list[Page]:
    """Return README.md and every page of the documentation that is not generated."""
    paths = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    return [read_page(path) for path in paths if not path.is_relative_to(REPOSITORY / GENERATED)]


def read_page(path: Path) -> Page:
    page = Page(path)
    annotations: dict[str, str] = {}
    lines = list(enumerate(path.read_text(encoding="utf-8").splitlines(), start=1))
    while lines:
        _, line = lines.pop(0)
        if comments := COMMENT.findall(line):
            annotations |= dict(comments)
        elif fence := FENCE.fullmatch(line):
            block = list(_block(lines, fence))
            if fence["language"] == "console":
                page.commands += _commands(block, annotations)
            elif title := TITLE.search(fence["rest"]):
                page.files.append((title[1], "".join(text + "\n" for _, text in block)))
            annotations = {}
        elif line.strip():
            annotations = {}
    return page


def _block(lines: list[tuple[int, str]], fence: re.Match[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines up to the end of the block, without its indentation."""
    while lines:
        number, line = lines.pop(0)
        if line.strip() == fence["ticks"]:
            return
        yield number, line.removeprefix(fence["indent"])


def _commands(block: list[tuple[int, str]], annotations: Mapping[str, str]) -> list[Command]:
    needs = frozenset(re.split(r"[,\s]+", annotations["needs"])) if "needs" in annotations else frozenset()
    found: list[Command] = []
    rest = list(block)
    while rest:
        number, line = rest.pop(0)
        if not line.startswith("$ "):
            continue
        text = line[2:]
        here_document = re.search(r"<<-?\s*['\"]?(\w+)", text)
        while rest and (
            text.endswith("\\") or (here_document and not text.endswith("\n" + here_document[1]))
        ):
            text += "\n" + rest.pop(0)[1].removeprefix("> ")
        found.append(Command(number, text, needs=needs, types=annotations.get("types")))
    if found and "exit" in annotations:
        last = found[-1]
        found[-1] = Command(last.line, last.text, int(annotations["exit"]), last.needs, last.types)
    return found


class Session:
    """A bash with its own terminal. It runs the commands of a page one after the other."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        order_read, self._order = os.pipe()
        self._answer, answer_write = os.pipe()
        loop = f'while IFS= read -r file <&{order_read}; do . "$file"; echo $? >&{answer_write}; done'
        self._terminal, slave = pty.openpty()
        self._bash = subprocess.Popen(
            ["setsid", "--ctty", "/bin/bash", "--noprofile", "--norc", "-c", loop],
            cwd=folder,
            env=dict(environ),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            pass_fds=(order_read, answer_write),
        )
        for descriptor in (slave, order_read, answer_write):
            os.close(descriptor)
        fcntl.ioctl(
            self._terminal, termios.TIOCSWINSZ, b"\x28\x00\xa0\x00\0\0\0\0"
        )  # 40 lines of 160 columns
        self.shown = b""

    def run(self, command: Command) -> int:
        """Run one command and return its exit code. Its output is in `shown`."""
        script = self.folder.parent / "command.sh"
        # Other than interactive commands get no standard input, as in a script.
        body = command.text if command.typed is not None else f"{{ {command.text}\n}} </dev/null"
        script.write_text(body + "\n")
        self.shown = b""
        os.write(self._order, f"{script}\n".encode())
        deadline, typed_at = time.monotonic() + COMMAND_S, time.monotonic() + TYPE_EVERY_S
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self._terminal, self._answer], [], [], TYPE_EVERY_S)
            if self._terminal in ready:
                self.shown += os.read(self._terminal, 65536)
            if self._answer in ready:
                self._drain()
                return int(os.read(self._answer, 16))
            if command.typed is not None and time.monotonic() > typed_at:
                os.write(self._terminal, command.typed.encode())
                typed_at = time.monotonic() + 2 * TYPE_EVERY_S
        raise AssertionError(f"no end of: {command.text}\n{self.text}")

    def _drain(self) -> None:
        """Read the rest of the output, and discard input that the command did not read."""
        while select.select([self._terminal], [], [], 0)[0]:
            self.shown += os.read(self._terminal, 65536)
        termios.tcflush(self._terminal, termios.TCIOFLUSH)

    @property
    def text(self) -> str:
        return self.shown.decode("utf-8", "replace").replace("\r\n", "\n")

    def close(self) -> None:
        """End bash and all processes of its terminal."""
        os.close(self._order)
        os.close(self._terminal)
        os.close(self._answer)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()


def write_files(page: Page, folder: Path) -> None:
    """Write the files that the page shows, also those with an absolute name, into a folder.

    If a name occurs several times, the first file is used.
    """
    for name, text in reversed(page.files):
        path = folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if text.startswith("#!"):
            path.chmod(0o755)


def prepare(folder: Path, environ: dict[str, str]) -> Path:
    """Create a home with a git repository in it, like the project of a reader, and return the repository."""
    project = folder / "user" / "project"
    project.mkdir(parents=True, exist_ok=True)
    programs = folder / "bin"
    programs.mkdir()
    sudo = programs / "sudo"  # root needs no password
    sudo.write_text('#!/bin/sh\nexec "$@"\n')
    sudo.chmod(0o755)
    environ |= {
        "HOME": str(folder / "user"),
        "PATH": f"{programs}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "USER": environ.get("USER", "root"),
        "GIT_CONFIG_GLOBAL": str(folder / "gitconfig"),
    }
    (folder / "gitconfig").write_text(
        "[user]\nname = Reader\nemail = reader@example.org\n[init]\ndefaultBranch = main\n"
    )
    subprocess.run(["git", "init", "-q", str(project)], env=environ, check=True)
    return project


def parses(command: Command) -> str:
    """Return the parser's error for the command's arguments, or "".

    Commands of other programs are not parsed.
    """
    try:
        words = shlex.split(command.text, comments=True)
    except ValueError as error:
        return str(error)
    while words and (words[0] == "sudo" or re.fullmatch(r"\w+=.*", words[0])):
        words = words[1:]
    for end in (";", "&&", "|", "&"):
        words = words[: words.index(end)] if end in words else words
    if not words or words[0] not in ("warpdeck", "sbatch", "srun", "salloc"):
        return ""
    try:
        _parse(words)
    except UserError as error:
        return f"{error.message} ({error.hint})"
    except SystemExit as ended:
        return "" if not ended.code else f"exit {ended.code}"
    return ""


def _parse(words: list[str]) -> None:
    """Parse the arguments of a command. Raise UserError for wrong arguments."""
    if words[1:2] == ["--engine"]:
        words = [words[0], *words[3:]]
    verb, rest = (
        (words[1] if len(words) > 1 else "", words[2:]) if words[0] == "warpdeck" else (words[0], words[1:])
    )
    if not verb or verb.startswith("-"):
        return
    if verb == "sbatch":
        parse_leading(rest, "sbatch", options.SBATCH)
        return
    if verb not in SUMMARIES:
        raise UserError(f"there is no command {verb}", "see `warpdeck --help`")
    tables = {"run": options.SRUN, "srun": options.SRUN, "salloc": options.SALLOC}
    if verb in tables:
        parse_leading(rest, verb, tables[verb])
        return
    row = load(verb)
    if isinstance(row, SlurmVerb):
        row.split(rest, options.SBATCH)
    else:
        parse(row, rest)
