"""What a person finds in the dashboard: a quarantine, a key's history, garbage, what happened and who was fenced."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

import lithify
from tests.browser.pages import Watched
from tests.browser.world import World, records

pytestmark = pytest.mark.soak


def test_a_quarantine_is_seen_first_and_lifted_when_the_segment_is_whole(
    here: World, watch: Callable[..., Watched]
) -> None:
    for name in ("orders", "users"):
        here.topic(name).append(records(50))
        here.topic(f"{name}-more").append(records(50))
    damaged = here.damage("users", 0)
    here.compact()
    watched = watch(here.server.url, allowed="status of 500")
    page = watched.open()
    row = page.get_by_role("table", name="What needs a person").get_by_role("row").nth(1)
    expect(row).to_contain_text("quarantined")
    expect(page.locator(".figures .bad")).to_contain_text("1 needs a person")
    row.get_by_role("link", name="users/0").click()
    expect(page.locator(".shape")).to_contain_text("✕ damaged")
    page.get_by_text("1 segment", exact=True).click()
    expect(page.get_by_role("table", name="Live segments")).to_contain_text(damaged)
    lift = page.get_by_role("dialog", name="Lift the quarantine?")
    told = page.get_by_role("region", name="Quarantine")
    expect(told).to_contain_text("offsets 0 to 49, 50 records")
    expect(told).to_contain_text("appends go on")
    expect(told).to_contain_text("lithify verify users")
    expect(told).to_contain_text("fails its checksum")
    expect(page.get_by_role("region", name="What happens next, and why")).not_to_contain_text("fails its checksum")
    expect(page.locator("[data-key=tools]")).not_to_contain_text("fails its checksum")  # it is said once
    expect(page.get_by_role("region", name="State")).not_to_contain_text("readable")
    page.get_by_role("button", name="Check the segment again").click()
    lift.get_by_role("button", name="Check and lift").click()
    expect(lift.get_by_role("alert")).to_contain_text(damaged)  # it is still damaged
    here.restore()
    lift.get_by_role("button", name="Check and lift").click()
    expect(page.get_by_role("status")).to_contain_text("The quarantine of users/0 is lifted")
    expect(page.get_by_role("button", name="Check the segment again")).to_be_hidden()
    page.get_by_role("link", name="Warehouse").click()
    expect(page.get_by_role("region", name="Needs a person")).to_contain_text("Nothing.")


def test_the_history_of_a_key(here: World, watch: Callable[..., Watched]) -> None:
    topic = here.topic("users")
    for value in (b"free plan", b"pro plan", None):
        topic.append([lithify.Record(b"ada", value), lithify.Record(b"bela", b"x")])
    page = watch(here.server.url, allowed="status of 400").open("key/users")
    page.get_by_label("Key", exact=True).fill("ada")
    page.get_by_label(re.compile("show values")).check()
    page.keyboard.press("Enter")
    expect(page.get_by_text("3 versions; the key lives in partition 0; it is deleted.")).to_be_visible()
    rows = page.get_by_role("table").get_by_role("row")
    for number, (state, value) in enumerate(
        [("latest", "tombstone"), ("superseded", "pro plan"), ("superseded", "free plan")], 1
    ):
        expect(rows.nth(number)).to_contain_text(state)
        expect(rows.nth(number)).to_contain_text(value)
    page.get_by_label("base64").check()
    page.get_by_label("Key", exact=True).fill("not base64!")
    page.get_by_role("button", name="Look up").click()
    expect(page.get_by_role("alert")).not_to_be_empty()


def test_garbage_is_looked_at_before_it_is_deleted(here: World, watch: Callable[..., Watched]) -> None:
    topic = here.topic("orders")
    for number in range(3):
        topic.append(records(20, number))
    here.compact()
    page = watch(here.server.url).open("garbage")
    page.get_by_role("button", name="Dry run").click()
    expect(page.locator(".answer")).to_contain_text("would delete 0 objects")
    expect(page.locator(".answer")).to_contain_text("3 retired segments cannot be collected yet")
    expect(page.get_by_role("button", name="Collect…")).to_have_count(0)


def test_what_happened_and_who_fenced_whom(here: World, watch: Callable[..., Watched]) -> None:
    topic = here.topic("orders")
    topic.append(records(50))
    here.compact("compactor-a:17", killed=True)
    topic.append(records(50))
    here.compact("compactor-b:4")
    page = watch(here.server.url).open("topic/orders/0")
    worked = page.get_by_role("img", name=re.compile("compactor-b:4 fenced compactor-a:17"))
    expect(worked).to_be_visible()  # by the attempts of the jobs
    page.get_by_role("button", name="Read what happened").click()
    happened = page.get_by_role("table", name="What happened, the latest first")
    expect(happened).to_contain_text("epoch 2: compactor-b:4 fenced compactor-a:17")
    expect(worked).to_be_visible()  # by the claims
    expect(page.get_by_role("img", name=re.compile("bytes were written for each byte appended"))).to_be_visible()
    topic.append(records(7, size=9))
    expect(happened.get_by_role("row").nth(1)).to_contain_text("append")  # it is followed
    count = happened.get_by_role("row").count()
    topic.append(records(8, size=9))
    expect(happened.get_by_role("row")).to_have_count(count + 1)


def test_the_shape_of_a_partition_has_its_floor_pins_and_garbage(here: World, watch: Callable[..., Watched]) -> None:
    topic = here.topic("orders", cleanup_policy="compact,delete")
    topic.append(records(50))
    here.admin.create_checkpoint("orders", "before the migration")
    topic.append(records(50))
    here.compact()
    topic.append(records(20))
    here.admin.delete_records("orders", 0, 30)
    page = watch(here.server.url).open("topic/orders/0")
    shape = page.locator(".shape")
    for text in ("L0", "run …", "log start 30", "end 120", "before the migr", "retired"):
        expect(shape).to_contain_text(text)
    expect(page.get_by_role("img", name=re.compile("retired segment.* held by pins"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("By the timestamps of the records"))).to_be_visible()


def test_what_is_in_which_home_and_which_is_away(here: World, watch: Callable[..., Watched], tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    here.topic("users", cold_location=f"file://{cold}", local_retention_ms="0", hot_retain_segments="0").append(
        records(50)
    )
    here.topic("orders").append(records(50))
    for _ in range(2):
        here.admin.submit("users", 0)
        here.compact()
        here.compact()
    page = watch(here.server.url).open()
    homes = page.get_by_role("table", name="Where the segments are")
    row = homes.get_by_role("row").filter(has_text=f"file://{cold}")
    expect(row).to_contain_text("answers")
    expect(homes.get_by_role("row").filter(has_text="the warehouse")).to_be_visible()
    expect(page.get_by_role("region", name="Needs a person")).to_contain_text("Nothing.")
    page.goto(f"{here.server.url}/#/topic/users/0")
    expect(page.locator(".facts").first).to_contain_text(f"in file://{cold}")
    cold.rename(tmp_path / "unmounted")
    cold.mkdir()
    page.get_by_role("link", name="Warehouse").click()
    expect(page.get_by_role("region", name="Needs a person")).to_contain_text("is the home mounted?")
    expect(page.locator(".figures .bad")).to_contain_text("1 needs a person")
    expect(row).to_contain_text("away")
