"""Quantities as the API server reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.model.quantity import QuantityError, milli, units

LARGEST = (1 << 63) - 1


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("0", 0),
        (0, 0),
        ("8", 8),
        (8, 8),
        ("1500m", 2),
        ("1m", 1),
        ("1u", 1),
        ("1n", 1),
        ("0.1", 1),
        (".5", 1),
        ("5.", 5),
        (0.5, 1),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1.5Gi", 3 << 29),
        ("192G", 192 * 10**9),
        ("14719096Ki", 14719096 << 10),
        ("1E", 10**18),
        ("1Ei", 1 << 60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", 2),
        ("+5", 5),
        ("-5", -5),
        ("-1500m", -1),
        ("1e300", LARGEST),
        (10**40, LARGEST),
    ],
)
def test_a_quantity_is_rounded_up_to_whole_units(text: object, whole: int) -> None:
    assert units(text) == whole


@pytest.mark.parametrize(("text", "thousandths"), [("1", 1000), ("1500m", 1500), ("0.1", 100), ("1n", 1), (2, 2000)])
def test_cpu_is_read_in_thousandths(text: object, thousandths: int) -> None:
    assert milli(text) == thousandths


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "1 ", " 1", "1Gi ", "1gi", "1Kib", "K", ".", "-", "1.2.3", "1e", "1e1234", "0x10", "1_0", "NaN"),
        *("inf", "８", "9" * 101, "1\n", None, True, False, [], {}, float("nan"), float("inf")),
    ],
)
def test_what_the_api_server_would_refuse_is_an_error(value: object) -> None:
    with pytest.raises(QuantityError):
        units(value)


@given(st.integers(0, LARGEST), st.sampled_from(["", "m", "k", "Ki", "M", "Mi", "G", "Gi"]))
def test_units_and_thousandths_agree(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert units(text) == min(-(-milli(text) // 1000), LARGEST) or milli(text) == LARGEST
