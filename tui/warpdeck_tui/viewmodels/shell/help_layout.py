"""The help page: all keys in columns, or those that match a text.

First come the keys that work everywhere, beside those of the screen in front with their explanations. The keys of other
screens follow in as many columns as fit.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from warpdeck_tui.table.actions import PLACES, Action
from warpdeck_tui.table.bindings import actions_at, key_words, keys_of

from .palette_verbs import ACTION_SYNONYMS

Line = list[tuple[str, str]]
"""A line: texts with the roles of their styles."""
EVERYWHERE = ("app", "moves")
"""The contexts of which the keys work on every screen."""
SCREENS = ("queue", "overview", "nodes", "job", "history", "sessions", "admin", "runs", "node")
PARTS = ("list", "log", "grid")
"""The contexts of screens, and of the parts of screens, in the order of the page. Dialogs have their keys in their last
line."""
BACK = "Back"
"""An action of most screens, with Esc. It is left out where there are only titles."""
GAP = 2
BESIDE_FROM = 104
"""Least width at which the global keys are beside those of the screen."""
WORDS_FROM = 168
"""Least width at which the global keys have explanations beside the keys of the screen, too."""
MOST_COLUMNS = 6
KEYS_MOST = 12
"""Largest width of the keys in front of a title. The user's own keys may be longer; they move their title."""


class Entry(NamedTuple):
    """One action: its keys as text, its title and its explanation. `synonyms` are words by which it is found, too."""

    keys: str
    title: str
    words: str
    synonyms: str = ""


class Section(NamedTuple):
    """The actions of one context."""

    title: str
    entries: Sequence[Entry]


class Help(NamedTuple):
    """The sections of the help: the global keys, those of the screen in front, those of other screens, and of dialogs."""

    everywhere: Sequence[Section]
    here: Sequence[Section]
    others: Sequence[Section]
    dialogs: Sequence[Section] = ()

    @property
    def sections(self) -> Sequence[Section]:
        return (*self.everywhere, *self.here, *self.others, *self.dialogs)


def help_of(
    places: Iterable[str],
    keymap: Mapping[str, str],
    refusal: Callable[[str, str], str] = lambda place, action: "",
) -> Help:
    """Return the keys of all contexts for the help page. `places` are the contexts of the screen in front.

    `refusal` returns why the scheduler cannot do an action, or "".
    """

    def sections(names: Iterable[str]) -> list[Section]:
        return [Section(PLACES[name], [entry(action) for action in actions_at(name)]) for name in names]

    def entry(action: Action) -> Entry:
        words = refusal(action.where, action.id) or action.help
        synonyms = ACTION_SYNONYMS.get((action.where, action.id), "")
        return Entry(key_words(keys_of(action, keymap)), action.title, words, synonyms)

    here = [name for name in dict.fromkeys(places) if name not in (*EVERYWHERE, *PARTS)]
    others = [name for name in (*PARTS, *SCREENS) if name not in here]
    dialogs = [name for name in PLACES if name not in (*EVERYWHERE, *others, *here)]
    return Help(sections(EVERYWHERE), sections(here), sections(others), sections(dialogs))


def help_page(shown: Help, width: int) -> list[Line]:
    """Return all keys, laid out for this width."""
    others = list(shown.others)
    if width >= BESIDE_FROM:
        left_width = _compact_width(shown.everywhere) if width < WORDS_FROM else width * 2 // 5
        right_width = width - left_width - GAP
        left = _explained(shown.everywhere, left_width) if width >= WORDS_FROM else _compact(shown.everywhere)
        right = _explained(shown.here, right_width)
        while others and len(right) + len(added := _explained(others[:1], right_width)) < len(left):
            right += [[], *added]
            del others[0]
        lines = _beside([left, right], [left_width, right_width])
    else:
        lines = [*_columns(shown.everywhere, width), [], *_explained(shown.here, width)]
    return [*lines, [], *_columns(others, width)]


def found_page(shown: Help, text: str, width: int) -> list[Line]:
    """Return the keys that match a search text, with explanations. Titles, explanations, synonyms and contexts are searched."""
    found = [
        Section(section.title, entries)
        for section in shown.sections
        if (entries := [each for each in section.entries if _holds(each, section.title, text)])
    ]
    return _explained(found, width) if found else [[(f"No key for {text}. Esc clears the search", "muted")]]


def _holds(entry: Entry, section: str, text: str) -> bool:
    if text in entry.keys.split():
        return True
    low = text.lower()
    return all(
        word in f"{entry.title} {entry.words} {entry.synonyms} {section}".lower() for word in low.split()
    )


def _keys_width(sections: Sequence[Section]) -> int:
    return min(
        KEYS_MOST, max((len(each.keys) for section in sections for each in section.entries), default=0)
    )


def _compact_width(sections: Sequence[Section]) -> int:
    titles = max((len(each.title) for section in sections for each in section.entries), default=0)
    return _keys_width(sections) + 2 + titles


def _compact(sections: Sequence[Section]) -> list[Line]:
    """Return the keys with the titles of the actions, without explanations."""
    keys, lines = _keys_width(sections), list[Line]()
    for section in sections:
        lines += [[]] if lines else []
        lines.append([(section.title, "header")])
        lines += [[(f"{each.keys:<{keys}}  ", "key"), (each.title, "")] for each in section.entries]
    return lines


def _explained(sections: Sequence[Section], width: int) -> list[Line]:
    """Return the keys with titles and explanations. Long explanations continue on the next line."""
    keys = _keys_width(sections)
    titles = max((len(each.title) for section in sections for each in section.entries), default=0)
    indent, lines = keys + titles + 4, list[Line]()
    for section in sections:
        lines += [[]] if lines else []
        lines.append([(section.title, "header")])
        for each in section.entries:
            first, *rest = textwrap.wrap(each.words, max(16, width - indent)) or [""]
            lines.append(
                [(f"{each.keys:<{keys}}  ", "key"), (f"{each.title:<{titles}}  ", ""), (first, "muted")]
            )
            lines += [[(" " * indent, ""), (more, "muted")] for more in rest]
    return lines


def _columns(sections: Sequence[Section], width: int) -> list[Line]:
    """Return the first key of each action with its title in as many columns as fit, each about as high as the others."""
    shown = [
        section._replace(entries=[_first(each) for each in section.entries if each.title != BACK])
        for section in sections
    ]
    lines = _compact(shown)
    for count in range(MOST_COLUMNS, 0, -1):
        height = -(-len(lines) // count)
        parts = [_without_gap(lines[first : first + height]) for first in range(0, len(lines), height)]
        widths = [max(map(_width, part), default=0) for part in parts]
        spare = width - sum(widths) - GAP * (len(parts) - 1)
        if spare >= 0 or count == 1:
            break
    more = max(0, spare) // max(1, len(parts))
    return _beside(parts, [min(width, each + more) for each in widths])


def _first(entry: Entry) -> Entry:
    return entry._replace(keys=entry.keys.partition(" ")[0])


def _width(line: Line) -> int:
    return sum(len(text) for text, _ in line)


def _without_gap(lines: list[Line]) -> list[Line]:
    """Return a column without an empty line at its top."""
    return lines[1:] if lines and not lines[0] else lines


def _beside(parts: Sequence[Sequence[Line]], widths: Sequence[int]) -> list[Line]:
    """Return these blocks of lines beside each other."""
    lines = []
    for row in zip_longest(*parts, fillvalue=[]):
        line: Line = []
        for number, (cells, width) in enumerate(zip(row, widths, strict=True)):
            fitted, used = _cut(cells, width)
            line += [(" " * GAP, "")] if number else []
            line += [*fitted, (" " * (width - used), "")]
        lines.append(line)
    return lines


def _cut(cells: Line, width: int) -> tuple[Line, int]:
    """Return the cells that fit the width, and their width."""
    line, left = list[tuple[str, str]](), width
    for text, role in cells:
        line.append((text[:left], role))
        left -= len(text[:left])
    return line, width - left
