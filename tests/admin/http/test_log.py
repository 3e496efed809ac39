"""The server's log: each change on one line; and of what a client can cause without a token, some lines of each kind in
a minute, and then how many were left out."""

import logging
from collections import Counter
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from lithify.admin.http.app import STRANGERS_LINES_MAX
from lithify.admin.http.few import KINDS_MAX, LINES_MAX, Few, few_lines
from tests.admin.http.test_limits import raw
from tests.admin.served import OPERATE, TOKENS, Recorder, Served


@pytest.fixture
def server(recorder: Recorder, serve: Callable[..., Served]) -> Served:
    return serve(recorder)


def test_some_lines_of_each_kind_in_a_minute_and_the_next_says_how_many_were_left_out() -> None:
    now_ms = 0
    few = Few(3, lambda: now_ms)
    assert [few.left_out("a") for _ in range(5)] == [0, 0, 0, None, None]
    assert few.left_out("b") == 0
    now_ms = 59_999
    assert few.left_out("a") is None
    now_ms = 60_000
    assert [few.left_out("a") for _ in range(4)] == [3, 0, 0, None]
    now_ms = 120_000
    assert few.left_out("b") == 0


def test_kinds_that_are_remembered_are_bounded() -> None:
    """Those beyond share one allowance."""
    few = Few(1, lambda: 0)
    assert [few.left_out(f"{n}") for n in range(KINDS_MAX)] == [0] * KINDS_MAX
    assert [few.left_out(f"more {n}") for n in range(3)] == [0, None, None]


def test_a_logger_has_all_its_lines_again_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tests.few")
    with few_lines("tests.few"):
        for number in range(30):
            logger.warning("line %d", number)
    assert len(caplog.records) == 10
    for number in range(30):
        logger.warning("line %d", number)
    assert len(caplog.records) == 40


@pytest.mark.slow
def test_a_client_writes_few_lines_into_the_log(
    server: Served, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    """Each request that is no HTTP was a line, and one that asks to upgrade two, without a token."""
    upgrade = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n"
    with caplog.at_level("INFO", "uvicorn.error"):
        for _ in range(30):
            assert raw(server, b"nonsense\r\n\r\n", ends=True).startswith(b"HTTP/1.1 400")
            assert raw(server, upgrade).startswith(b"HTTP/1.1 200")
    lines = Counter(record.msg for record in caplog.records if record.levelname == "WARNING")
    assert lines["Invalid HTTP request received."] == LINES_MAX
    assert max(lines.values()) == LINES_MAX
    assert sum(lines.values()) <= 3 * LINES_MAX


@pytest.mark.slow
def test_the_log_has_each_change_on_one_line_as_it_was_asked(server: Served) -> None:
    odd = "/v1/topics/a%0aaudit%20role=admin%1b[31m"
    with capture_logs() as logs:
        server("DELETE", "/v1/topics/users")
        server("DELETE", "/v1/topics/users", headers={"Host": "evil/x?"})
        server("DELETE", odd)
        server("DELETE", odd, headers={"Host": "evil.example"})
        server("DELETE", odd, headers={"Origin": "http://evil.example"})
        server("POST", "/v1/topics/users/pause", headers={"Origin": "http://evil.example"})
    assert [(it["path"], it["role"], it["status"]) for it in logs if it["event"] == "audit"] == [
        ("/v1/topics/users", "admin", 404),
        ("/v1/topics/users", "", 421),
        (repr("/v1/topics/a\naudit role=admin\x1b[31m"), "", 421),
        (repr("/v1/topics/a\naudit role=admin\x1b[31m"), "", 403),
        ("/v1/topics/users/pause", "", 403),
    ]


@pytest.mark.slow
def test_whoever_has_no_token_writes_few_lines_into_the_log(recorder: Recorder, serve: Callable[..., Served]) -> None:
    server = serve(recorder, TOKENS)
    with capture_logs() as logs:
        for _ in range(STRANGERS_LINES_MAX + 20):
            assert server("POST", "/v1/topics/users/pause").status == 401
        for _ in range(STRANGERS_LINES_MAX + 20):
            assert server("POST", "/v1/topics/users/pause", token=OPERATE).status == 404
    lines = Counter(entry["role"] for entry in logs if entry["event"] == "audit")
    assert lines == {"": STRANGERS_LINES_MAX, "operate": STRANGERS_LINES_MAX + 20}
