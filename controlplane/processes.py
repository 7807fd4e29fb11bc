"""Child processes that never outlive this one."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from controlplane.build import ControlPlaneError

_TAIL_LINES = 15
_POLL_S = 0.05
# Is told the process groups that run now, a line for each change, and kills those of the last line when its input
# ends, which happens whichever way this process goes. (Linux' PDEATHSIG follows the thread that started a child.)
_REAPER = 'while read -r line; do groups=$line; done; [ -z "$groups" ] || kill -s KILL -- $groups'


class ProcessError(ControlPlaneError):
    """A process ended, or was not ready in time; the message ends with the tail of its log."""


class Processes:
    """Named processes, each the leader of its own group, with a log `NAME.log` in `log_dir`."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._reaper = subprocess.Popen(["sh", "-c", _REAPER], stdin=subprocess.PIPE, start_new_session=True)

    def start(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        """Starts it with these environment variables besides ours.

        Raises ProcessError where one of that name has been started and not stopped.
        """
        if name in self._running:
            raise ProcessError(f"{name} has been started already")
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | (environment or {}),
            )
        self._tell_reaper()

    def wait(self, name: str, ready: Callable[[], bool], *, timeout_s: float = 60) -> None:
        """Polls `ready`. Raises ProcessError when the process has ended or `timeout_s` have passed."""
        deadline = time.monotonic() + timeout_s
        while True:
            code = self._running[name].poll()
            if code is not None:
                raise ProcessError(f"{name} ended with code {code}; {self._tail(name)}")
            if ready():
                return
            if time.monotonic() > deadline:
                raise ProcessError(f"{name} was not ready within {timeout_s:.0f} s; {self._tail(name)}")
            time.sleep(_POLL_S)

    def pid(self, name: str) -> int:
        """Of a process that has been started and not stopped."""
        return self._running[name].pid

    def stop(self, name: str, *, grace_s: float) -> None:
        """Asks the process to end, then kills its group once `grace_s` seconds have passed."""
        process = self._running.pop(name)
        if grace_s > 0:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(grace_s)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._tell_reaper()

    def close(self) -> None:
        """Kills what still runs."""
        for name in list(self._running):
            self.stop(name, grace_s=0)
        self._reaper.communicate()

    def log(self, name: str) -> Path:
        return self._log_dir / f"{name}.log"

    def _tail(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        return "\n".join([f"the end of {self.log(name)}:", *lines])

    def _tell_reaper(self) -> None:
        assert self._reaper.stdin is not None
        groups = " ".join(str(-process.pid) for process in self._running.values())
        self._reaper.stdin.write(f"{groups}\n".encode())
        self._reaper.stdin.flush()
