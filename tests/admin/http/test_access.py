"""Tokens, roles, hosts and origins: what is let in, and that nothing else is."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.admin.http.access import SENDERS_MAX, TOKENS_MAX, Door, Guesses, Role, TokenFile, Tokens
from lithify.store.errors import InvalidRequest

READ, OPERATE, ADMIN = ("r" * 32, "o" * 40, "a" * 64)
LINES = f"# of the team\nread:{READ}\n\n  operate:{OPERATE}\nadmin:{ADMIN}\nREAD:{'s' * 32}\n"


def test_each_token_has_its_role_and_a_name_that_tells_nothing_of_it() -> None:
    tokens = Tokens.parse(LINES, "tokens")
    found = [tokens.find(token) for token in (READ, OPERATE, ADMIN, "s" * 32)]
    assert [known.role for known in found if known] == [Role.READ, Role.OPERATE, Role.ADMIN, Role.READ]
    names = [known.name for known in found if known]
    assert len(set(names)) == len(names) == 4
    assert all(re.fullmatch(r"(read|operate|admin)-[0-9a-f]{6}", name) for name in names)


@given(st.text(max_size=70))
def test_nothing_else_is_a_token(given: str) -> None:
    known = {READ, OPERATE, ADMIN, "s" * 32}
    assert (Tokens.parse(LINES, "tokens").find(given) is None) == (given not in known)


def test_bytes_that_are_no_text_are_no_token() -> None:
    assert Tokens.parse(LINES, "tokens").find(os.fsdecode(b"\xff" * 32)) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "tokens has no token"),
        ("# nothing\n", "tokens has no token"),
        ("x" * 40, "line 1: give role:token"),
        (f"root:{READ}", "line 1: give role:token"),
        (f"\nread:{READ[1:]}", "line 2: a token is at least 32"),
        (f"read:{READ} ", None),
        (f"read:{READ} x", "line 1: a token is at least 32"),
        (f"read:{READ[1:]}é", "line 1: a token is at least 32"),
        (f"read:{READ}\nadmin:{READ}", "line 2: the same token stands in an earlier line"),
        ("\n".join(f"read:{number:040d}" for number in range(TOKENS_MAX + 1)), "at most 1000 are allowed"),
    ],
)
def test_what_is_wrong_is_told_by_its_line_and_never_by_its_content(text: str, says: str | None) -> None:
    if says is None:
        assert len(Tokens.parse(text, "tokens")) == 1
        return
    with pytest.raises(InvalidRequest, match=re.escape(says)) as told:
        Tokens.parse(text, "tokens")
    assert not any(secret in str(told.value) for secret in (READ[:8], "x" * 8, "root"))


def test_a_changed_file_is_read_again_and_a_bad_one_keeps_the_last_tokens(tmp_path: Path) -> None:
    path, told = tmp_path / "tokens", list[str]()
    path.write_text(f"read:{READ}")
    file = TokenFile(path, lambda error: told.append(str(error)))

    def found(token: str) -> bool:
        return file.tokens().find(token) is not None

    assert found(READ)
    path.write_text(f"read:{OPERATE}")
    assert (found(READ), found(OPERATE)) == (True, False), "whoever asks touches no file"
    file.look()
    assert (found(READ), found(OPERATE)) == (False, True)
    path.write_text("nonsense")
    file.look()
    assert found(OPERATE)
    path.unlink()
    file.look()
    file.look()
    assert found(OPERATE)
    assert [re.sub(r".*(line 1|cannot be read).*", r"\1", text) for text in told] == ["line 1", "cannot be read"]
    path.write_text(f"admin:{ADMIN}")
    file.look()
    assert found(ADMIN)


def test_a_file_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="cannot be read: No such file"):
        TokenFile(tmp_path / "absent", lambda _: None)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidRequest, match="cannot be read: it is not UTF-8"):
        TokenFile(tmp_path / "bytes", lambda _: None)


OWN = ["127.0.0.1:8480", "127.0.0.1", "localhost:8480", "LOCALHOST", "localhost.", "[::1]:8480", "[::1]", "127.9.9.9:1"]
FOREIGN = [
    *("evil.example", "evil.example:8480", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1:8480"),
    *(
        "",
        None,
        ":8480",
        "[::1",
        "localhost:8480x",
        "localhost:8480:1",
        "user@localhost",
        "local host",
        "[::2]",
        "0.0.0.0",
    ),
]


@pytest.mark.parametrize("host", OWN)
def test_loopback_is_ours_by_each_of_its_names(host: str) -> None:
    door = Door(["127.0.0.1"], loopback=True)
    assert door.admits_host(host)
    assert door.admits_origin(f"http://{host}", host)
    assert not door.admits_origin("http://evil.example", host)


@pytest.mark.parametrize("host", FOREIGN)
def test_no_other_host_is(host: str | None) -> None:
    assert not Door(["127.0.0.1"], loopback=True).admits_host(host)


def test_off_loopback_what_is_named_is_ours_and_every_address_in_digits() -> None:
    """Nobody can make another name resolve to a Host in digits."""
    door = Door(["10.1.2.3", "Lithify.Example."], loopback=False)
    ours = ["10.1.2.3:8480", "lithify.example", "LITHIFY.example:443", "192.168.0.7:80", "[::1]:8480"]
    assert all(map(door.admits_host, ours))
    assert not any(
        map(door.admits_host, ["localhost:8480", "example", "other.lithify.example", "1.2.3.example", "10.1.2", ""])
    )


def test_a_name_may_come_with_its_port_and_what_is_no_name_is_refused() -> None:
    """`--http-host proxy.example:443` matched no request, and said nothing."""
    door = Door(["10.1.2.3", "proxy.example:443", "[fd00::1]:80"], loopback=True)
    assert all(map(door.admits_host, ["proxy.example", "proxy.example:8443", "[fd00::1]"]))
    for wrong in ("https://proxy.example", "", "a b", "*.example", "proxy.example/x", "[::1", "é"):
        with pytest.raises(InvalidRequest, match="is no name of a host"):
            Door(["10.1.2.3", wrong], loopback=True)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://localhost:3000",
        "https://localhost:8480.evil.example",
        "file://localhost:8480",
        "localhost:8480",
    ],
)
def test_an_origin_that_is_not_the_host_is_foreign(origin: str) -> None:
    """Another port of this machine is another program."""
    assert not Door(["127.0.0.1"], loopback=True).admits_origin(origin, "localhost:8480")


def test_who_is_no_browser_has_no_origin() -> None:
    assert Door(["127.0.0.1"], loopback=True).admits_origin(None, "localhost:8480")


def test_guesses_wait_ever_longer_each_sender_for_itself() -> None:
    guesses = Guesses()
    assert [guesses.wrong("a") for _ in range(12)] == [0, 0, 0, 0, *(1_000 << n for n in range(6)), 60_000, 60_000]
    assert guesses.wrong("b") == 0
    guesses.right("a")
    assert guesses.wrong("a") == 0


def test_senders_that_are_remembered_are_bounded() -> None:
    guesses = Guesses()
    for _ in range(5):
        guesses.wrong("first")
    for number in range(SENDERS_MAX):
        guesses.wrong(f"{number}")
    assert guesses.wrong("first") == 0
