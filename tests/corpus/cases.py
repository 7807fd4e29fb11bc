"""The corpus: inputs as people sent them, and in each folder's expect.yaml what must come of them.

A case is a folder: any number of input files (manifests, Lists, AdmissionReviews) and expect.yaml. Fleets are shared:
they stand in `_fleets/`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from webhook.cli.documents import Document, Unreadable, parse_documents
from webhook.cli.surroundings import LOOKED_UP, fleet_from, profiles_of, surroundings_from
from webhook.fleet.queues import read_queues
from webhook.intake.admission import read_request
from webhook.model.fleet import Fleet
from webhook.model.job import Coupling
from webhook.model.profile import Profiles
from webhook.model.queues import Queues
from webhook.model.request import Request, Stage
from webhook.model.surroundings import Surroundings
from webhook.model.verdict import Verdict

HERE = Path(__file__).parent
NOW = 1_800_000_000.0
_USER = {"username": "user@example.com", "groups": ["system:authenticated"]}


class _Strict(BaseModel):
    """A typo in an expectation must fail, not expect nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


class Read(_Strict):
    """What intake has to find in the object; what is left out is not looked at."""

    coupling: Coupling | None = None
    devices: int | None = None
    micro_batch: int | None = None
    roles: dict[str, int] | None = None
    """Pods of every role that asks for devices, by its name."""
    name: str | None = None


class Expected(_Strict):
    """What one input must get. `of` is the file, or "file#1", "file#0.items[2]" where it holds more than one."""

    of: str
    stage: Stage = Stage.MUTATE
    verdict: Verdict
    models: list[str] | None = None
    """Full product names of the models that are left for the job."""
    patch: list[str] = []
    """The paths that a pin writes, all of them but the pin record's."""
    after: dict[str, Any] = {}
    """Values in the object as it is stored, by JSON Pointer."""
    codes: list[str] = []
    not_codes: list[str] = []
    says: list[str] = []
    """What the submitter must be able to read, in the message of a denial or in a warning."""
    never_says: list[str] = []
    read: Read | None = None
    later: Annotated[str, Field(pattern=r"^issue \d+: ")] = ""
    """Today's answer is the right one only until that issue: what it has to be then."""

    @model_validator(mode="after")
    def _a_pin_says_where(self) -> "Expected":
        if (self.verdict is Verdict.PIN) != bool(self.patch):
            raise ValueError("a Pin, and nothing else, has a patch")
        return self


class Fault(_Strict):
    """A document that cannot be read: where it stands, and what is said of it."""

    source: str
    says: str


class Expectation(_Strict):
    """A whole expect.yaml. `reports` are public ones ("owner/repository#1"), none where the case is our own; `story`
    says what went wrong there, or what is easy to get wrong."""

    reports: list[Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+#\d+$")]]
    story: str
    fleet: str
    reviews: list[Expected] = []
    unreadable: list[Fault] = []


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    files: tuple[Path, ...]
    expectation: Expectation

    @property
    def fleet_file(self) -> Path:
        return HERE / "_fleets" / f"{self.expectation.fleet}.yaml"


def cases() -> list[Case]:
    """Every folder beside this file that has an expect.yaml, by name."""
    return [_case(path.parent) for path in sorted(HERE.glob("*/expect.yaml"))]


def reviews() -> Iterator[tuple[str, Case, Expected]]:
    """Every expected review with a readable id."""
    for case in cases():
        for one in case.expectation.reviews:
            stage = "" if one.stage is Stage.MUTATE else f"@{one.stage}"
            yield f"{case.name}/{one.of}{stage}", case, one


def documents(case: Case) -> dict[str, Document]:
    """What is to be reviewed, as an expectation names it."""
    found = (one for one in _parsed(case) if isinstance(one, Document))
    return {_short(one.source): one for one in found if one.object["kind"] not in LOOKED_UP}


def surroundings(case: Case) -> Surroundings:
    """What jobs refer to, among the case's files."""
    return surroundings_from(one for one in _parsed(case) if isinstance(one, Document))


def queues(case: Case) -> Queues:
    """Flavors and queues among the case's files."""
    return read_queues((one.source, one.object) for one in _parsed(case) if isinstance(one, Document)).queues


def profiles(case: Case) -> Profiles:
    """What earlier runs took, among the case's files."""
    found, problems = profiles_of(one for one in _parsed(case) if isinstance(one, Document))
    assert not problems
    return found


def unreadable(case: Case) -> list[Unreadable]:
    return [one for one in _parsed(case) if isinstance(one, Unreadable)]


def request(document: Document, stage: Stage = Stage.MUTATE) -> Request:
    """An AdmissionReview as it is, a manifest as the CREATE that the API server makes of it."""
    asked = document.object
    if asked["kind"] != "AdmissionReview":
        asked = _create(asked)
    return read_request(asked, stage=stage, now=NOW)


@cache
def fleet(case_fleet: Path) -> Fleet:
    known, problems = fleet_from([case_fleet])
    assert not problems
    return known


def _case(folder: Path) -> Case:
    loaded = yaml.safe_load((folder / "expect.yaml").read_text("utf-8"))
    files = sorted(path for path in folder.iterdir() if path.name != "expect.yaml")
    return Case(folder.name, tuple(files), Expectation.model_validate(loaded))


def _parsed(case: Case) -> Iterator[Document | Unreadable]:
    for path in case.files:
        yield from parse_documents(path)


def _short(source: str) -> str:
    """Most files hold one document: "#0" is left out."""
    return source.removesuffix("#0")


def _create(obj: dict[str, Any]) -> dict[str, Any]:
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version}
    asked = {
        "uid": "00000000-0000-4000-8000-000000000002",
        "kind": {**kind, "kind": obj["kind"]},
        "resource": {**kind, "resource": f"{obj['kind'].lower()}s"},
        "namespace": obj["metadata"].get("namespace", "default"),
        "operation": "CREATE",
        "userInfo": _USER,
        "object": obj,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
