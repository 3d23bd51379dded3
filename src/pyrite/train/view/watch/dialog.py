"""What lies over the dashboard for a moment: help, a question, a choice of runs."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from pyrite.train.view.legible import legible

HELP = """\
p, space   pause the run, or let it go on
s          save a checkpoint
x          stop after this step, with a checkpoint
X          stop at once: all after the last checkpoint is lost
Ctrl-C     {ctrl_c}

n, right   next metric          N, left  the one before
w          recent or whole curves
m          smooth: no, 3 %, 10 % of what is shown
c          compare with another run of this folder, or end that
l          more room for the log; arrows scroll it
q          leave: {leave}

Curves are means over the epoch so far; marks are whole epochs.
Any key closes this."""
CTRL_C, CTRL_C_WATCHED = "as x; a second time, as X", "as q"
LEAVE = "the run goes on, and writes plain lines"
LEAVE_WATCHED = "the run goes on where it was started"
WATCHED = "This window only watches: p, s, x and X work where the run was started.\n\n"

_CSS = """
{name} {{ align: center middle; background: ansi_default; }}
{name} > * {{ width: {width}; max-width: 100%; height: auto; max-height: 100%;
    border: round ansi_blue; padding: 0 1; background: ansi_default; }}
{name} Static {{ height: auto; width: 100%; }}
"""


class Help(ModalScreen[None]):
    """Explains the keys, until one is pressed."""

    CSS = _CSS.format(name="Help", width="70")

    def __init__(self, *, is_only_watched: bool) -> None:
        super().__init__()
        self.is_only_watched = is_only_watched

    def compose(self) -> ComposeResult:
        """Return the text."""
        if self.is_only_watched:
            text = WATCHED + HELP.format(leave=LEAVE_WATCHED, ctrl_c=CTRL_C_WATCHED)
        else:
            text = HELP.format(leave=LEAVE, ctrl_c=CTRL_C)
        with VerticalScroll():
            yield Static(Text(text))

    def on_key(self) -> None:
        """Close."""
        self.dismiss()


class Question(ModalScreen[bool]):
    """Asks for y; all else is no."""

    CSS = _CSS.format(name="Question", width="auto")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)"),
        Binding("n,escape,q,enter", "answer(False)"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        """Return the text."""
        yield Static(Text(self.question))

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)


class RunChoice(ModalScreen[Path | None]):
    """Lets one of some folders be chosen."""

    CSS = _CSS.format(name="RunChoice", width="60")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,c", "leave")]

    def __init__(self, title: str, folders: list[Path]) -> None:
        super().__init__()
        self.heading = title
        self.folders = folders

    def compose(self) -> ComposeResult:
        """Return the list."""
        options = [Option(Text(legible(folder.name))) for folder in self.folders]
        first = Option(Text(f"{self.heading}  (enter; escape for none)"), disabled=True)
        yield OptionList(first, *options)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Close with the folder."""
        self.dismiss(self.folders[event.option_index - 1])

    def action_leave(self) -> None:
        """Close without one."""
        self.dismiss(None)
