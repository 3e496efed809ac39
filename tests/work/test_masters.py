"""The line to a standalone master: cut when its process ends, and laid only to one that is there."""

import socket

import pytest

from lithify.store.errors import Unavailable
from lithify.work.masters import Line


def listener() -> tuple[socket.socket, str]:
    made = socket.create_server(("127.0.0.1", 0))
    return made, f"127.0.0.1:{made.getsockname()[1]}"


def test_it_is_cut_when_the_last_master_ends() -> None:
    (first, one), (second, two) = listener(), listener()
    line = Line(f"spark://{one},{two}")
    ends = [first.accept()[0], second.accept()[0]]
    assert not line.cut
    ends[0].close()
    assert not line.cut, "the other may have taken over"
    ends[1].close()
    while not line.cut:
        """The kernel tells it in a moment."""
    line.close()
    assert not line.cut
    first.close()
    second.close()


def test_one_master_of_several_may_be_away() -> None:
    there, one = listener()
    gone, two = listener()
    gone.close()
    line = Line(f"spark://{two},{one}")
    end, _ = there.accept()
    assert not line.cut
    end.close()
    line.close()
    there.close()


@pytest.mark.parametrize("port", [None, "no-number"])
def test_no_master_is_told_at_once(port: str | None) -> None:
    gone, address = listener()
    gone.close()
    with pytest.raises(Unavailable, match="no Spark master can be reached there"):
        Line(f"spark://{address if port is None else f'127.0.0.1:{port}'}")


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://api:6443", "sc://host"])
def test_other_masters_need_no_line(master: str) -> None:
    line = Line(master)
    assert not line.cut
    line.close()
