"""Somebody who creates jobs all the time."""

import threading
from typing import Self

from controlplane.api import ApiError
from controlplane.rig import ControlPlane
from tests.samples import job


class Creating:
    """Creates jobs, dry, one after the other, in a thread of its own."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self.refused: list[str] = []
        self.created = 0
        self._api = control_plane.api
        self._path = f"/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        body = job()
        body["metadata"] = {"generateName": "any-"}
        while not self._stop.wait(0.02):
            try:
                self._api.request("POST", self._path, body)
                self.created += 1
            except ApiError as error:
                self.refused.append(str(error))
