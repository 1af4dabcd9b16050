"""Messages that several changes of sacctmgr have in common, and the error that carries a message."""

from __future__ import annotations

NOTHING_TO_SET = " You didn't give me anything to set\n"
NOTHING_ADDED = " Nothing new added.\n"
NOTHING_MODIFIED = " Nothing modified\n"
NOTHING_DELETED = " Nothing deleted\n"


class ChangeRefused(Exception):
    """A command that changes nothing. The text is sacctmgr's complete message on standard error."""

    def __init__(self, text: str = "", *, output: str = "") -> None:
        """Create the error. `output` is printed on standard output."""
        super().__init__(text)
        self.output = output


def no_condition(word: str, *, advises: bool = True) -> str:
    """Return the error for an argument that is not a condition."""
    return f" Unknown condition: {word}\n" + " Use keyword 'set' to modify value\n" * advises


def no_option(word: str, *, advises: bool = True) -> str:
    """Return the error for an argument that is not a setting."""
    return f" Unknown option: {word}\n" + " Use keyword 'where' to modify condition\n" * advises
