"""How far a progress bar is: an amount of a total or, until a total is known, the amount alone."""

from rich.progress import ProgressColumn, Task
from rich.text import Text

from lithify.cli.output import count_text, size_text

__all__ = ["Amount"]


class Amount(ProgressColumn):
    def __init__(self, *, of_bytes: bool) -> None:
        super().__init__()
        self._text = size_text if of_bytes else count_text

    def render(self, task: Task) -> Text:
        done = self._text(int(task.completed))
        text = done if task.total is None else f"{done} of {self._text(int(task.total))}"
        return Text(text, style="progress.download")
