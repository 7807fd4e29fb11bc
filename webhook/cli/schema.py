"""`samestep schema`: what policies may say, for editors and for API servers."""

import click

from webhook.cli.settings import SETTINGS
from webhook.policy.definitions import MODELS, definition_of, schema_of


@click.command(context_settings=SETTINGS)
@click.argument("kind", type=click.Choice(list(MODELS), case_sensitive=False), required=False, metavar="[KIND]")
@click.option("--crd", is_flag=True, help="The CustomResourceDefinition instead, for kubectl apply.")
def schema(kind: str | None, crd: bool) -> None:  # noqa: FBT001 - click passes it by name
    """Print the JSON Schema of a KIND of ours; without one, of all of them together.

    Kinds are Accelerator, AcceleratorPool, TrainingPolicy, TrainingPolicyException, TrainingProfile and PolicyTest.
    Editors take a schema: `# yaml-language-server: $schema=FILE` at the top of a YAML file.
    """
    if not crd:
        click.echo(schema_of(kind), nl=False)
        return
    found = [text for name in ([kind] if kind else MODELS) if (text := definition_of(name)) is not None]
    if not found:
        raise click.UsageError(f"{kind} is a file and no custom resource: it has no CustomResourceDefinition")
    click.echo("---\n".join(found), nl=False)
