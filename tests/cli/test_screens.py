"""What a terminal shows is what was recorded (tests/cli/screens.py), and no table breaks a word."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lithify.cli.tables import Columns, drawn, wrapped
from tests.cli.screens import FOLDER, WIDTHS, plain, record

RENEW = "tables changed: look at them with 'python -m tests.cli.screens', then 'git diff tests/golden/screens'"
ID = re.compile(r"[0-9a-f]{12}-[0-9a-f-]{8,}|[0-9a-f]{16}")


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_a_terminal_shows_what_was_recorded(width: int) -> None:
    assert plain(record(width)) == (FOLDER / f"{width}.txt").read_text(encoding="utf-8"), RENEW


@pytest.mark.parametrize("width", WIDTHS)
def test_no_recorded_line_is_too_long_unless_it_is_one_word(width: int) -> None:
    for line in (FOLDER / f"{width}.txt").read_text(encoding="utf-8").splitlines():
        assert len(line) <= width or line.startswith("$ ") or " " not in line.strip(), line


def test_ids_are_whole_at_every_width() -> None:
    narrow, *_, wide = ((FOLDER / f"{width}.txt").read_text(encoding="utf-8") for width in WIDTHS)
    assert set(ID.findall(wide)) == set(ID.findall(narrow))


@pytest.mark.slow
def test_without_colour_a_terminal_gets_none() -> None:
    told = record(80, "topic describe users", "doctor", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*[34][0-9]m", told)
    assert "\x1b[1m" in told, "bold is not a colour"


@pytest.mark.slow
def test_wide_shows_all_columns_whatever_the_width() -> None:
    told = plain(record(80, "--wide topic describe users"))
    assert "log start  next offset  records readable" in told
    assert "left out" not in told
    assert "left out: compacted (" in plain(record(80, "topic describe users"))


WORDS = st.text(st.sampled_from("ab-é東"), min_size=1, max_size=30)
PROSE = st.lists(WORDS, max_size=12).map(" ".join)
ROWS = st.lists(st.tuples(WORDS, WORDS, WORDS, PROSE), max_size=4)


@given(ROWS, st.integers(20, 120))
def test_whatever_is_shown_stays_whole(rows: list[tuple[str, ...]], width: int) -> None:
    columns = Columns(("name", "#more rows", "less", "why"), less=("less",), lead="name", prose=True)
    lines = list(drawn(columns, rows, width))
    words = [word for line in lines for word in line.text.split()]
    for name, more, _, why in rows:
        assert {name, more, *why.split()} <= set(words)
    for line in lines:
        assert cell_len(line.text) <= width or cell_len(max(line.text.split(), key=cell_len)) + 34 > width
    all_of_it = [line.text for line in drawn(columns, rows, width, wide=True)]
    assert len(all_of_it) == len(rows) + 1


@given(PROSE, st.integers(10, 60))
def test_prose_is_wrapped_between_words(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert " ".join(lines).split() == text.split()
    assert all(cell_len(line) <= width or len(line.split()) == 1 for line in lines)


def test_what_does_not_fit_goes_in_its_order() -> None:
    columns = Columns(("id", "kind", "#rows in", "why"), less=("kind", "rows in"), lead="id", prose=True)
    rows = [("users/0/7", "clean", "12", "it is dirty, and nobody has cleaned it for an hour or longer")]

    def at(width: int) -> list[str]:
        return [line.text for line in drawn(columns, rows, width)]

    assert at(100) == [
        "id         kind   rows in  why",
        "users/0/7  clean       12  it is dirty, and nobody has cleaned it for an hour or longer",
    ]
    assert at(70) == [
        "                  rows",
        "id         kind     in  why",
        "users/0/7  clean    12  it is dirty, and nobody has cleaned it for an",
        "                        hour or longer",
    ]
    assert at(30) == [
        "                  rows",
        "id         kind     in",
        "users/0/7  clean    12",
        "  why: it is dirty, and nobody",
        "    has cleaned it for an hour",
        "    or longer",
    ]
    assert at(16)[:3] == ["           rows", "id           in", "users/0/7    12"]
    assert at(16)[-3:] == ["left out: kind", "  (--wide shows", "  all columns)"]
    assert at(8)[:3] == ["id", "  rows", "    in"], "what names the row stands above it"
