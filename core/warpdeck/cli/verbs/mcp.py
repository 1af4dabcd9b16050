"""`warpdeck mcp`: tools for coding agents, over the Model Context Protocol."""

from __future__ import annotations

from warpdeck.cli.arguments import Argument, InvalidValue
from warpdeck.cli.verb import Verb

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes longer than answering a verb
    from argparse import Namespace

MAX_NAME_CHARS = 40
NOTES = """\
An entry for the settings of a coding agent:

  {"mcpServers": {"warpdeck": {"command": "warpdeck", "args": ["mcp", "--name", "claude"]}}}

The agent acts as you. Its jobs have the comment "agent NAME: purpose", and it cancels no others. Limits that the controller
enforces are those of your account, so give agents an account or a QoS with limits of its own."""


def _name(text: str) -> str:
    if not 0 < len(text) <= MAX_NAME_CHARS or not text.replace("-", "").replace("_", "").isalnum():
        raise InvalidValue(f"{text!r} cannot be the name of an agent; use letters, digits, - and _")
    return text


def _run(args: Namespace) -> int:
    from warpdeck.base.errors import UserError

    try:
        from warpdeck.library.agent_tools.server import serve
    except ModuleNotFoundError as error:
        raise UserError(
            f"the package {error.name} is missing", "install it: pip install 'warpdeck[mcp]'"
        ) from error
    serve(args.name)
    return 0


VERBS = (
    Verb(
        "mcp",
        "Serve tools for a coding agent on standard input and output (Model Context Protocol): plan, submit, wait for and cancel\n"
        "jobs, read their output and metrics, and compare their code. The agent's program starts this command.",
        (Argument("--name NAME", "the name that the agent's jobs carry", default="agent", parse=_name),),
        notes=NOTES,
        examples=("warpdeck mcp --name claude",),
        reads=False, run=_run,
    ),
)  # fmt: skip
