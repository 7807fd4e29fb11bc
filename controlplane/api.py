"""The little of the Kubernetes API that is quicker without kubectl: JSON over kept-alive HTTPS connections."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import urllib3

from controlplane.build import ControlPlaneError

CONCURRENCY = 16


class ApiError(ControlPlaneError):
    """The API server answered with an HTTP error; `status` is its code, the message its body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """One user's view of the API server. Usable from many threads."""

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._pool = urllib3.PoolManager(ca_certs=str(ca_file), maxsize=CONCURRENCY, retries=False, timeout=60)

    def request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """The decoded answer. Raises ApiError for a status of 400 and above, urllib3's HTTPError without an answer."""
        answer = self._pool.request(method, self._url + path, json=body, headers=self._headers)
        if answer.status >= 400:
            raise ApiError(answer.status, answer.data.decode(errors="replace"))
        content: dict[str, Any] = answer.json()
        return content

    def get(self, path: str) -> dict[str, Any]:
        return self.request("GET", path)

    def create(self, path: str, objects: Iterable[dict[str, Any]]) -> None:
        """Creates the objects, all of the kind whose collection is at `path`, several at a time."""
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(lambda each: self.request("POST", path, each), objects))

    def delete(self, path: str, *, grace_period_seconds: int | None = None) -> None:
        """Deletes the object or the whole collection at `path`."""
        self.request("DELETE", path, {"gracePeriodSeconds": grace_period_seconds})
