"""Lists separated by commas, in which brackets hold ranges: 12,13_[1,4-9] is two jobs, n[1-2,5],m3 two groups
of hosts.
"""

from __future__ import annotations


def split_list(text: str) -> list[str]:
    """Return the words between commas outside of brackets, including empty ones."""
    words, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            words.append(text[start:index])
            start = index + 1
    return [*words, text[start:]]


def words_of(text: str) -> list[str]:
    """Return the nonempty words between commas outside of brackets, without blanks around them."""
    return [word.strip() for word in split_list(text) if word.strip()]
