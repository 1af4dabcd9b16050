"""The one tree of errors. A UserError is shown as one sentence with a next step; anything else is a bug or the world."""


class WarpdeckError(Exception):
    """Base of everything warpdeck raises on purpose."""


RESTART = "run `warpdeck down`: jobs go on, and the next verb starts the controller of its own version"
"""The next step where client and controller are of different versions."""
SAID = "said"
"""The code of a UserError whose message is all that a command is to say, prefixes and all: Slurm's own lines."""
ANSWERED = "answered"
"""The code of one whose message was asked for (--hint=help): it goes to the standard output as it is."""
UNCERTAIN = "uncertain"
"""The code of a UserError that does not tell whether what was asked was done: to ask again may do it twice."""


class UserError(WarpdeckError):
    """Something the user can act on: `message` names the thing, `hint` the next step. Never shown with a traceback.

    `code` is a short machine-readable kind ("host_key", "not_found", "refused", ...), `details` its data.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        exit_code: int = 1,
        code: str = "",
        details: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        self.code = code
        self.details = details or {}
        if hint:
            self.add_note(hint)  # a program or notebook that does not catch it shows the next step too

    @property
    def line(self) -> str:
        """What is wrong and the next step, for a list of several errors."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


class RemoteError(WarpdeckError):
    """A node did not do what it was asked: `node` and the cause in words."""

    def __init__(self, node: str, cause: str) -> None:
        super().__init__(f"{node}: {cause}")
        self.node = node
        self.cause = cause


class StoreError(WarpdeckError):
    """The durable store could not commit; nothing of the transaction was kept."""


class InvalidTransition(WarpdeckError):
    """A job was asked to go where the state table does not lead."""
