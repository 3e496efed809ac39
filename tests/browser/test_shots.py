"""Pictures for the documentation: how high they are. It needs no browser."""

import pytest

from tests.browser.shots import height

pytestmark = pytest.mark.soak


def test_a_picture_ends_where_a_section_does() -> None:
    assert height(100.0, [150.0, 500.0, 900.0, 1_500.0], 1_000) == 808.0


def test_of_a_section_that_is_too_long_as_much_is_shown_as_there_is_room_for() -> None:
    assert height(0.0, [200.0, 4_000.0], 1_000) == 1_000.0


def test_a_picture_that_shows_nearly_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="too low"):
        height(800.0, [900.0, 966.0], 1_000)
