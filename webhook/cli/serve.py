"""`samestep serve`: the webhook itself, in front of a cluster or of a fleet out of files."""

import asyncio
from pathlib import Path

import click

from webhook.cli.options import accelerators_from, files_from, policies_option
from webhook.cli.settings import SETTINGS
from webhook.cli.surroundings import Offline, offline
from webhook.model.policy import Policy
from webhook.model.profile import NO_PROFILES
from webhook.policy.common import common

_FILE = click.Path(path_type=Path)
_PORT = click.IntRange(0, 65535)


@click.command(context_settings=SETTINGS)
@click.option("--host", default="", help="Address to listen on.  [default: all interfaces]")
@click.option("--port", type=_PORT, default=8443, show_default=True, help="Port for the API server (HTTPS).")
@click.option("--probe-port", type=_PORT, default=8080, show_default=True, help="Port for probes (HTTP).")
@click.option("--metrics-port", type=_PORT, default=9090, show_default=True, help="Port for metrics (HTTP).")
@click.option("--cert", type=_FILE, help="Serving certificate, PEM; followed as it is replaced.")
@click.option("--key", type=_FILE, help="Its key.")
@click.option("--ca-out", type=_FILE, help="Without --cert: where to write the CA of the certificate that is made.")
@click.option(
    "--own-certificates",
    is_flag=True,
    help="Make certificates, keep them in a Secret that replicas share, and keep the webhook configurations right.",
)
@click.option("--client-ca", type=_FILE, help="Serve only who shows a certificate of these authorities, PEM; followed.")
@click.option(
    "--client-name", "client_names", multiple=True, help="With --client-ca: only who is called this. Repeatable."
)
@click.option("--kubeconfig", type=_FILE, help="Which kubeconfig to use.  [default: the pod's service account]")
@click.option("--context", help="Which context of it.")
@click.option(
    "--fleet",
    "files",
    type=_FILE,
    multiple=True,
    help="Nodes from files instead of a cluster, as `samestep fleet` takes them; TrainingProfiles beside them count. "
    "Repeatable.",
)
@policies_option("Directory or file with TrainingPolicies, pools, exceptions and accelerators; followed as it changes.")
@click.option(
    "--observe/--no-observe",
    default=True,
    help="Learn from runs: write TrainingProfiles, where the cluster has them.  [default: observe]",
)
@click.option("--prometheus", help="URL of the Prometheus that knows what devices hold; without it, only ends count.")
@click.option("--prometheus-token-file", type=_FILE, help="File with the bearer token for it; read for each question.")
@click.option("--prometheus-ca-file", type=_FILE, help="Authorities of its certificate, PEM.  [default: the system's]")
@click.option(
    "--lame-duck",
    type=click.FloatRange(0),
    help="Seconds to serve on after SIGTERM, while unready.  [default: 10; 0 with --fleet]",
)
@click.option("--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.pass_context
def serve(
    ctx: click.Context,
    host: str,
    port: int,
    probe_port: int,
    metrics_port: int,
    cert: Path | None,
    key: Path | None,
    ca_out: Path | None,
    client_ca: Path | None,
    client_names: tuple[str, ...],
    kubeconfig: Path | None,
    context: str | None,
    files: tuple[Path, ...],
    policies: Path | None,
    observe: bool,  # noqa: FBT001 - click passes it by name
    prometheus: str | None,
    prometheus_token_file: Path | None,
    prometheus_ca_file: Path | None,
    lame_duck: float | None,
    log_format: str,
    log_level: str,
    *,
    own_certificates: bool,
) -> None:
    """Run the admission webhook."""
    if (cert is None) != (key is None):
        raise click.UsageError("--cert and --key go together")
    if cert is not None and ca_out is not None:
        raise click.UsageError("--ca-out goes with a certificate that is made, not with --cert")
    if own_certificates and (cert is not None or ca_out is not None or files):
        raise click.UsageError("--own-certificates goes with neither --cert nor --ca-out nor --fleet")
    if client_names and client_ca is None:
        raise click.UsageError("--client-name goes with --client-ca")
    if files and (kubeconfig is not None or context is not None):
        raise click.UsageError("--fleet takes the place of a cluster")
    if files and prometheus is not None:
        raise click.UsageError("--prometheus goes with a cluster, not with --fleet")
    loaded = files_from(policies)
    # kopf and the clients take most of a second to import; the other commands do without them.
    from webhook.cli.monitoring import endpoint
    from webhook.cluster.access import Access, AccessError
    from webhook.server.listener import ListenError
    from webhook.server.logs import configure_logs
    from webhook.server.run import Settings, run
    from webhook.server.tls import CertificateError

    def read(labels: tuple[str, ...]) -> Offline:
        return offline(files, accelerators_from(policies), model_labels=labels)

    known = None
    if files:
        known = read(common(loaded.rules, Policy()).model_labels)
        for problem in known.problems:
            click.echo(f"unreadable: {problem}", err=True)
        if known.problems:
            ctx.exit(2)
    configure_logs(log_format, log_level)
    settings = Settings(
        host=host,
        port=port,
        probe_port=probe_port,
        metrics_port=metrics_port,
        lame_duck_s=lame_duck if lame_duck is not None else 0 if files else 10,
        cert=cert,
        key=key,
        ca_out=ca_out,
        own_certificates=own_certificates,
        client_ca=client_ca,
        client_names=frozenset(client_names),
        access=Access(kubeconfig, context),
        fleet=known.fleet if known else None,
        profiles=known.profiles if known else NO_PROFILES,
        read_fleet=lambda labels: read(labels).fleet,
        policies=policies,
        loaded=loaded,
        observe=observe,
        prometheus=endpoint(prometheus, prometheus_token_file, prometheus_ca_file),
    )
    try:
        asyncio.run(run(settings))
    except (AccessError, CertificateError, ListenError) as error:
        click.echo(f"Error: {error}", err=True)
        ctx.exit(2)
