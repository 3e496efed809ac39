"""docs/runbook.md: its links lead somewhere, and what lithify says in it is what lithify says."""

import re
from pathlib import Path
from typing import get_args

from lithify.cli.compactions import ACTION_WORDS
from lithify.compactor.policy import ActionName

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = ("runbook.md", "deploy.md")


def anchors(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_leads_somewhere() -> None:
    links = [
        (page, file or page, anchor)
        for page in PAGES
        for file, anchor in re.findall(r"\]\(([\w.]*)#([\w-]+)\)", (DOCS / page).read_text(encoding="utf-8"))
    ]
    assert len(links) > 10
    assert [link for link in links if link[2] not in anchors(link[1])] == []


def test_what_lithify_says_there_is_in_its_code() -> None:
    """The parts that are the same each time."""
    said = (
        "compaction.paused is true",
        "the quarantine is lifted; the next pass continues",
        "L0 segments, its limit",
        ": compaction is behind. Nothing was appended there; retry later",
        "it stays readable for the grace period",
        "fails its checksum",
        "is missing: restore the object from a copy",
        "the store does not answer, or refuses access",
        "another compactor took over",
        "the store went back in time",
        "its latest claim or job",
        "none now",
        "; next attempt in ",
    )
    page = (DOCS / "runbook.md").read_text(encoding="utf-8")
    packages = [start.parent for start in DOCS.parent.glob("*/__init__.py")]
    code = "".join(file.read_text(encoding="utf-8") for package in packages for file in package.rglob("*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", code)  # texts of several lines
    assert [text for text in said if text not in page] == []
    assert [text for text in said if text not in joined] == []


def test_what_explain_would_do_is_named_in_its_own_words() -> None:
    """Not by the names of the protocol, which it does not print."""
    runbook = (DOCS / "runbook.md").read_text(encoding="utf-8")
    (quoted,) = re.findall(r"If it says (.*) for minutes", runbook)
    assert set(re.findall("`([^`]+)`", quoted)) == {ACTION_WORDS["propose"], ACTION_WORDS["resume"]}
    pages = runbook + (DOCS / "operations.md").read_text(encoding="utf-8")
    assert ACTION_WORDS.keys() <= set(get_args(ActionName))
    assert [name for name in ACTION_WORDS if f"`{name}`" in pages] == []
    table = re.findall(r"^\| (.*?) \|", pages, re.MULTILINE)
    assert [words for words in ACTION_WORDS.values() if not any(words in told for told in table)] == []


def test_a_retry_is_named_for_quarantines_alone() -> None:
    """It lifts those, and does nothing for a job that fails."""
    alerts = (DOCS.parent / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    named = [re.split(r"\s", text, maxsplit=1)[0] for text in alerts.split("alert: ") if "compaction retry" in text]
    assert named == ["LithifyQuarantined"]
