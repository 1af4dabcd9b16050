"""Submits a job from a script or a command: parse, take a snapshot, upload it, submit.

The command line and the app both use it.
"""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from warpdeck.base.cluster import CLUSTER_OPTIONS
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.notation.foreign.option_mapping import UMASK, is_ignored
from warpdeck.notation.options.directives import MAX_SCRIPT_BYTES, check_script
from warpdeck.notation.options.given_options import Options, OptionSource
from warpdeck.notation.options.option_table import COMMAND, SBATCH, OptionTable, with_plugins
from warpdeck.notation.options.submit_files import FileReader
from warpdeck.notation.options.variables import effective
from warpdeck.notation.reading.components import Component, lasting, read_words
from warpdeck.notation.reading.script import read_components
from warpdeck.notation.request.job_request import build_request
from warpdeck_agent.client.process import UMASK as UMASK_VARIABLE
from warpdeck_agent.client.process import with_process

from .blocking_client import SyncClient

MAX_FILE_CHARS = 1 << 20
"""Maximum number of characters read from a file of node names or variables."""


class SubmissionResult:
    """Result of a submission."""

    def __init__(self, answer: dict[str, Any], notes: list[str]) -> None:
        self.job_id = int(answer["job_id"])
        self.label = str(answer["label"])
        self.tasks = int(answer["tasks"])
        self.notes = notes


def read_script(path: str) -> str:
    """Return the text of a batch script. Raises UserError if it cannot be read or is not a script."""
    try:
        if os.path.isdir(path):
            raise UserError(f"{path} is a folder", "give a batch script")
        with open(path, "rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
    except FileNotFoundError as error:
        raise UserError(f"there is no script {path}", "check the path") from error
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {os.strerror(error.errno or 0)}", "check its permissions"
        ) from error
    return script_text(data, path)


def script_text(data: bytes, path: str) -> str:
    """Return the text of a batch script's bytes. Raises UserError if they are not a valid script."""
    if len(data) > MAX_SCRIPT_BYTES:
        raise UserError(
            f"{path} is larger than {MAX_SCRIPT_BYTES >> 20} MiB", "move data out of the batch script"
        )
    if b"\0" in data:
        raise UserError(
            f"{path} is a program, not a script", f"submit it as a command: --wrap {shlex.quote(path)}"
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        hint = f"convert it: iconv -f latin1 -t utf8 {shlex.quote(path)}"
        raise UserError(f"{path}:{line}: the script is not UTF-8 text", hint) from error
    check_script(text, path)
    return text


def command_options(words: Sequence[str], environ: Mapping[str, str], *, now: float) -> Options:
    """Read sbatch's options as typed on a command line."""
    source = OptionSource(cwd="", environ=environ, now=now)
    return read_words(words, source, SBATCH, where="command line")


def site_options(client: SyncClient) -> OptionTable:
    """Return sbatch's options together with the options of the site's plug-ins."""
    return with_plugins(SBATCH, client.call("plugin_options")["options"])


class Draft:
    """A submission that is complete except for its snapshot.

    Its errors are found before the controller is contacted.
    """

    def __init__(
        self,
        request: dict[str, Any],
        notes: list[str],
        *,
        cwd: str,
        environ: Mapping[str, str],
        host: str = "",
        own: frozenset[str] = frozenset(),
        components: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.request = request
        self.components = [
            # The other components run nothing themselves; the script sends steps to them.
            each | {"script": "", "script_args": [], "env": {}, "holder": "hetjob"}
            for each in components
        ]
        """The second and later components of a heterogeneous job."""
        self.notes = notes
        self.own = own
        """Names of the given options that concern the command itself, such as wait and parsable.

        Options that name clusters are included.
        """
        for each in (request, *self.components):
            each["submit_dir"] = cwd
            each["submit_host"] = host or socket.gethostname()
            if each.get("chdir"):
                each["chdir"] = os.path.normpath(os.path.join(cwd, _expanded(each["chdir"], environ)))


def _expanded(path: str, environ: Mapping[str, str]) -> str:
    """Expand "~" in a path with the submitter's HOME.

    The controller may run this on behalf of a user, so its own HOME would be wrong.
    """
    if path == "~" or path.startswith("~/"):
        return environ.get("HOME", "~") + path[1:]
    return os.path.expanduser(path)


def local_files(cwd: str) -> FileReader:
    """Return a function that reads the files named in options, with the rights of this process's user."""

    def read(path: str) -> str:
        with open(os.path.join(cwd, path), encoding="utf-8") as file:
            return file.read(MAX_FILE_CHARS)

    return read


def draft_script(
    text: str,
    name: str,
    *,
    args: Sequence[str] = (),
    options: Sequence[str] = (),
    others: Sequence[Sequence[str]] = (),
    cwd: str,
    environ: Mapping[str, str],
    now: float,
    host: str = "",
    known: OptionTable = SBATCH,
    read: FileReader | None = None,
) -> Draft:
    """Draft the submission of a batch script. Raises UserError.

    SBATCH_* variables override the script's options, and `options` override both. `host` is the submit host
    if it is not this one. `others` are the options of further components. `known` are the options including
    those of the site's plug-ins. `read` reads the files that options name. If `environ` gives no umask and no
    niceness, those of this process are used.
    """
    source = OptionSource(cwd=cwd, environ=environ, now=now)
    components = read_components(text, name, source, words=options, others=others, known=known)
    line = shlex.join(["sbatch", *_command_words([options, *others]), name, *args])
    script = {"script": text, "script_args": list(args), "submit_line": line}
    return draft_components(
        components, name, script, cwd=cwd, environ=environ, host=host, known=known, read=read
    )


def draft_components(
    components: Sequence[Component],
    name: str,
    script: Mapping[str, Any],
    *,
    cwd: str,
    environ: Mapping[str, str],
    host: str = "",
    known: OptionTable = SBATCH,
    read: FileReader | None = None,
) -> Draft:
    """Draft the submission of a batch script from its options, which were read before. Raises UserError.

    `script` are the fields of the request that contain the script. The other arguments are those of `draft_script`.
    """
    umask = next((each.word for each in reversed(components[0].script) if each.option == UMASK), "")
    # The umask variable is always present if a command was sent: it holds the umask of the submitter's shell.
    environ = with_process({}) | dict(environ) | ({UMASK_VARIABLE: umask} if umask else {})
    given, own = Options(), set[str]()
    requests: list[dict[str, Any]] = []
    notes: list[str] = []
    for component in components:
        ignored = [
            f"{each.where}: {each.word} has no effect" for each in component.script if is_ignored(each)
        ]
        options = [each for each in component.options if each.option != UMASK and not is_ignored(each)]
        given = effective([*lasting(given, known), *options])
        request, more = build_request(given, environ, known=known, read=read)
        request.setdefault("name", os.path.basename(name))
        requests.append({**request, **script})
        notes += [note for note in (*ignored, *more) if note not in notes]
        named = {each.option for each in given if each.option in known.options}
        own |= {each for each in named if known.options[each].here == COMMAND or each in CLUSTER_OPTIONS}
    return Draft(
        requests[0], notes, cwd=cwd, environ=environ, host=host, own=frozenset(own), components=requests[1:]
    )


def _command_words(sections: Sequence[Sequence[str]]) -> list[str]:
    """Return the options of all components as one command line."""
    words = list(sections[0])
    for section in sections[1:]:
        words += [":", *section]
    return words


def draft_command(
    argv: Sequence[str],
    options: Sequence[str] = (),
    *,
    cwd: str,
    environ: Mapping[str, str],
    now: float,
    pty: tuple[int, int] | None = None,
) -> Draft:
    """Draft a command to run on all tasks, on a terminal of `pty` (rows, cols) if given. Raises UserError."""
    environ = with_process(environ)
    request, notes = build_request(command_options(options, environ, now=now), environ)
    request["argv"] = list(argv)
    request.setdefault("name", os.path.basename(argv[0]))
    request["requeue"] = False
    if pty is not None:
        request["pty"] = {"rows": pty[0], "cols": pty[1]}
    request["submit_line"] = shlex.join(["srun", *options, *argv])
    return Draft(request, notes, cwd=cwd, environ=environ)


def has_several_tasks(request: Mapping[str, Any]) -> bool:
    """Return whether a command must run as an srun step because it has several tasks.

    Each task of a step gets its position among the others in its environment.
    """
    resources = request["resources"]
    several = max(resources.get(name) or 1 for name in ("tasks", "tasks_per_node", "nodes_min")) > 1
    return several and "container" not in request


def submit(
    client: SyncClient,
    draft: Draft,
    *,
    paths: Paths | None = None,
    snapshot: str = "auto",
    code_of: str = "",
    nonce: str = "",
) -> SubmissionResult:
    """Submit the draft. Raises UserError.

    `snapshot` is "auto", "none" or "require". Without `paths` no snapshot is taken. `code_of` names a job
    whose recorded code is run instead of the folder's current code. `nonce` identifies this request if it may
    be repeated; "" makes one.
    """
    if code_of:
        _take_over_snapshot(client, draft.request, code_of)
    elif snapshot != "none" and paths is not None:
        _add_snapshot(client, paths, draft.request, draft.notes, required=snapshot == "require")
    answer = client.create("submit", nonce, request=draft.request, components=draft.components)
    return SubmissionResult(answer, [*draft.notes, *answer["notes"]])


def rerun(client: SyncClient, job: str, settings: Sequence[str] = ()) -> SubmissionResult:
    """Submit a job of the user again as it was recorded, except for the settings (NAME=VALUE). Raises UserError."""
    snapshot = client.repeat(lambda: client.call("job", job=job)).get("snapshot")
    if snapshot and not client.repeat(lambda: client.call("have_tree", tree=snapshot["tree"]))["have"]:
        packed, facts = _packed(snapshot, job)
        upload_tree(client, snapshot | facts, packed)
    answer = client.create("rerun", job=job, settings=list(settings))
    return SubmissionResult(answer, answer["notes"])


def dry_run(client: SyncClient, draft: Draft) -> dict[str, Any]:
    """Return the expected outcome of a submission made now (site_rows.ForecastRow).

    Nothing is submitted. Raises UserError.
    """
    found: dict[str, Any] = client.call("dry_run", request=draft.request, components=draft.components)
    return found


def _add_snapshot(
    client: SyncClient, paths: Paths, request: dict[str, Any], notes: list[str], *, required: bool
) -> None:
    from warpdeck.snapshots import capture_folder

    try:
        taken = capture_folder(request.get("chdir") or request["submit_dir"], paths.snapshots)
    except (UserError, OSError) as error:
        if required:
            raise
        notes.append(f"no snapshot: {error}; the live folder runs")
        return
    if taken.snapshot is None and required:
        raise UserError(taken.notes[0], "put the code into a git repository")
    notes += taken.notes
    if taken.snapshot is None:
        return
    request["snapshot"] = taken.snapshot
    upload_tree(client, taken.snapshot, taken.packed)


def _take_over_snapshot(client: SyncClient, request: dict[str, Any], job: str) -> None:
    """Use the code of that job, which is in the user's own snapshot store, for the request.

    Raises UserError.
    """
    snapshot = client.repeat(lambda: client.call("job", job=job)).get("snapshot")
    if not snapshot:
        raise UserError(f"job {job} has no snapshot", "use a job that was submitted from a code folder")
    folder = os.path.realpath(request.get("chdir") or request["submit_dir"])
    subdir = os.path.relpath(folder, snapshot["root"])
    if subdir.split(os.sep, 1)[0] == os.pardir:
        raise UserError(
            f"the snapshot of job {job} contains {snapshot['root']}, but not {folder}",
            "submit from that folder",
        )
    packed, facts = _packed(snapshot, job)
    request["snapshot"] = snapshot | facts | {"subdir": "" if subdir == os.curdir else subdir}
    upload_tree(client, request["snapshot"], packed)


def _packed(snapshot: Mapping[str, Any], job: str) -> tuple[str, dict[str, Any]]:
    """Return the path of the packed tree, and its digest and size, from the user's own store.

    Raises UserError.
    """
    from warpdeck.snapshots import SnapshotStore

    is_own = snapshot.get("uid", os.geteuid()) == os.geteuid()
    if not is_own or not os.access(snapshot["store"], os.R_OK | os.W_OK | os.X_OK):
        raise UserError(
            f"the code snapshot of job {job} is not on this machine",
            f"it is on its submit host: {snapshot['store']}",
        )
    packed, sha256, size_bytes = SnapshotStore(snapshot["store"]).pack(snapshot["tree"])
    return packed, {"sha256": sha256, "size_bytes": size_bytes}


def upload_tree(client: SyncClient, snapshot: Mapping[str, Any], packed: str) -> None:
    """Upload the packed tree to the controller unless it has the tree already. Raises UserError."""

    def upload() -> None:
        if not client.call("have_tree", tree=snapshot["tree"])["have"]:
            client.upload(
                "put_tree", packed, **{key: snapshot[key] for key in ("tree", "sha256", "size_bytes")}
            )

    client.repeat(upload)
