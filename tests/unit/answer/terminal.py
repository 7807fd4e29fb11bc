"""What a terminal of so many columns shows of what kubectl prints."""

from collections.abc import Iterator

from rich.cells import cell_len

from webhook.answer.message import message
from webhook.answer.warnings import warnings
from webhook.model.verdict import Review, Verdict

BEFORE = (
    'Error from server (Forbidden): error when creating "job.yaml": '
    'admission webhook "jobs.samestep.dev" denied the request: '
)


def printed(outcome: Review, columns: int) -> list[str]:
    """kubectl's lines, each as many times broken as it is wider than the terminal."""
    if outcome.verdict is Verdict.DENY:
        lines = f"{BEFORE}{message(outcome)}".splitlines()
    else:
        lines = [f"Warning: {line}" for line in warnings(outcome)]
    return [row for line in lines for row in _broken(line, columns)]


def _broken(line: str, columns: int) -> Iterator[str]:
    """A terminal breaks anywhere, but never inside a wide character."""
    row = ""
    for letter in line:
        if cell_len(row + letter) > columns:
            yield row
            row = ""
        row += letter
    yield row
