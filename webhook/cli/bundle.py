"""`samestep bundle`: what a maintainer needs to make a decision again, and no secrets."""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

import click

from webhook.cli import bundling
from webhook.cli.bundling import Subject, opened, told, written
from webhook.cli.documents import parse_all
from webhook.cli.living import living
from webhook.cli.options import files_option, policies_option
from webhook.cli.reading import Explained, Reader
from webhook.cli.requests import request_of
from webhook.cli.seen import Seen, cluster_options, seen_in, seen_live
from webhook.cli.settings import SETTINGS
from webhook.cli.worlds import fleet_option
from webhook.intake.admission import NotAReview

_ASKED = ("/metrics", "/readyz?verbose")
_WAITS_S = 5


class NoAnswerError(Exception):
    """A replica that says nothing; the message says why."""


@click.command(context_settings=SETTINGS)
@click.argument("named", required=False, metavar="[TYPE/NAME]")
@files_option("Instead of a job that is there: the one manifest, or AdmissionReview, to be decided.")
@fleet_option("A dump instead of a cluster, as `samestep audit -f` takes it. Repeatable.")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of TYPE/NAME.")
@cluster_options
@policies_option()
@click.option(
    "--url", "urls", multiple=True, help="Metrics port of a replica, http://HOST:PORT: what it says. Repeatable."
)
@click.option(
    "-w",
    "--write",
    "path",
    type=click.Path(path_type=Path),
    default=Path("samestep-bundle.tar.gz"),
    show_default=True,
    help="Where to: a .tar.gz, or a folder.",
)
@click.pass_context
def bundle(
    ctx: click.Context,
    named: str | None,
    files: tuple[Path, ...],
    fleets: tuple[Path, ...],
    namespace: str,
    kubeconfig: Path | None,
    context: str | None,
    policies: Path | None,
    urls: tuple[str, ...],
    path: Path,
) -> None:
    """Write a debug bundle: one decision with all that it looked up. `samestep explain --bundle` makes it again.

    It holds the job, nodes, pods, queues, runtimes, namespaces and policies as far as decisions look at them. Values of
    environment variables are left out, but for those that are read; so is what looks like a secret. Look through it
    before you send it: nothing can tell every secret from a word.

    Exit status: 0 it is written, and the decision comes out the same; 1 it is written, and does not; 2 something could
    not be read or written.
    """
    if (named is None) == (not files):
        raise click.UsageError("TYPE/NAME of a job that is there, or -f with a manifest: one of them")
    if fleets and (kubeconfig or context):
        raise click.UsageError("--fleet, or a cluster: one of them")
    seen = seen_in(fleets, [], policies) if fleets else seen_live(kubeconfig, context, policies)
    subject, explained = _decided(seen, named, files, namespace)
    beside, silent = _of_replicas(urls)
    made = bundling.bundle(seen, subject, explained.review, beside)
    try:
        written(made, path)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or 'cannot be written'}") from None
    for problem in (*seen.problems, *silent):
        click.echo(f"unreadable: {problem}", err=True)
    same = _again(path) == (told(explained.review) if explained.review else None)
    click.echo(f"{path}: {len(made)} files; the decision made from it {'is the same' if same else 'is another one'}")
    ctx.exit(2 if seen.problems or silent else 0 if same else 1)


def _decided(seen: Seen, named: str | None, files: tuple[Path, ...], namespace: str) -> tuple[Subject, Explained]:
    now = time.time()
    if named is not None:
        one = living(seen, named, namespace, now)
        return Subject(now, one.owned), one.explained
    documents, problems = parse_all(files)
    if problems or len(documents) != 1:
        raise click.UsageError(str(problems[0]) if problems else "-f: expected one manifest")
    try:
        request = request_of(documents[0])
    except NotAReview as error:
        raise click.UsageError(f"{documents[0].source}: {error}") from None
    return Subject(now, manifest=documents[0]), Reader(seen.world, decided=True).explained(request)


def _again(path: Path) -> object:
    """What a replay of what was written comes to."""
    found = opened(path)
    if found.manifest is None:
        explained = living(found.seen, found.named, found.namespace, found.now).explained
    else:
        explained = Reader(found.seen.world, decided=True).explained(request_of(found.manifest))
    return told(explained.review) if explained.review else None


def _of_replicas(urls: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """What they say, by name of the file, and who did not answer."""
    said: dict[str, str] = {}
    silent: list[str] = []
    for number, url in enumerate(urls):
        for path in _ASKED:
            name = f"replicas/{number}/{path.strip('/').partition('?')[0]}.txt"
            try:
                said[name] = asyncio.run(_got(f"{url.rstrip('/')}{path}"))
            except NoAnswerError as error:
                said[name] = f"no answer: {error}\n"
                silent.append(f"{url}{path}: {error}")
    return said, silent


async def _got(url: str) -> str:
    import aiohttp  # half a second, which commands that read files do without

    from webhook.cluster.access import reason

    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_WAITS_S)) as session,
            session.get(url) as answer,
        ):
            return await answer.text()
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
        raise NoAnswerError("not a URL, as http://localhost:9090 is") from None
    except (aiohttp.ClientError, ValueError, TimeoutError, OSError) as error:
        raise NoAnswerError(reason(error)) from None
