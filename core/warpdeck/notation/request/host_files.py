"""Files of node names, which --nodefile, --nodelist, --exclude and SLURM_HOSTFILE name."""

from __future__ import annotations

from collections.abc import Mapping

from warpdeck.base.errors import UserError
from warpdeck.notation.option_values.bindings import Distribution
from warpdeck.notation.options.given_options import GivenOption, Options
from warpdeck.notation.options.submit_files import FileReader, file_text
from warpdeck.notation.values.hostlist import names_in

ARBITRARY = "arbitrary"
"""The distribution of tasks over nodes that SLURM_HOSTFILE lists."""


def names_file(given: GivenOption) -> bool:
    """Return whether the option's value is the name of a file of node names."""
    return given.option == "nodefile" or (given.option in ("nodelist", "exclude") and "/" in given.word)


def with_names(given: GivenOption, names: list[str]) -> GivenOption:
    """Return --nodelist or --exclude with these names in place of the file."""
    option = "exclude" if given.option == "exclude" else "nodelist"
    return given._replace(option=option, text=",".join(dict.fromkeys(names)))


def with_hosts(options: Options, environ: Mapping[str, str], read: FileReader | None) -> Options:
    """Return the options with host files replaced by the node names in them. SLURM_HOSTFILE stands for
    --nodelist. Raises UserError.
    """
    found = [with_names(each, _hosts_of_file(each, read)) if names_file(each) else each for each in options]
    listed = environ.get("SLURM_HOSTFILE")
    if read is not None and listed and not any(each.option == "nodelist" for each in found):
        file = GivenOption("nodefile", listed, "SLURM_HOSTFILE")
        arbitrary = GivenOption("distribution", ARBITRARY, file.where, value=Distribution(ARBITRARY))
        found += [with_names(file, _hosts_of_file(file, read)), arbitrary]
    return found


def _hosts_of_file(given: GivenOption, read: FileReader | None) -> list[str]:
    """Return the names in the file that the option names. Raises UserError."""
    name, where = given.word, given.where
    text = file_text(name, where, read)
    try:
        names = names_in(text, name)
    except UserError as error:
        raise UserError(f"{where}: {error.message}", error.hint) from None
    if not names:
        raise UserError(f"{where}: {name} contains no node names", "write a name on each line")
    return names
