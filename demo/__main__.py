"""`python -m demo`: the real HTTPS webhook on a made-up fleet, asked as an API server would ask it.

For every job in examples/ it prints what its submitter would see.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import urllib3
import yaml

from controlplane.build import ControlPlaneError
from controlplane.processes import Processes
from demo.screen import Screen
from demo.serving import ROOT, start_webhook
from demo.submission import Submission, Submitter

FLEET = "demo/fleet.yaml"


def main() -> int:
    screen = Screen()
    try:
        with (
            TemporaryDirectory(prefix="samestep-demo-") as folder,
            closing(Processes(Path(folder))) as children,
        ):
            _demo(screen, children, Path(folder))
            children.stop("samestep", grace_s=5)
    except ControlPlaneError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except urllib3.exceptions.HTTPError as error:
        print(f"demo: the webhook did not answer: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _demo(screen: Screen, children: Processes, folder: Path) -> None:
    screen.command(f"samestep fleet -f {FLEET}")
    screen.output(_samestep("fleet", "-f", FLEET))
    screen.command(f"samestep serve --fleet {FLEET} &")
    submitter = Submitter(start_webhook(children, folder, f"--fleet={ROOT / FLEET}"))
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        shown, text = f"examples/{path.name}", path.read_text("utf-8")
        screen.story(line.removeprefix("# ") for line in text.splitlines() if line.startswith("#"))
        screen.command(f"kubectl apply -f {shown}")
        for obj in yaml.safe_load_all(text):
            submission = submitter.create(obj)
            screen.output("\n".join(submission.output(shown)))
            screen.added(_added(submission))


def _samestep(*arguments: str) -> str:
    command = [sys.executable, "-m", "webhook.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def _added(submission: Submission) -> Iterator[str]:
    """What the webhook put into the pods' templates, as YAML; its record in the annotations is left out."""
    for operation in submission.operations:
        field, _, key = operation["path"].strip("/").rpartition("/")
        if not field.startswith("metadata"):
            nested = yaml.safe_dump({key.replace("~1", "/"): operation["value"]}, width=1000)
            yield f"{field.replace('/', '.')}:"
            yield from (f"  {line}" for line in nested.splitlines())


if __name__ == "__main__":
    sys.exit(main())
