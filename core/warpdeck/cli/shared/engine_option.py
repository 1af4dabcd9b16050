"""The option `--engine NAME`: before a verb, where `--save` may follow it, and as an option of some verbs."""

from __future__ import annotations

from warpdeck.base.engine_choice import save_engine, use_engine
from warpdeck.base.paths import ENGINE_TITLES, ENGINES, Paths, default_paths
from warpdeck.cli.arguments import Argument, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

OPTION, SAVE = "--engine", "--save"
ENGINE = Argument(
    f"{OPTION} {{{','.join(ENGINES)}}}",
    "use warpdeck's own scheduler, or a real Slurm; default: $WARPDECK_ENGINE, else the saved choice",
)


def take_engine(words: list[str]) -> tuple[list[str], bool]:
    """Choose the engine that the first words name, and save it if they end with `--save`.

    Return the other words. The command is complete if it only saved the engine. Raises UserError.
    """
    option, equals, name = words[0].partition("=")
    rest = words[1:]
    if not equals:
        name, rest = (rest[0], rest[1:]) if rest else ("", [])
    if name not in ENGINES:
        raise UsageError(f"{option} needs the name of an engine", f"use {' or '.join(ENGINES)}")
    use_engine(name)
    if rest[:1] != [SAVE]:
        default_paths()  # A home of the other engine is refused before anything else is done.
        return rest, False
    path = save_engine(name)
    print(f"warpdeck uses {ENGINE_TITLES[name]} from now on; saved in {path}")
    return rest[1:], not rest[1:]


def chosen_paths(args: Namespace) -> Paths:
    """Return the paths of the home for a verb with the option. Raises UserError."""
    if args.engine:
        use_engine(args.engine)
    return default_paths()
