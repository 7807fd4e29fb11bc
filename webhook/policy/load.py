"""Policies from files."""

from pathlib import Path

from pydantic import ValidationError

from webhook.catalog.strict_yaml import YamlError, load_all
from webhook.model.policy import Policy
from webhook.model.rules import Rules
from webhook.policy.parts import faults
from webhook.policy.training_policy import TrainingPolicy


class PolicyError(Exception):
    """A policy file that cannot be used; the message names the file and the field."""


def load_policy(path: Path) -> Policy:
    """The one TrainingPolicy in a file or a directory of YAML files.

    Raises PolicyError where there is none, more than one (whoever asks decides no job), or a bad one.
    """
    found = _found(path)
    if len(found) != 1:
        raise PolicyError(f"{path}: expected one TrainingPolicy, found {len(found)}")
    return found[0]


def load_rules(path: Path) -> Rules:
    """Every TrainingPolicy in a file or a directory of YAML files. Files have no age: of equal priority, the first by
    name steers.

    Raises PolicyError where there is none, a bad one, or two of one name.
    """
    found = sorted(_found(path), key=lambda one: (-one.priority, one.name))
    names = [one.name for one in found]
    if not found:
        raise PolicyError(f"{path}: expected a TrainingPolicy, found none")
    if twice := next((one for one in names if names.count(one) > 1), ""):
        raise PolicyError(f"{path}: two policies are named {twice}")
    return Rules(tuple(found))


def _found(path: Path) -> list[Policy]:
    files = (
        sorted(one for one in path.glob("*.y*ml") if not one.name.endswith(".test.yaml")) if path.is_dir() else [path]
    )
    return [policy for one in files for policy in _policies(one)]


def _policies(file: Path) -> list[Policy]:
    try:
        documents = [one for one in load_all(file.read_text("utf-8")) if one is not None]
        return [TrainingPolicy.model_validate(one).resolved() for one in documents]
    except OSError as error:
        raise PolicyError(f"{file}: {error.strerror or 'cannot be read'}") from None
    except UnicodeDecodeError as error:
        raise PolicyError(f"{file}: not UTF-8 text (byte {error.start})") from None
    except YamlError as error:
        raise PolicyError(f"{file}: {error}") from None
    except ValidationError as error:
        raise PolicyError(f"{file}: {'; '.join(faults(error))}") from None
