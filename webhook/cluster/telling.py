"""Telling of what goes wrong again and again: once, until it is something else."""

import logging
from collections.abc import Callable


class Telling:
    """Called with a problem whenever there is one, and with an empty text when there is none: each that is not the one
    before is logged as a warning. `trouble` hears every change, also that there is none any more. `problem` is the
    present one."""

    def __init__(self, log: logging.Logger, trouble: Callable[[str], None] = lambda _: None) -> None:
        self.problem = ""
        self._log = log
        self._trouble = trouble

    def __call__(self, problem: str) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        self._trouble(problem)
        if problem:
            self._log.warning(problem)
