"""The choice between warpdeck's own scheduler and a real Slurm, and the engine of a home."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from warpdeck.base import paths as paths_module
from warpdeck.base.controller_daemon import running_pid, take_lock
from warpdeck.base.engine_choice import claim_home, save_engine, use_engine
from warpdeck.base.errors import UserError
from warpdeck.base.paths import OWN, SLURM, Paths, chosen_engine, default_paths
from warpdeck.cli.main import main
from warpdeck.cli.shared.engine_offer import ask, is_undecided
from warpdeck.cli.verbs.completion import complete
from warpdeck.cli.verbs.control import engine_text, rest_line, site_gateway_lines
from warpdeck.library.asyncclient import AsyncClient


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A new user: empty folders, no settings, no home of a site. The fixture returns the user's folder."""
    for name in ("WARPDECK_HOME", "WARPDECK_ENGINE", "WARPDECK_TOKEN"):
        monkeypatch.setenv(name, "")  # so that changes by the tested code are undone, too
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(paths_module, "_shim_home", None)
    monkeypatch.setattr(paths_module, "SITE_HOME", str(tmp_path / "site"))
    yield tmp_path


def used(home: Path, engine: str) -> Paths:
    """Return a home that a process of this engine has used."""
    home.mkdir(parents=True)
    found = Paths(str(home), wanted_engine=engine)
    claim_home(found)
    (home / "state.db").touch()
    return Paths(str(home))


def test_each_engine_has_its_own_default_home(user: Path) -> None:
    assert default_paths().home == default_paths(engine=OWN).home == f"{user}/state/warpdeck"
    assert default_paths().engine == OWN
    gateway = default_paths(engine=SLURM)
    assert (gateway.home, gateway.engine) == (f"{user}/state/warpdeck-slurm", SLURM)
    assert gateway.log.endswith("/gateway.log") and default_paths().log.endswith("/controller.log")


def test_the_argument_wins_over_the_variable_and_the_variable_over_the_saved_choice(user: Path) -> None:
    assert chosen_engine() == ""
    assert save_engine(SLURM) == f"{user}/config/warpdeck/engine"
    assert default_paths().engine == chosen_engine() == SLURM
    use_engine(OWN)
    assert default_paths().engine == chosen_engine() == OWN
    assert default_paths(engine=SLURM).engine == SLURM


def test_a_named_home_ignores_the_saved_choice(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_engine(SLURM)
    monkeypatch.setenv("WARPDECK_HOME", str(user / "named"))
    assert (default_paths().home, default_paths().engine) == (str(user / "named"), OWN)
    use_engine(SLURM)
    assert (default_paths().home, default_paths().engine) == (str(user / "named"), SLURM)
    with pytest.raises(UserError, match="while WARPDECK_HOME is set"):
        save_engine(SLURM)


@pytest.mark.parametrize(("first", "other"), [(OWN, SLURM), (SLURM, OWN)])
def test_a_home_keeps_its_engine(user: Path, monkeypatch: pytest.MonkeyPatch, first: str, other: str) -> None:
    home = used(user / "home", first)
    assert home.recorded_engine == home.engine == first
    with pytest.raises(UserError, match=r"home belongs to .*, not to ") as raised:
        claim_home(Paths(home.home, wanted_engine=other))
    assert f"--engine {first}" in raised.value.hint
    assert home.recorded_engine == first
    monkeypatch.setenv("WARPDECK_HOME", home.home)
    assert default_paths().engine == first
    monkeypatch.setenv("WARPDECK_ENGINE", other)
    with pytest.raises(UserError, match="belongs to"):
        default_paths()
    with pytest.raises(UserError, match="belongs to"):
        AsyncClient(home.home, engine=other)  # type: ignore[arg-type]
    assert AsyncClient(home.home).paths.engine == first


def test_a_site_home_serves_the_users_who_chose_its_engine_or_none(user: Path) -> None:
    site = used(user / "site", OWN)
    assert default_paths().home == default_paths(engine=OWN).home == site.home
    assert default_paths(engine=SLURM).home == f"{user}/state/warpdeck-slurm"


def test_a_site_home_of_slurm_is_used_without_a_choice(user: Path) -> None:
    site = used(user / "site", SLURM)
    assert default_paths().home == default_paths(engine=SLURM).home == site.home
    assert default_paths().engine == SLURM
    assert default_paths(engine=OWN).home == f"{user}/state/warpdeck"


def test_an_unknown_engine_is_reported_with_its_source(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (user / "config" / "warpdeck").mkdir(parents=True)
    (user / "config" / "warpdeck" / "engine").write_text("pbs\n")
    with pytest.raises(UserError, match=r"config/warpdeck/engine names no engine: 'pbs'"):
        default_paths()
    monkeypatch.setenv("WARPDECK_ENGINE", "lsf")
    with pytest.raises(UserError, match=r"\$WARPDECK_ENGINE names no engine: 'lsf'"):
        default_paths()


@pytest.mark.parametrize("words", [["--engine"], ["--engine", "pbs"], ["--engine="], ["--engine", "--save"]])
def test_a_wrong_engine_option_is_reported(
    user: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == (
        "warpdeck: --engine needs the name of an engine\n  use warpdeck or slurm\n"
    )


def test_the_option_chooses_the_engine_of_one_command(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--engine", "slurm", "status"]) == 1
    assert capsys.readouterr().err == f"no gateway is running in {user}/state/warpdeck-slurm\n"
    assert main(["--engine=warpdeck", "down"]) == 0
    assert capsys.readouterr().out == f"no controller is running in {user}/state/warpdeck\n"
    assert main(["status", "--engine", "slurm", "--json"]) == 1
    assert '"engine":{"name":"slurm"}' in capsys.readouterr().out.replace(" ", "").replace("\n", "")


def test_save_keeps_the_choice_for_later_commands(
    user: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["--engine", "slurm", "--save"]) == 0
    assert f"saved in {user}/config/warpdeck/engine" in capsys.readouterr().out
    monkeypatch.delenv("WARPDECK_ENGINE")
    assert main(["status"]) == 1
    assert "no gateway is running" in capsys.readouterr().err


def test_a_home_of_the_other_engine_is_refused_with_a_next_step(
    user: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = used(user / "home", OWN)
    monkeypatch.setenv("WARPDECK_HOME", home.home)
    assert main(["--engine", "slurm", "queue"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"warpdeck: {home.home} belongs to warpdeck's own scheduler, not to a gateway to Slurm"
    assert second == "  use another home (WARPDECK_HOME), or this one with `warpdeck --engine warpdeck`"


@pytest.mark.parametrize("option", ["--share-machine", "--no-local-node"])
def test_options_of_the_own_scheduler_are_refused_for_slurm(
    user: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert main(["up", "--engine", "slurm", option]) == 2
    assert f"{option} is impossible with Slurm" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["check", "show"])
def test_the_configuration_of_the_own_scheduler_is_refused_for_slurm(
    user: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    assert main(["--engine", "slurm", "config", verb]) == 1
    assert "are in slurm.conf, not in config.toml" in capsys.readouterr().err


def test_shims_are_refused_for_slurm(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--engine", "slurm", "shims"]) == 1
    assert "Slurm's own commands are already there" in capsys.readouterr().err
    assert not (user / "state").exists()


def test_completion_offers_engines_and_then_verbs(user: Path) -> None:
    assert [each.word for each in complete(["warpdeck", "--engine", ""])] == [OWN, SLURM]
    assert "status" in [each.word for each in complete(["warpdeck", "--engine", "slurm", "sta"])]


def test_a_file_system_without_locks_is_reported(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "no locks")

    monkeypatch.setattr(fcntl, "flock", flock)
    home = Paths(str(user), wanted_engine=SLURM)
    with pytest.raises(UserError, match=r"cannot lock .*controller.lock: Function not implemented"):
        take_lock(home)
    assert running_pid(home) == 0


# The offer


def test_a_user_with_a_home_or_a_choice_is_not_asked(user: Path) -> None:
    undecided = dict(os.environ)
    assert is_undecided(undecided)
    assert not is_undecided(undecided | {"WARPDECK_HOME": "/x"})
    assert not is_undecided(undecided | {"WARPDECK_ENGINE": OWN})
    assert not is_undecided(undecided | {"WARPDECK_TOKEN": "of a job"})
    save_engine(OWN)
    assert not is_undecided(undecided)
    (user / "config" / "warpdeck" / "engine").unlink()
    (user / "site").mkdir()
    assert not is_undecided(undecided)


def lines_of(*lines: str) -> Callable[[], str]:
    rest = iter(lines)
    return lambda: next(rest, "")


@pytest.mark.parametrize(
    ("typed", "engine"), [(["s\n"], SLURM), (["W\n"], OWN), (["?\n", "\n", "slurm\n"], SLURM)]
)
def test_the_answer_is_read_from_the_terminal(user: Path, typed: list[str], engine: str) -> None:
    assert ask(lines_of(*typed)) == engine


@pytest.mark.parametrize("typed", [[], ["x\n"] * 100])
def test_no_answer_chooses_nothing(user: Path, typed: list[str]) -> None:
    with pytest.raises(UserError, match="no engine was chosen"):
        ask(lines_of(*typed))


# The line of `warpdeck status`


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"name": OWN}, "warpdeck 1.2"),
        (
            {"version": "24.11.5", "cluster": "X", "read_at": 88.0, "requests_a_minute": 6.0},
            "Slurm 24.11.5, cluster X, read 12 s ago, 6 requests a minute",
        ),
        ({"requests_a_minute": 1.0}, "Slurm, not read yet, 1 request a minute"),
        ({"version": "20.11.4", "read_at": 101.0}, "Slurm 20.11.4, read 0 s ago"),
    ],
)
def test_the_status_line_names_the_engine_and_the_age_of_its_data(row: dict[str, object], text: str) -> None:
    empty = {
        "name": SLURM,
        "version": "",
        "cluster": "",
        "read_at": None,
        "problem": "",
        "requests_a_minute": None,
    }
    assert engine_text(empty | row, version="1.2", now=100.0) == text


@pytest.mark.parametrize(
    ("row", "lines"),
    [
        (None, []),
        (
            {"owner": "svc", "requests_a_minute": 4.0, "problem": "", "own": {}},
            ["site gateway: asks Slurm for all users, as svc, 4 requests in the last minute"],
        ),
        (
            {"owner": "svc", "requests_a_minute": 4.0, "problem": "", "own": {"queue": "PrivateData=jobs"}},
            [
                "site gateway: asks Slurm for all users, as svc, 4 requests in the last minute",
                "asked by this gateway itself: queue (PrivateData=jobs)",
            ],
        ),
        (
            {"owner": "", "requests_a_minute": 0.0, "problem": "it does not run", "own": {}},
            ["site gateway: not used now: it does not run; this gateway asks Slurm itself"],
        ),
    ],
)
def test_the_status_tells_whether_the_site_gateway_asks_slurm(
    row: dict[str, object] | None, lines: list[str]
) -> None:
    assert site_gateway_lines(row) == lines


@pytest.mark.parametrize(
    ("row", "line"),
    [
        (
            {"url": "unix:/run/s", "version": "v0.0.45", "problem": "", "answers": ["queue", "nodes"]},
            "slurmrestd: unix:/run/s answers for queue and nodes, in data_parser v0.0.45",
        ),
        (
            {"url": "s", "version": "v0.0.45", "problem": "it is busy", "answers": ["queue"]},
            "slurmrestd: s answers for queue, in data_parser v0.0.45; "
            "Slurm's commands are run for the others: it is busy",
        ),
        (
            {"url": "https://s", "version": "", "problem": "", "answers": []},
            "slurmrestd: https://s was not asked yet",
        ),
        (
            {"url": "https://s", "version": "", "problem": "it does not answer within 10 s", "answers": []},
            "slurmrestd: not used now: it does not answer within 10 s; this gateway runs Slurm's commands",
        ),
    ],
)
def test_the_status_tells_whether_slurmrestd_answers(row: dict[str, Any], line: str) -> None:
    assert rest_line(row) == line


def test_no_site_gateway_is_started_in_a_folder_that_cannot_be_created(
    user: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPDECK_HOME", "/proc/nowhere")
    assert main(["up", "--engine", "slurm", "--shared"]) == 1
    error = capsys.readouterr().err
    assert "cannot use /proc/nowhere" in error and "install -d -m 711 -o ACCOUNT /proc/nowhere" in error
