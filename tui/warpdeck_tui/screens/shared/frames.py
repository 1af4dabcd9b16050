"""Frames with titles around the parts of a screen."""

from __future__ import annotations

from rich.text import Text
from textual.containers import Container
from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget


class Frame(Container):
    """A part of the screen in a frame, with a title at the top and a smaller text at the bottom right.

    `is_main` marks the frame that shows the title of the screen.
    """

    def __init__(self, *children: Widget, id: str | None = None, is_main: bool = False) -> None:
        super().__init__(*children, id=id, classes="framed main" if is_main else "framed")
        self._labels: dict[bool, Text] = {}
        self._edge: Region | None = None

    def show_title(self, words: Text) -> None:
        """Show a title, unless it is shown already. Only the line of the frame is drawn again."""
        self._show(words, at_top=True)

    def show_subtitle(self, words: Text) -> None:
        """Show a text in the lower edge, unless it is shown already."""
        self._show(words, at_top=False)

    def _show(self, words: Text, *, at_top: bool) -> None:
        if self._labels.get(at_top) == words:
            return
        self._labels[at_top] = words
        width, height = self.outer_size
        self._edge = Region(-1, -1 if at_top else height - 2, width, 1)
        label = Content.from_rich_text(words)
        if at_top:
            self.border_title = label
        else:
            self.border_subtitle = label
        self._edge = None

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Frame:
        """Refresh the edge only while a title is set. Textual would paint everything inside the frame again."""
        if self._edge is not None and not regions and self.outer_size.width:
            regions = (self._edge,)
        super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        return self
