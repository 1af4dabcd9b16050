"""The rights of users on the whole site, as in Slurm's database."""

from __future__ import annotations

from enum import StrEnum


class AdminLevel(StrEnum):
    """The rights that the configuration gives a user on the whole site."""

    NONE = "none"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"
