"""Users attack root through the environment of their jobs, through crashing programs, and through their own names.

The site runs hooks as root, which must not see anything of the user's environment.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.ssh.users.test_attacks import submit_request, wait_for_end, write_file
from tests.e2e.ssh.users.test_recreated_accounts import Client
from tests.e2e.ssh.users.test_users import User
from tests.lab.hosts import Lab
from tests.support.home import Home

pytestmark = pytest.mark.lab

UIDS = {"ada": 21_811, "-x": 21_812, "$(id);x": 21_813, "a b": 21_814}
ON_LOAD = """
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) {
    FILE *file = fopen("%s", "a");
    if (file) { fprintf(file, "%%d\\n", (int) geteuid()); fclose(file); }
}
"""


@pytest.fixture(scope="module")
def accounts(lab: Lab) -> Iterator[None]:
    folder = Path(tempfile.mkdtemp(prefix="wdetc", dir="/var/tmp"))
    lines = {
        "passwd": "".join(f"{name}:x:{uid}:{uid}::/nonexistent:/bin/sh\n" for name, uid in UIDS.items()),
        "group": "".join(f"{name}:x:{uid}:\n" for name, uid in UIDS.items()),
    }
    for name, text in lines.items():
        (folder / name).write_text(Path("/etc", name).read_text() + text)
        subprocess.run(["mount", "--bind", str(folder / name), f"/etc/{name}"], check=True)
    yield
    for name in lines:
        subprocess.run(["umount", "--lazy", f"/etc/{name}"], check=True)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def site(lab: Lab, accounts: None) -> Iterator[Home]:
    """A shared site with hooks of root. At its end, the controller's log must contain no traceback."""
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    folder.chmod(0o711)
    hook = folder / "hook"
    hook.write_text(f"#!/bin/bash\nenv > {folder}/hook-$(basename $0)-$SLURM_JOB_ID\nls / > /dev/null\n")
    hook.chmod(0o755)
    site_home = Home(folder / "site", HOME=str(lab.user_home(folder / "root")), SSH_AUTH_SOCK="")
    site_home.path.mkdir(exist_ok=True)
    (site_home.path / "config.toml").write_text(f'[hooks]\nprolog = "{hook}"\nepilog = "{hook}"\n')
    site_home.ok("up", "--shared")
    site_home.wait_for_idle_node()
    yield site_home
    log = (site_home.path / "controller.log").read_text()
    site_home.close()
    shutil.rmtree(folder, ignore_errors=True)
    assert "Traceback" not in log, log[log.index("Traceback") :][:3000]


@pytest.fixture(scope="module")
def ada(site: Home) -> User:
    return User(site, "ada", UIDS["ada"], site.path.parent / "ada")


def test_no_code_in_the_environment_of_a_job_runs_as_root(site: Home, ada: User) -> None:
    """Loaders, shells, Python and Git run code that variables name."""
    uids = write_file(ada, "uids", "", 0o666)
    source = write_file(ada, "evil.c", ON_LOAD % uids, 0o644)
    library = ada.folder / "evil.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    script = write_file(ada, "start.sh", f"echo $EUID >> {uids}\n")
    tools = ada.folder / "bin"
    tools.mkdir(mode=0o755)
    for name in ("sh", "bash", "id", "env", "ls", "rm", "mount", "python3", "git", "nvidia-smi"):
        (tools / name).write_text(f"#!/bin/bash\necho $EUID >> {uids}\nexit 1\n")
        (tools / name).chmod(0o755)
    modules = ada.folder / "modules"
    modules.mkdir(mode=0o755)
    for name in ("sitecustomize", "usercustomize", "asyncio", "json"):
        (modules / f"{name}.py").write_text(
            f"import os\nopen({str(uids)!r}, 'a').write(f'{{os.geteuid()}}\\n')\n"
        )
    env = {
        "LD_PRELOAD": str(library),
        "LD_AUDIT": str(library),
        "LD_LIBRARY_PATH": str(ada.folder),
        "BASH_ENV": str(script),
        "ENV": str(script),
        "PYTHONPATH": str(modules),
        "PYTHONSTARTUP": str(script),
        "PYTHONHOME": str(modules),
        "GIT_SSH_COMMAND": str(script),
        "GIT_EXEC_PATH": str(tools),
        "PATH": f"{tools}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "0/../../evil",
        "IFS": "/",
    }
    marker = ada.folder / "marker"
    job = submit_request(site, ada, f"/usr/bin/touch {marker}; /bin/bash -c :", env=env)
    wait_for_end(site, job)
    assert marker.exists()
    found = set(uids.read_text().split())
    assert found == {str(ada.uid)}, "the variables have their effect in the job, and only there"
    seen = (site.path.parent / f"hook-hook-{job}").read_text()
    assert f"SLURM_JOB_ID={job}\n" in seen and "evil" not in seen and "PYTHON" not in seen


def test_a_core_dump_belongs_to_the_user_and_holds_no_process_of_root(site: Home, ada: User) -> None:
    dumps = ada.folder / "dumps"
    dumps.mkdir(mode=0o755)
    os.chown(dumps, ada.uid, ada.uid)
    before = set(site.path.rglob("*core*"))
    job = submit_request(
        site,
        ada,
        "ulimit -c unlimited; /bin/sh -c 'kill -SEGV $$'; "
        "for pid in $(ls /proc | grep '^[0-9]*$'); do kill -QUIT $pid; kill -SEGV $pid; done 2>&1",
        chdir=str(dumps),
        limits={"CORE": -1},
    )
    wait_for_end(site, job)
    assert all(path.stat().st_uid == ada.uid for path in dumps.iterdir())
    assert set(site.path.rglob("*core*")) == before
    assert site.state(submit_request(site, ada, "true", hold=True)) == "PENDING", "the site still answers"


@pytest.mark.parametrize("name", [name for name in UIDS if name not in ("ada", "-x")])
def test_a_user_with_a_hostile_name_runs_jobs_as_itself(site: Home, ada: User, name: str) -> None:
    user = User(site, name, UIDS[name], site.path.parent / str(UIDS[name]))
    out = user.folder / "out"
    job = submit_request(site, user, f"id -u > {out}; id -un >> {out}", mail_types=["END"], mail_user="-x")
    assert wait_for_end(site, job) == "COMPLETED"
    assert out.read_text().splitlines() == [str(user.uid), name]
    assert out.stat().st_uid == user.uid
    assert job in user.ok("queue", "--all", f"--user={name}")
    held = submit_request(site, user, "true", hold=True)
    with contextlib.closing(Client(site, ada.uid)) as client:
        client.request("cancel", {"jobs": [held]})
    assert site.state(held) == "PENDING"
    assert user.run("cancel", held).returncode == 0


def test_a_name_that_the_system_does_not_resolve_runs_nothing(site: Home) -> None:
    """glibc ignores accounts with a leading dash in /etc/passwd, so its user has no name."""
    user = User(site, "-x", UIDS["-x"], site.path.parent / "dash")
    job = submit_request(site, user, "touch ran")
    assert wait_for_end(site, job) == "FAILED"
    assert "does not exist on this node" in site.ok("show", job)
    assert not (user.folder / "ran").exists()
