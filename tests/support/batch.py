"""Run batch jobs and read their output."""

from __future__ import annotations

from pathlib import Path

from tests.support.home import Home


def run(home: Home, folder: Path, script: str, *options: str, code: int | None = 0) -> str:
    """Run a batch job, check its exit code, and return its output."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    path = folder / "job.sh"
    path.write_text("#!/bin/bash\n" + script)
    done = home.run(
        "submit", "--no-snapshot", "--wait", "-o", str(folder / "out"), *options, str(path), cwd=folder
    )
    text = ""
    if (folder / "out").exists():
        text = (folder / "out").read_text()
    assert code is None or done.returncode == code, f"{done.stdout}{done.stderr}\n{text}\n{home.log()}"
    return text
