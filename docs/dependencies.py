"""The page of what is installed with Samestep: names, versions and licences of the closure of its dependencies."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from docs.markdown import page, table

ALLOWED = frozenset(
    {
        *("Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "ISC", "MIT", "MIT-0", "PSF-2.0", "Unlicense"),
        # Copyleft of single files, which nobody changes here: certifi's list of authorities, and parts of orjson.
        "MPL-2.0",
    }
)
"""SPDX identifiers of licences that anyone may ship beside Apache-2.0 code."""

_WHERE = {"python_version": "3.11", "python_full_version": "3.11.0", "sys_platform": "linux", "os_name": "posix"}
"""The oldest Python that is supported: newer ones need less, and the page is to be the same on each."""
_CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_WRITTEN = {
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "isc": "ISC",
    "mit": "MIT",
    "mit license": "MIT",
    "modified bsd license": "BSD-3-Clause",
    "mpl-2.0": "MPL-2.0",
    "psf-2.0": "PSF-2.0",
}
_IDENTIFIER = re.compile(r"[\w.+-]+")


@dataclass(frozen=True, slots=True)
class Dependency:
    """`licence` is an SPDX expression, empty where the package does not say one that is known."""

    name: str
    version: str
    licence: str
    needed_by: tuple[str, ...]

    @property
    def identifiers(self) -> frozenset[str]:
        words = _IDENTIFIER.findall(self.licence)
        return frozenset(words) - {"AND", "OR", "WITH"}


def dependencies(root: str = "samestep") -> tuple[Dependency, ...]:
    """The closure of what `root` needs at run time on this platform, by name, in the versions of constraints.txt."""
    needed: dict[str, set[str]] = {}
    waiting = [(root, "")]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for one in _requirements(name, extra):
            other = canonicalize_name(one.name)
            needed.setdefault(other, set()).add(canonicalize_name(name))
            waiting += [(other, wanted) for wanted in ("", *one.extras)]
    pins = _pins()
    return tuple(
        Dependency(name, pins.get(name, ""), licence_of(distribution(name)), tuple(sorted(by)))
        for name, by in sorted(needed.items())
    )


def licence_of(found: Distribution) -> str:
    """What the package says: an SPDX expression, else its classifiers, else the words of its licence field."""
    metadata = found.metadata
    for expression in metadata.get_all("License-Expression") or ():
        return str(expression)
    classified = [
        _CLASSIFIERS[name]
        for one in metadata.get_all("Classifier") or ()
        if one.startswith("License ::") and (name := one.rpartition(" :: ")[2]) in _CLASSIFIERS
    ]
    if classified:
        return " OR ".join(dict.fromkeys(classified))
    written = (str(one).strip().lower() for one in metadata.get_all("License") or ())
    return next((_WRITTEN[one] for one in written if one in _WRITTEN), "")


def dependencies_page() -> str:
    """docs/reference/dependencies.md. Versions are those of constraints.txt, not those that happen to be here."""
    rows = ((one.name, one.version, one.licence, ", ".join(one.needed_by)) for one in dependencies())
    return page(
        "constraints.txt and the metadata of the packages",
        "# Dependencies and their licences",
        "All that is installed with Samestep to run it, on Linux, in the versions that are tested "
        "([constraints.txt](../../constraints.txt)). Licences are SPDX expressions as the packages give them. A test "
        "fails where one is none of: " + ", ".join(sorted(ALLOWED)) + ".",
        table(("package", "version", "licence", "needed by"), rows),
    )


def _requirements(name: str, extra: str) -> Iterator[Requirement]:
    for written in requires(name) or ():
        one = Requirement(written)
        if one.marker is None or one.marker.evaluate({**_WHERE, "extra": extra}):
            yield one


def _pins() -> dict[str, str]:
    lines = (line.partition("==") for line in _CONSTRAINTS.read_text("utf-8").splitlines() if "==" in line)
    return {canonicalize_name(name): pinned for name, _, pinned in lines}
