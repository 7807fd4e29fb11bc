"""`samestep render`: an installation as plain YAML, for those without kustomize."""

import click
import yaml

from webhook.cli.overlays import Object, overlays, rendered
from webhook.cli.settings import SETTINGS


@click.command(context_settings=SETTINGS, epilog=f"Overlays: {', '.join(overlays())}.")
@click.argument("overlay", metavar="OVERLAY", type=click.Choice(list(overlays())))
@click.option("--image", help="Image of the webhook.  [default: that of the overlay]")
def render(overlay: str, image: str | None) -> None:
    """Print the manifests of an installation, for kubectl apply.

    They are what kubectl kustomize makes of manifests/overlays/OVERLAY.
    """
    objects = rendered(overlays()[overlay])
    if image is not None:
        _give(image, objects)
    click.echo(yaml.dump_all(objects, Dumper=_Plain, sort_keys=False, width=1000), nl=False)


def _give(image: str, objects: list[Object]) -> None:
    for one in objects:
        if one["kind"] == "Deployment":
            for container in one["spec"]["template"]["spec"]["containers"]:
                container["image"] = image


class _Plain(yaml.CSafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True
