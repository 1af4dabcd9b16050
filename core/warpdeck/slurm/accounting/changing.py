"""`sacctmgr add`, `modify` and `delete`: what Slurm itself would refuse is refused in its words; else it is told what to write into
config.toml, where accounts, users and QoS stand.
"""

from __future__ import annotations

from warpdeck.slurm.console import CommandError, Console

from .entities import find

ENTITIES = {
    "add": '"Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"',
    "modify": '"Account", "Cluster", "Federation", "Job", "QOS", "Resource" or "User"',
    "delete": '"Account", "Cluster", "Coordinator", "Federation", "QOS", "Resource", or "User"',
}
OURS = ("account", "qos", "user")
OTHERS = ("cluster", "coordinator", "federation", "job", "resource")
NOTHING = {"add": " Nothing new added.", "modify": " Nothing modified", "delete": " Nothing deleted"}


def change(command: str, words: list[str], console: Console) -> int:
    """Tells why nothing is changed; the exit code. Raises CommandError with what to write."""
    verb = {"create": "add", "remove": "delete"}.get(command, command)
    entity = _entity(words[0] if words else "")
    if not entity:
        console.err.write(f"No valid entity in {verb} command\nInput line must include {ENTITIES[verb]}\n")
        return 1
    names, values = _given(words[1:])
    if missing := _missing(verb, entity, names, words):
        console.err.write(f"{missing}\n")
        return 1
    if nothing := _nothing(verb, entity, names, values, console):
        console.out.write(f"{nothing}\n")
        return 1
    raise CommandError(
        f"{verb} {entity}: accounts, users and QoS stand in config.toml, and are not changed here\n"
        f"write there, then `scontrol reconfigure`:\n{_lines(entity, names[0] if names else 'NAME', values)}"
    )


def _entity(word: str) -> str:
    lowered = word.partition("=")[0].lower()
    return next(
        (
            each
            for each in (*OURS, *OTHERS)
            if lowered and (each.startswith(lowered) or lowered == f"{each}s")
        ),
        "",
    )


def _given(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """(names, what is to be so)."""
    values = {key.lower(): value for key, equals, value in (word.partition("=") for word in words) if equals}
    names = [word for word in words if "=" not in word and word.lower() not in ("set", "where")]
    return [name for text in (*names, values.get("name", "")) for name in text.split(",") if name], values


def _missing(verb: str, entity: str, names: list[str], words: list[str]) -> str:
    if verb == "add":
        return "" if names else f" Need name of {entity} to add."
    if verb == "modify":
        is_set = "set" in (word.lower() for word in words)
        return "" if is_set else " You didn't give me anything to set"
    return "" if names or len(words) > 1 else " No conditions given to remove, not executing."


def _nothing(verb: str, entity: str, names: list[str], values: dict[str, str], console: Console) -> str:
    """What Slurm says where there is nothing to do: those that are to be made are there, the others are not."""
    known = find(entity, with_associations=entity == "user")
    if entity not in OURS or known is None or not names:
        return ""
    account = values.get("account", "") or values.get("accounts", "")
    with console.connect() as client:
        rows = known.rows(client)
    if entity == "user" and account:
        rows = [row for row in rows if row.get("Account") in account.split(",")]
    there = {row[known.key].lower() for row in rows}
    wanted = {name.lower() for name in names}
    is_idle = wanted <= there if verb == "add" else wanted.isdisjoint(there)
    return NOTHING[verb] if is_idle else ""


def _lines(entity: str, name: str, values: dict[str, str]) -> str:
    account = values.get("account") or values.get("defaultaccount") or "ACCOUNT"
    return {
        "user": f"[accounts.{account}.users.{name}]\nshares = {values.get('fairshare', '1')}",
        "qos": f"[qos.{name}]\npriority = {values.get('priority', '0')}",
        "account": f'[accounts.{name}]\nparent = "{values.get("parent", "")}"',
    }.get(entity, "[accounts.NAME]")
