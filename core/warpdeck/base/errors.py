"""The hierarchy of errors.

A UserError is shown as one sentence with a next step; all other errors are bugs or system failures.
"""


class WarpdeckError(Exception):
    """Base class of all errors that warpdeck raises on purpose."""


RESTART = "run `warpdeck down`; jobs keep running, and the next command starts a daemon of its version"
"""Hint for the case that client and controller have different versions."""
VERBATIM = "said"
"""Code of a UserError with a message that is printed unchanged, as the complete output of a command. The
message includes its prefixes, such as those of Slurm's own lines.
"""
ANSWERED = "answered"
"""Code of a UserError with a message that the user requested (--hint=help). It is printed unchanged on the
standard output.
"""
UNCERTAIN = "uncertain"
"""Code of a UserError after which it is unknown whether the request was carried out. A repeated request may
be carried out twice.
"""


class UserError(WarpdeckError):
    """An error that the user can fix. `message` names the object, `hint` the next step.

    It is never shown with a traceback. `code` is a short machine-readable kind of error ("host_key",
    "not_found", "refused", ...), and `details` contains further data about it.
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
            # Programs and notebooks that do not catch the error show the next step in the traceback.
            self.add_note(hint)

    @property
    def line(self) -> str:
        """The message and the hint in one line, for a list of several errors."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


class RemoteError(WarpdeckError):
    """A node did not carry out a request. `node` is its name and `cause` the reason as text."""

    def __init__(self, node: str, cause: str) -> None:
        super().__init__(f"{node}: {cause}")
        self.node = node
        self.cause = cause


class StoreError(WarpdeckError):
    """The durable store could not commit. Nothing of the transaction was kept."""


class InvalidTransition(WarpdeckError):
    """A job must not change into the requested state according to the state table."""
