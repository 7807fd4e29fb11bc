"""The inverse of a size."""

import pytest

from webhook.sizing.largest import MOST, largest


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7, 8, 9, 1000, MOST])
def test_it_is_the_last_that_fits(limit: int) -> None:
    assert largest(lambda batch: batch <= limit) == limit


@pytest.mark.parametrize("most", [0, 1, 2, 5, 63, 64])
def test_nothing_above_the_most_is_looked_at(most: int) -> None:
    asked: list[int] = []

    def fits(batch: int) -> bool:
        asked.append(batch)
        return True

    assert largest(fits, most) == most
    assert max(asked, default=0) <= most
