"""AdminLevel in `sacctmgr add user` and `modify user`: a setting of the user, which [users] in config.toml holds. Pure.

Levels are the values of `model.admin_level.AdminLevel`. The import of that package would delay each start of sacctmgr.
"""

from __future__ import annotations

from .change_arguments import ChangeOptions
from .decision import AccountTables, Change, drop, put
from .editable import LEVEL

NONE, OPERATOR, ADMINISTRATOR = "none", "operator", "administrator"
SPELLED = {"none": NONE, "operator": OPERATOR, "superuser": ADMINISTRATOR, "administrator": ADMINISTRATOR}
"""Slurm's words, which it accepts abbreviated."""
TITLES = {NONE: "None", OPERATOR: "Operator", ADMINISTRATOR: "Administrator"}


def split_level(wanted: ChangeOptions) -> tuple[str | None, ChangeOptions]:
    """Return the admin level that is set, and the other arguments. As in Slurm, an unknown level sets nothing."""
    words = [each.text.lower() for each in wanted.settings if each.field.kind == LEVEL]
    others = [each for each in wanted.settings if each.field.kind != LEVEL]
    level = None
    for word in filter(None, words):
        level = next((meant for name, meant in SPELLED.items() if name.startswith(word)), None)
    return level, wanted._replace(settings=others)


def level_change(tables: AccountTables, user: str, level: str) -> Change:
    """Return the change that gives the user this level."""
    if level == NONE:
        return drop("users", user) if user in tables.levels else put({"admin_level": None}, "users", user)
    return put({"admin_level": level}, "users", user)
