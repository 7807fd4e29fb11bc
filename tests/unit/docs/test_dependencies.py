"""What is installed with Samestep, and under which licences."""

from email.message import Message
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from docs.dependencies import ALLOWED, dependencies, licence_of


class Package(Distribution):
    """One that is not installed, with this metadata."""

    def __init__(self, *fields: tuple[str, str]) -> None:
        self.fields = fields

    def read_text(self, filename: str) -> str | None:
        message = Message()
        for name, value in self.fields:
            message[name] = value
        return str(message) if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


def test_every_package_of_the_closure_is_pinned_and_has_a_licence_that_is_allowed() -> None:
    found = dependencies()
    assert {"aiohttp", "kopf", "pydantic", "multidict", "tzdata"} <= {one.name for one in found}
    for one in found:
        assert one.version, f"{one.name} is not in constraints.txt"
        assert one.identifiers, f"{one.name} does not say its licence in a way that is known"
        assert one.identifiers <= ALLOWED, f"{one.name}: {one.licence}"


def test_what_is_only_for_tests_is_no_part_of_it() -> None:
    assert {"pytest", "mypy", "hypothesis", "samestep"}.isdisjoint(one.name for one in dependencies())


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ([("License-Expression", "MIT OR GPL-3.0-only"), ("License", "x")], "MIT OR GPL-3.0-only"),
        ([("Classifier", "License :: OSI Approved :: BSD License")], "BSD-3-Clause"),
        ([("License", "Apache 2.0")], "Apache-2.0"),
        ([("License", "a text of its own")], ""),
        ([("Classifier", "License :: OSI Approved :: GNU General Public License v3 (GPLv3)")], ""),
    ],
)
def test_a_licence_is_read_from_what_the_package_says(fields: list[tuple[str, str]], licence: str) -> None:
    assert licence_of(Package(*fields)) == licence
