"""Rules out of files that hold fleets and jobs beside them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from webhook.cli.documents import Document, Unreadable, parse_documents
from webhook.model.rules import Rules
from webhook.policy.accelerator_pool import AcceleratorPool
from webhook.policy.exception import TrainingPolicyException
from webhook.policy.parts import faults
from webhook.policy.training_policy import TrainingPolicy

_GROUP = "samestep.dev/"
_MODELS = {one.__name__: one for one in (TrainingPolicy, AcceleratorPool, TrainingPolicyException)}


@dataclass(frozen=True, slots=True)
class RuleFiles:
    """The rules of some files, the Accelerators beside them, and what could not be read."""

    rules: Rules
    accelerators: tuple[Document, ...]
    problems: tuple[Unreadable, ...]


def rule_files(paths: Iterable[Path]) -> RuleFiles:
    """What files and folders say. Files have no age: of equal priority, the first by name steers."""
    found: dict[str, list[object]] = {kind: [] for kind in _MODELS}
    accelerators: list[Document] = []
    problems: list[Unreadable] = []
    for path in paths:
        for file in _files(path):
            for one in parse_documents(file):
                if isinstance(one, Unreadable):
                    problems.append(one)
                elif not one.object["apiVersion"].startswith(_GROUP):
                    if not path.is_dir():
                        problems.append(Unreadable(one.source, "expected an object of samestep.dev"))
                elif one.object["kind"] == "Accelerator":
                    accelerators.append(one)
                elif model := _MODELS.get(one.object["kind"]):
                    try:
                        found[model.__name__].append(model.model_validate(one.object).resolved())
                    except ValidationError as error:
                        problems += [Unreadable(one.source, fault) for fault in faults(error)]
    policies: list = found["TrainingPolicy"]  # type: ignore[type-arg]
    rules = Rules(
        tuple(sorted(policies, key=lambda one: (-one.priority, one.name))),
        pools=tuple(found["AcceleratorPool"]),  # type: ignore[arg-type]
        exceptions=tuple(found["TrainingPolicyException"]),  # type: ignore[arg-type]
    )
    return RuleFiles(rules, tuple(accelerators), tuple(problems))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(one for one in path.glob("*.y*ml") if not one.name.endswith(".test.yaml"))
