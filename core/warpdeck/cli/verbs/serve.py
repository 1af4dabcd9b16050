"""`warpdeck serve`: the app in a browser, on this machine."""

from __future__ import annotations

import importlib

from warpdeck.base.errors import UserError
from warpdeck.cli.shared.arguments import USAGE_EXIT, Arguments

PORT = 8642
MAX_PORT = 65535


def main(_: str, words: list[str]) -> int:
    """Serve the app until Ctrl-C."""
    parser = Arguments(
        "warpdeck serve",
        description="Serve the app to a browser on this machine and print its URL. The URL contains a secret: anyone who has it\n"
        "can act as you. Shells and editors are not available in the browser.",
        examples=("warpdeck serve", "warpdeck serve --port 9000 --readonly"),
    )
    parser.add_argument("--port", type=int, default=PORT, help=f"port on 127.0.0.1; default: {PORT}")
    # Imported by name, because the core must not depend on the app.
    app = importlib.import_module("warpdeck_tui.entry")
    app.add_options(parser)
    args = parser.parse_args(words)
    if not 0 < args.port <= MAX_PORT:
        raise UserError(
            f"{args.port} is not a port", f"use a number between 1 and {MAX_PORT}", exit_code=USAGE_EXIT
        )
    try:
        serve = importlib.import_module("warpdeck_tui.serve")
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed", "pip install 'warpdeck[serve]'") from error
    return int(serve.main(port=args.port, options=app.as_words(app.options_in(args))))
