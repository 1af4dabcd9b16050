"""warpdeck shims: puts Slurm's command names on the PATH."""

from __future__ import annotations

import shlex

from warpdeck.paths import default_paths
from warpdeck.slurm.shims import install

from .arguments import Arguments


def main(_: str, words: list[str]) -> int:
    """Writes the scripts and prints what the shell should do."""
    parser = Arguments(
        "warpdeck shims",
        description="Prints the line that puts sbatch, srun, squeue and the rest on a shell's PATH, before any others.",
        examples=(
            "warpdeck shims --folder",
            'eval "$(warpdeck shims)"                        in this shell',
            "echo 'eval \"$(warpdeck shims)\"' >> ~/.bashrc   in every shell",
        ),
    )
    parser.add_argument("--folder", action="store_true", help="print only the folder that they lie in")
    args = parser.parse_args(words)
    folder = install(default_paths())
    print(folder if args.folder else f"export PATH={shlex.quote(folder)}:$PATH")
    return 0
