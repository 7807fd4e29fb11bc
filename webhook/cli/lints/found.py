"""One thing that lint found."""

from dataclasses import dataclass
from enum import StrEnum

from webhook.policy.documents import Fault
from webhook.policy.load import Read

UNREADABLE = "unreadable"


class Severity(StrEnum):
    """An error never works, whatever the cluster. A warning depends on the cluster, or may be meant."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Found:
    """`rule` is a stable name; `object` is what it is about ("TrainingPolicy strict"), empty where nothing says."""

    severity: Severity
    rule: str
    object: str
    fault: Fault

    @property
    def order(self) -> tuple[str, int, int, str]:
        return self.fault.file, self.fault.line, self.fault.column, self.rule

    def __str__(self) -> str:
        place, field = self.fault, f"{self.fault.field}: " if self.fault.field else ""
        where = f"{place.file}:{place.line}:{place.column}" if place.line else place.file
        return f"{where}: {self.severity}: {field}{place.message} [{self.rule}]"


def invalid(fault: Fault, rule: str = "invalid") -> Found:
    """What is told of an object's fields, or of something that could not be looked into at all."""
    return Found(Severity.ERROR, rule if fault.field else UNREADABLE, "", fault)


def error(one: Read, rule: str, message: str, *steps: str | int) -> Found:
    """An error in this field of an object."""
    return _found(Severity.ERROR, one, rule, message, steps)


def warning(one: Read, rule: str, message: str, *steps: str | int) -> Found:
    """A warning about this field of an object."""
    return _found(Severity.WARNING, one, rule, message, steps)


def _found(severity: Severity, one: Read, rule: str, message: str, steps: tuple[str | int, ...]) -> Found:
    (fault,) = one.source.faults([(steps, message)])
    return Found(severity, rule, str(one.good.key), fault)
