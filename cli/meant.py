"""Which command somebody meant who typed one that does not exist: the words of kafka, kcat, aws and shells."""

from collections.abc import Sequence
from difflib import get_close_matches

__all__ = ["IN_GROUPS", "WORDS", "meant"]

WORDS = {
    "add": "topic create",
    "cat": "read",
    "compact": "compaction submit",
    "config": "topic alter",
    "configs": "topic alter",
    "consume": "read",
    "consumer-groups": "consumer list",
    "cp": "export",
    "create": "topic create",
    "delete": "topic delete",
    "describe": "topic describe",
    "drop": "topic delete",
    "dump": "export",
    "explain": "compaction explain",
    "groups": "consumer list",
    "import": "append",
    "init": "topic create",
    "jobs": "compaction list",
    "list": "topic list",
    "load": "append",
    "ls": "topic list",
    "mb": "topic create",
    "produce": "append",
    "ps": "top",
    "put": "append",
    "query": "scan",
    "rb": "topic delete",
    "recall": "home recall",
    "relocate": "home relocate",
    "rm": "topic delete",
    "select": "scan",
    "server": "serve",
    "snapshot": "checkpoint create",
    "status": "top",
    "submit": "compaction submit",
    "tail": "read",
    "topics": "topic list",
    "ui": "serve",
    "write": "append",
}
_LIKE = 0.7  # difflib's 0.6 takes "frobnicate" for "relocate"
IN_GROUPS = {
    "add": ("create",),
    "config": ("alter",),
    "configure": ("alter",),
    "drop": ("delete",),
    "forget": ("delete",),
    "get": ("describe", "show", "status"),
    "info": ("describe", "show", "status"),
    "kill": ("cancel",),
    "ls": ("list",),
    "new": ("create",),
    "once": ("run",),
    "remove": ("delete", "forget"),
    "rm": ("delete", "forget"),
    "set": ("alter", "reset"),
    "show": ("describe", "status", "list"),
    "start": ("run",),
    "stop": ("cancel",),
    "trigger": ("submit",),
    "update": ("alter",),
}


def meant(word: str, commands: Sequence[str], *, within: bool) -> str | None:
    """The command that is most like `word`. `within`: `commands` are those of a group."""
    word = word.casefold()
    table = {} if within else WORDS
    if within:
        here = (each for each in IN_GROUPS.get(word, ()) if each in commands)
        named = next(here, None)
        if named is not None:
            return named
    like = word if word in table else next(iter(get_close_matches(word, [*commands, *table], n=1, cutoff=_LIKE)), None)
    return None if like is None else table.get(like, like)
