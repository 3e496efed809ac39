"""What the dashboard says of what the server tells: its functions, asked in a browser."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import lithify
from lithify.manifest.move_price import MovePrice
from tests.browser.pages import Watched
from tests.browser.world import World, records

pytestmark = pytest.mark.soak

DEBT = {"debt": "dirty", "work": "clean", "segments": 2, "bytes": 2048, "since_ms": 0}
DROP = {"debt": "floor", "work": "drop", "segments": 1, "bytes": 1024, "since_ms": 0}
CALL = "async ([file, name, given]) => (await import(new URL(file, document.baseURI)))[name](...given)"


@pytest.fixture
def page(here: World, watch: Callable[..., Watched]) -> Page:
    return watch(here.server.url).open()


def said(page: Page, file: str, name: str, *given: Any) -> Any:
    return page.evaluate(CALL, [f"static/{file}.js", name, list(given)])


def surveyed(**fields: Any) -> dict[str, Any]:
    consumers = {"overtaken": 0, "missed": 0}
    blank = {"quarantine": None, "paused": False, "overdue": None, "retention_stalled": None, "jobs": []}
    return blank | {"l0_segments": 1, "l0_segments_max": 9, "consumers": consumers, "debts": [DEBT]} | fields


@pytest.mark.parametrize(
    ("stopped", "due", "held"),
    [({}, 2048, 0), ({"paused": True}, 1024, 2048), ({"quarantine": "damaged"}, 1024, 2048)],
    ids=["at work", "paused", "quarantined"],
)
def test_what_a_pause_or_a_quarantine_holds_is_not_due_but_retention_goes_on(
    page: Page, stopped: dict[str, Any], due: int, held: int
) -> None:
    assert said(page, "debts", "owedBy", surveyed(debts=[DEBT, DROP], **stopped)) == {"due": due, "held": held}


@pytest.mark.parametrize(("debt", "why"), [(DEBT, "clean dirty records: would read 2.0 KiB"), (DROP, "would drop")])
def test_what_work_would_read_is_not_called_dirty(page: Page, debt: dict[str, Any], why: str) -> None:
    assert why in said(page, "standing", "surveyStanding", surveyed(debts=[debt]))["why"]


@pytest.mark.parametrize(
    ("action", "past_ms", "told"),
    [
        ("wait", 7_200_000, "a:1: nothing to do here; last seen here 2 h ago"),
        ("propose", 60_000, "a:1: not at work here; last seen here 1 min ago"),
        ("propose", 7_200_000, "a:1: gone, or busy elsewhere; last seen here 2 h ago"),
    ],
)
def test_a_compactor_is_gone_only_if_work_waits_for_it(page: Page, action: str, past_ms: int, told: str) -> None:
    compactor = {"name": "a:1", "at_work": False, "seen_ms": 1}
    found = said(page, "explained", "owner", {"action": action, "compactor": compactor, "at_ms": 1 + past_ms})
    assert found.startswith(told)


def test_one_that_has_left_is_not_said_to_be_there(page: Page) -> None:
    compactor = {"name": "a:1", "at_work": False, "seen_ms": 1, "left": True}
    found = said(page, "explained", "owner", {"action": "propose", "compactor": compactor, "at_ms": 60_001})
    assert found == "none now; a:1 left; last seen here 1 min ago"


def test_one_number_is_shown_if_nothing_lies_below_the_log_start(page: Page) -> None:
    whole = {"rows": 5, "logical_rows": 5, "bytes": 2048, "logical_bytes": 1024}
    text = "(partition) => import(new URL('static/partition.js', document.baseURI)).then((file) => "
    shown = text + "file.fromStart(partition, 'rows', String))"
    assert page.evaluate(shown, whole) == "5"
    assert page.evaluate(shown, whole | {"logical_rows": 3}) == "5 stored, of which 3 from the log start on"


def test_a_completed_move_says_what_it_moved_and_a_request_what_it_waits_for(page: Page) -> None:
    job = {"kind": "relocate", "status": "completed", "error": None, "reason": "1 segment may go", "created_at": 0}
    moved = job | {"counts": {"bytes_written": 2048}, "destination": "s3://cold/x"}
    assert said(page, "jobs", "why", moved) == "moved 2.0 KiB to s3://cold/x"
    asked = job | {"kind": None, "status": "submitted", "reason": "", "paused": True}
    assert said(page, "jobs", "why", asked) == "waits for the topic to be resumed"
    old = job | {"kind": "clean", "reason": "tombstones expired 2 d ago"}
    assert said(page, "jobs", "why", old) == "tombstones expired 2 d ago, as of 1970-01-01 00:00:00Z"


def test_an_end_that_would_recede_is_not_told(here: World, watch: Callable[..., Watched]) -> None:
    topic = here.topic("orders", compaction_output_bytes="2048")
    for number in range(8):
        topic.append(records(300, 300 * number))
    watched = watch(here.server.url)
    watched.page.clock.install()
    with here.compacting() as engine:
        engine.let(1)
        page = watched.open("topic/orders/0")
        progress = page.locator(".job .progress").first
        expect(progress).to_contain_text(re.compile(r"1 of \d+ key ranges.* ends in about"))
        page.clock.fast_forward(3_600_000)
        expect(progress).to_contain_text(
            re.compile(r"no key range has ended for 1(\.\d)? h|no key range has ended for")
        )
        expect(progress).not_to_contain_text("ends in about")
        engine.let(1_000)


def test_a_value_is_shown_as_text_and_in_hexadecimal_digits(here: World, watch: Callable[..., Watched]) -> None:
    here.topic("users").append([lithify.Record(b"ada", b"pro plan"), lithify.Record(b"ada", b"pro\x00\xff")])
    page = watch(here.server.url).open("key/users")
    page.get_by_label("Key", exact=True).fill("ada")
    page.get_by_label(re.compile("show values")).check()
    page.keyboard.press("Enter")
    rows = page.get_by_role("table").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("pro··70726f00ff")
    expect(rows.nth(2)).to_contain_text("pro plan")
    rows.nth(2).get_by_text("8 bytes in hexadecimal").click()
    expect(rows.nth(2)).to_contain_text("70726f20706c616e")


def test_homes_say_whose_segments_they_hold(page: Page) -> None:
    use = {"segments": 1, "bytes": 1, "records": 1, "retired_segments": 0, "retired_bytes": 0}
    survey = {
        "homes": [{"home": "s3://cold", "away": ""}],
        "partitions": [
            {"topic": "users", "homes": [{"home": "", **use}, {"home": "s3://cold", **use}]},
            {"topic": "orders", "homes": [{"home": "", **use}]},
        ],
    }
    text = (
        "async (survey) => { const { homesOf } = await import(new URL('static/homes.js', document.baseURI));"
        "return [...homesOf(survey).querySelectorAll('tbody tr')].map((row) => row.cells[2].textContent); }"
    )
    assert page.evaluate(text, survey) == ["orders, users", "users"]


@pytest.mark.parametrize(
    ("price", "told"),
    [
        (
            (0.0000166, 0.03, 0.004),
            "0.034017 USD at S3's list prices (0.000017 requests, 0.030000 retrieval, 0.004000 for the minimum storage "
            "duration)",
        ),
        ((0.0000004, 0, 0), "less than 0.000001 USD at S3's list prices"),
        ((0.0001, 0, 0), "0.000100 USD at S3's list prices (0.000100 requests)"),
    ],
)
def test_a_move_tells_its_price(page: Page, price: tuple[float, float, float], told: str) -> None:
    """As the command line does."""
    names = ("requests_usd", "retrieval_usd", "early_usd")
    given = dict(zip(names, price, strict=True))
    assert page.evaluate(CALL, ["static/words.js", "priceText", [given]]) == told
    assert MovePrice(segments=1, bytes=1, **given).text == told
