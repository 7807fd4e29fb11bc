"""`python -m docs.generate` writes what comes from the code: reference pages, CRDs, webhook entries that fail closed,
JSON Schemas, examples. `--check` says which have drifted."""

import difflib
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from docs.examples import example_files
from docs.pages import pages
from webhook.cluster.registration import fail_closed
from webhook.policy.definitions import definitions, schemas

REFERENCE = Path(__file__).parent / "reference"
EXAMPLES = Path(__file__).parents[1] / "webhook" / "answer" / "examples"
MANIFESTS = Path(__file__).parents[1] / "manifests"
DEFINITIONS = MANIFESTS / "base" / "crds"
FAIL_CLOSED = MANIFESTS / "components" / "fail-closed" / "webhooks"
SCHEMAS = Path(__file__).parents[1] / "schemas"


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; fail, with a diff, where a page is not what it would be.")
@click.pass_context
def main(ctx: click.Context, check: bool) -> None:  # noqa: FBT001 (click passes it by name)
    """Write the generated pages of docs/reference, what is generated of manifests, schemas, and the examples that
    `samestep explain` shows."""
    made = {
        REFERENCE: pages(),
        DEFINITIONS: definitions(),
        FAIL_CLOSED: {"validating.yaml": fail_closed()},
        SCHEMAS: schemas(),
        EXAMPLES: example_files(),
    }
    if check:
        found = [line for root, wanted in made.items() for line in drift(wanted, root)]
        if found:
            click.echo("\n".join([*found, "these files are not what the code says: run `make docs`"]), err=True)
            ctx.exit(1)
        return
    for root, wanted in made.items():
        for path in leftovers(wanted, root):
            path.unlink()
        for name, text in wanted.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


def drift(wanted: Mapping[str, str], root: Path) -> list[str]:
    """Lines of a unified diff from the files below `root` to the wanted ones; none where they are the same."""
    lines: list[str] = []
    for name, text in wanted.items():
        path = root / name
        here = path.read_text("utf-8") if path.exists() else ""
        if here != text:
            lines += difflib.unified_diff(
                here.splitlines(), text.splitlines(), f"{root.name}/{name}", "generated from the code", lineterm=""
            )
    return lines + [f"{root.name}/{path.relative_to(root)}: no code has it" for path in leftovers(wanted, root)]


def leftovers(wanted: Mapping[str, str], root: Path) -> list[Path]:
    """Files of codes and kinds that are no more."""
    found = (path for glob in ("codes/*", "codes.ko/*", "kinds/*", "*.yaml", "*.json") for path in root.glob(glob))
    return sorted(path for path in found if str(path.relative_to(root)) not in wanted)


if __name__ == "__main__":
    sys.exit(main())
