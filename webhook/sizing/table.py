"""The policy's own table, memory.declared: which of its entries is for a job."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from webhook.model.job import Program, TrainingJob
from webhook.model.policy import TabledMemory


def entry_for(job: TrainingJob, table: Sequence[TabledMemory]) -> int | None:
    """The place, in the table, of the first entry that matches the job."""
    return next((place for place, one in enumerate(table) if _matches(one, job)), None)


def _matches(entry: TabledMemory, job: TrainingJob) -> bool:
    if entry.model and not _names(entry.model, job):
        return False
    if not (entry.image or entry.args):
        return True
    return any(
        fnmatchcase(one.image, entry.image or "*") and all(_says(one, flag, value) for flag, value in entry.args)
        for one in job.programs
    )


def _names(pattern: str, job: TrainingJob) -> bool:
    said = job.told.settings.get("model") if job.told else None
    if said is None:
        return False
    name = said.value.casefold().rstrip("/")
    return any(fnmatchcase(text, pattern.casefold()) for text in (name, name.rsplit("/", 1)[-1]))


def _says(program: Program, flag: str, pattern: str) -> bool:
    """Whether the last time that the flag is given, its value matches."""
    value = None
    prefix = flag if flag.endswith("=") else f"{flag}="
    for place, word in enumerate(program.words):
        if word == flag:
            behind = program.words[place + 1 : place + 2]
            value = behind[0] if behind and not behind[0].startswith("--") else ""
        elif word.startswith(prefix):
            value = word[len(prefix) :]
    return value is not None and fnmatchcase(value, pattern)
