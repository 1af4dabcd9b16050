"""The #SBATCH lines of a script, by the grammar of sbatch (slurm src/sbatch/opt.c, measured on 22.05):

column 0 and capitals; no blank needed after #SBATCH; blank and comment lines are passed over, the first command line
ends the scan; blanks separate words, quotes hold them together, an unquoted # ends the line even inside a word.
"""

from __future__ import annotations

from warpdeck.errors import UserError

MAX_SCRIPT_BYTES = 2 * 1024 * 1024
"""A batch script starts programs; it travels in one message with its environment."""


def check_script(text: str, name: str) -> None:
    """Raises UserError for what sbatch refuses."""
    if not text.strip():
        raise UserError(f"{name}: the batch script is empty", "write a script that begins with #!/bin/bash")
    if "\r\n" in text:
        raise UserError(
            f"{name}: the batch script has DOS line breaks (\\r\\n)", f"run: sed -i 's/\\r$//' {name}"
        )
    if "\0" in text:
        raise UserError(f"{name} is no text", "give a script, and put programs into it")
    if not text.startswith("#!"):
        raise UserError(
            f"{name} does not look like a batch script: its first line has no #!", "begin with #!/bin/bash"
        )


def read_directives(text: str, name: str) -> list[tuple[int, list[str]]]:
    """(line number, words) of each directive line. Raises UserError."""
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        for mark in ("#SBATCH", "#SLURM"):
            if line.startswith(mark):
                words = split_words(line[len(mark) :], f"{name}:{number}")
                if words:
                    found.append((number, words))
                break
        if line.strip() and not line.lstrip().startswith("#"):
            break
    return found


def split_words(text: str, where: str) -> list[str]:
    """Words of a directive line."""
    words: list[str] = []
    word, quote, begun, index = "", "", False, 0
    while index < len(text):
        letter = text[index]
        if quote:
            if letter == quote:
                quote = ""
            else:
                word += letter
        elif letter in "'\"":
            quote, begun = letter, True
        elif letter == "\\":  # at the end of a line it stands for nothing, and continues nothing
            index += 1
            word, begun = word + text[index : index + 1], begun or index < len(text)
        elif letter == "#":
            break
        elif letter in " \t":
            if begun:
                words.append(word)
            word, begun = "", False
        else:
            word, begun = word + letter, True
        index += 1
    if quote:
        raise UserError(f"{where}: a quote is not closed", f"close it with {quote}")
    if begun:
        words.append(word)
    return words
