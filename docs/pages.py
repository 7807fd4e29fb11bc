"""The reference pages that come from the code.

They hold what the code says, in the order in which it says it: no time, no version, no machine.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import click
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel

from docs.dependencies import dependencies_page
from docs.examples import examples_in
from docs.kinds import kind_pages
from docs.markdown import code, page, table
from webhook.answer.code_page import code_page
from webhook.answer.events import LONGEST, WARNINGS, Reason
from webhook.answer.texts import texts
from webhook.catalog.accelerators import Figure, Product, Vendor, accelerators
from webhook.catalog.additions import Accelerator
from webhook.catalog.codes import codes
from webhook.cli import main as program
from webhook.cluster.denials import MOST as MOST_DENIED
from webhook.cluster.events import Outcome
from webhook.cluster.handlers import STAGES
from webhook.cluster.keeper import Keeper
from webhook.cluster.observer import Tally
from webhook.cluster.world import Worlds
from webhook.fleet.build import build_fleet
from webhook.fleet.nodes import read_node
from webhook.fleet.remembered import ANNOTATION
from webhook.fleet.signs import TWO_MODELS_KEY
from webhook.model.finding import Finding
from webhook.model.fleet import Model
from webhook.model.policy import Language, Policy
from webhook.model.request import Kind, Request
from webhook.model.verdict import Decision, ExceptionUse, Straggler, Verdict
from webhook.model.workload import Workload
from webhook.model.world import World
from webhook.policy.accelerator_pool import AcceleratorPool
from webhook.policy.exception import TrainingPolicyException
from webhook.policy.parts import Selector
from webhook.policy.policy_test import PolicyTest
from webhook.policy.training_policy import TrainingPolicy
from webhook.policy.training_profile import TrainingProfile
from webhook.review import review
from webhook.server.certificates import self_signed
from webhook.server.metrics import Metrics
from webhook.server.tls import ServingCertificate

_ALERTS = Path(__file__).parents[1] / "manifests" / "components" / "monitoring" / "rules.yaml"
_COLUMNS = 100
_LONGEST_PATTERN = 60


def pages() -> dict[str, str]:
    """Every generated page by its path below docs/reference."""
    return {
        "accelerators.md": _accelerators(),
        "alerts.md": _alerts(),
        "cli.md": _cli(),
        **_codes(Language.EN),
        **_codes(Language.KO),
        "dependencies.md": dependencies_page(),
        "events.md": _events(),
        **kind_pages(),
        "launchers.md": _launchers(),
        "metrics.md": _metrics(),
        "nodes.md": _nodes(),
        "policy.md": _policy(),
    }


_CODES: Final = {Language.EN: "codes", Language.KO: "codes.ko"}
_ABOUT_CODES: Final = {
    Language.EN: (
        "# Finding codes",
        (
            "A code is stable and never reused. The action is what it does under a policy whose `validationActions` is "
            "`Deny`: Deny refuses the job, Warn tells its submitter, Info is for JSON and audit annotations. "
            "`samestep explain CODE` prints the same pages."
        ),
        ("code", "action", "what it says"),
    ),
    Language.KO: (
        "# Finding code 목록",
        (
            "code는 바뀌지 않으며 다시 쓰이지 않습니다. 동작은 `validationActions`가 `Deny`인 정책 기준입니다. "
            "Deny는 job을 거부하고, Warn은 제출자에게 알리며, Info는 JSON과 audit annotation에만 남습니다. "
            "`samestep explain CODE --lang ko`로 같은 내용을 볼 수 있습니다."
        ),
        ("code", "동작", "내용"),
    ),
}
_LANGUAGES: Final = {Language.EN: "English", Language.KO: "한국어"}


def _codes(language: Language) -> dict[str, str]:
    """The list of codes and a page for each, in one language, with a link to the same page in the others."""
    folder, (title, about, header) = _CODES[language], _ABOUT_CODES[language]
    source, shown, known = f"webhook/catalog/{folder}.yaml", examples_in(language), codes(language)
    rows = ((f"[{one.code}]({folder}/{one.code}.md)", one.action, one.title) for one in known.values())
    return {
        f"{folder}.md": page(source, title, _elsewhere(language, ""), about, table(header, rows)),
        **{
            f"{folder}/{code}.md": page(
                source, code_page(one, shown.get(code, ""), language), _elsewhere(language, f"../|/{code}")
            )
            for code, one in known.items()
        },
    }


def _elsewhere(language: Language, path: str) -> str:
    """Links to this page in the other languages; "|" in the path stands for their folder."""
    others = ((name, _CODES[other]) for other, name in _LANGUAGES.items() if other is not language)
    return " ".join(f"[{name}]({path.replace('|', folder) or folder}.md)" for name, folder in others)


def _cli() -> str:
    root = program.make_context("samestep", [], resilient_parsing=True)
    contexts = [root, *(click.Context(command, root, name) for name, command in program.commands.items())]
    return page(
        "webhook/cli",
        "# Command line",
        "Exit status of every command: 0 it worked, 2 wrong usage, input that could not be read or a cluster that does "
        "not answer; 1 where "
        "`samestep check` denies a job, `samestep audit` finds one, `samestep test` is not as expected, "
        "`samestep lint` finds an error, or what `samestep bundle` wrote is decided otherwise than the live job. "
        "As a plugin of kubectl the program is `kubectl samestep`.",
        *(f"## {ctx.command_path}\n\n```text\n{_help(ctx)}\n```" for ctx in contexts),
    )


def _help(ctx: click.Context) -> str:
    ctx.terminal_width = _COLUMNS
    return "\n".join(line.rstrip() for line in ctx.get_help().splitlines())


def _policy() -> str:
    return page(
        "webhook/policy",
        "# Policies, pools, exceptions, profiles and tests",
        "Group and version are `samestep.dev/v1alpha1`. A field that is not listed here is an error. The same "
        "manifests are files and, but for `PolicyTest`, custom resources: their definitions are in "
        "[manifests/base/crds](../../manifests/base/crds). Editors take the JSON Schemas in [schemas](../../schemas) "
        "by a comment in the first line: `# yaml-language-server: $schema=../schemas/trainingpolicy_v1alpha1.json`.",
        _kind(
            TrainingPolicy,
            "Files, or a directory of files, are what `--policies` of the commands takes; `samestep serve` follows "
            "them, and the objects of a cluster ([how](../how-to/change-policies-live.md)). Without a policy the "
            "defaults below apply; "
            "[policies/one-model-per-job.yaml](../../policies/one-model-per-job.yaml) is the same written out. "
            "[How to teach Samestep your own kind](../how-to/teach-a-kind.md) shows an entry of `kinds`.",
        ),
        _kind(
            AcceleratorPool,
            "Custom resources, and files beside policies. "
            "[How to set up a pool for each vendor](../how-to/pools-per-vendor.md) shows some.",
        ),
        _kind(
            TrainingPolicyException,
            "Namespaced. Custom resources, and files beside policies. A policy takes none unless it says "
            "`exceptions: Allowed`.",
        ),
        _kind(
            Accelerator,
            "Custom resources, and files with `--fleet`. [The catalog](accelerators.md) is what they add to.",
        ),
        _kind(
            TrainingProfile,
            "Namespaced. Custom resources, and files with `--fleet`. [How to read a "
            "profile](../how-to/read-a-profile.md), and [what is kept of whom](../explanation/privacy.md).",
        ),
        _kind(
            PolicyTest,
            "A file, `*.test.yaml`, beside the policies. Paths start at its folder. "
            "[How to test policies](../how-to/test-policies.md) shows how they are run.",
        ),
    )


def _kind(model: type[BaseModel], told: str) -> str:
    schema = model.model_json_schema()
    spec = _resolved(schema["properties"]["spec"], schema)
    rows = table(("field", "values", "default", "meaning"), _fields(spec, schema, "spec."))
    return f"## {model.__name__}\n\n{model.__doc__}\n\n{told}\n\n{rows}"


def _fields(part: Mapping[str, Any], schema: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, ...]]:
    for name, written in part["properties"].items():
        one = _resolved(written, schema)
        path = f"{prefix}{name}"
        if "properties" in one and one["title"] != Selector.__name__:
            yield from _fields(one, schema, f"{path}.")
            continue
        default = _written(written["default"]) if _is_said(written.get("default")) else ""
        yield f"`{path}`", _values(one, schema), default, written.get("description", "")
        item = _resolved(one.get("items", {}), schema)
        # The catalog of kinds says what an entry of it holds.
        if "properties" in item and item["title"] != Workload.__name__:
            yield from _fields(item, schema, f"{path}[].")


def _resolved(written: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """What it stands for: a definition by its reference, or the one that is not null."""
    some = next((one for one in written.get("anyOf", ()) if one.get("type") != "null"), written)
    name = some.get("$ref", "").rpartition("/")[2]
    found: Mapping[str, Any] = schema["$defs"][name] if name else some
    return found


def _values(one: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "items" in one:
        return f"list of {_values(_resolved(one['items'], schema), schema)}"
    if "properties" in one:
        return "label selector" if one["title"] == Selector.__name__ else "entries"
    if isinstance(one.get("additionalProperties"), dict):
        return f"map of text to {_values(one['additionalProperties'], schema)}"
    if "const" in one or "enum" in one:
        values = one.get("enum", [one.get("const")])
        return "[code](codes.md)" if values == list(codes()) else code(values)
    if one.get("format") == "date-time":
        return "time, as in `2027-01-31T00:00:00Z`"
    pattern = one.get("pattern", "")
    if pattern and len(pattern) < _LONGEST_PATTERN and "](" not in pattern:  # which a reader would take for a link
        return f"text matching `{pattern}`"
    types = {"boolean": "`true`, `false`", "integer": "whole number", "string": "text", "object": "entries"}
    return types[one["type"]]


def _is_said(default: object) -> bool:
    return default not in (None, "") and default != Selector().model_dump(mode="json", by_alias=True)


def _written(value: object) -> str:
    return f"`{json.dumps(value) if not isinstance(value, str) else value}`"


def _launchers() -> str:
    # As written: once loaded, the catalog holds look-ups and no longer the lists.
    read = _catalog("launchers.yaml")
    wrappers = (f"{name} {one.get('subcommand', '')}".strip() for one in read["wrappers"] for name in one["programs"])
    return page(
        "webhook/catalog/launchers.yaml",
        "# Launchers and flags",
        "What is read from a container's command line and environment. `Both` means that `-` and `_` inside a long "
        "flag are the same.",
        "## Launchers\n\nA launcher that reaches over several pods couples their ranks.",
        table(
            ("launcher", "programs and modules", "nodes", "processes per node", "processes in all", "spelling"),
            (
                (
                    one["name"],
                    code([*one["programs"], *(f"-m {module}" for module in one.get("modules", ()))]),
                    *_lists(one, "nodes", "perNode", "total"),
                    one.get("spelling", "Exact"),
                )
                for one in read["launchers"]
            ),
        ),
        f"## Wrappers\n\nPrograms that run another program are looked through: {code(wrappers)}.",
        "## Batch flags\n\nA name that ends in `=` is `key=value` without dashes. Where a family names programs, its "
        "flags count for these only. Uncertain: some programs mean the batch of all devices by it.",
        table(
            ("family", "programs", "micro-batch", "accumulation", "global batch", "certain", "spelling"),
            (
                (
                    one["name"],
                    *_lists(one, "programs", "microBatch", "accumulation", "globalBatch"),
                    "yes" if one.get("certain", True) else "no",
                    one.get("spelling", "Exact"),
                )
                for one in read["trainers"]
            ),
        ),
        "## What a suggestion may tell\n\nFlags, and keys of files, that make a run need less memory: of each remedy "
        "the one that does it, and those that it needs beside it. Each gets another word in the place of the one that "
        "stands there now; without one, the flag is put in. A trainer that extends another has its remedies too.",
        table(
            ("of", "remedy", "flag or key", "now", "then"),
            _remedies([*read["launchers"], *read["trainers"], *_catalog("configs.yaml")]),
        ),
        "## Environment variables\n\nBatch:",
        _variables(read["environment"]),
        "Rendezvous:",
        _variables(read["rendezvous"]),
        "## Sources",
        "\n".join(f"- {one['name']}: {one['source']}" for one in [*read["launchers"], *read["trainers"]]),
    )


def _remedies(entries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for one in entries:
        for remedy, turns in one.get("remedies", {}).items():
            for flag, words in turns.items():
                for now, then in words.items():
                    # A switch has no value.
                    written = [word for word in ([then] if isinstance(then, str) else then) if word]
                    yield one["name"], remedy, code([flag]), code([now] if now else ()), code(written)


def _lists(one: Mapping[str, Any], *names: str) -> Iterator[str]:
    return (code(one.get(name, ())) for name in names)


def _variables(named: Mapping[str, Any]) -> str:
    rows = ((what, code(names)) for what, names in named.items() if isinstance(names, list))
    return table(("meaning", "variables"), rows)


def _accelerators() -> str:
    products = accelerators().products
    return page(
        "webhook/catalog/accelerators.yaml",
        "# Accelerators",
        "What is known of each product. Nodes say what they hold: a memory here counts only where a node, or its "
        "ResourceSlices, say nothing ([what is read of nodes](nodes.md)). Compute is dense BF16, or FP16 (marked) for "
        "products without BF16. A figure on which sources disagree is marked `~` and tells what others say; without "
        "a better one there is no figure. `samestep catalog` prints the same. An Accelerator object "
        "([how to label nodes](../how-to/label-nodes.md)) adds a product or overrides a figure.",
        *(
            f"## {vendor.name}\n\nStack: {vendor.stack}.\n\n"
            + table(
                ("product", "also", "in messages", "memory MiB", "TFLOPS", "GB/s", "interconnect", "sources"),
                (_product(one) for one in products if one.vendor == vendor.name),
            )
            for vendor in accelerators().vendors
        ),
        "## Sources",
        "\n".join(f"- {name}: {told}" for name, told in accelerators().sources.items()),
    )


def _product(one: Product) -> tuple[object, ...]:
    sources = [*one.source, *one.aliases.values(), *(source for each in one.figures.values() for source in each.source)]
    compute = _figure(one.bf16) or (f"{_figure(one.fp16)} (FP16)" if one.fp16 else "")
    memory = "unified" if one.unified else "display card" if one.display else _figure(one.memory)
    link = one.interconnect.value if one.interconnect else ""
    name = accelerators().short_name(one.product)
    named = ", ".join(dict.fromkeys([*sources, *(one.interconnect.source if one.interconnect else ())]))
    return f"`{one.product}`", code(one.aliases), name, memory, compute, _figure(one.bandwidth), link, named


def _figure(one: Figure | None) -> str:
    if one is None:
        return ""
    said = ", ".join(f"{source}: {value:.10g}" for source, value in one.disagree.items())
    return f"~ {f'{one.value:.10g} ' if one.value else ''}({said})" if said else f"{one.value:.10g}"


def _nodes() -> str:
    return page(
        "webhook/catalog/accelerators.yaml",
        "# What is read of nodes",
        "By vendor: which resources are devices, and which labels, annotations and ResourceSlices tell what they are. "
        "Keys count in the order given. [How to label nodes](../how-to/label-nodes.md) says what to do where none is "
        "there, [how to mend odd nodes](../how-to/mend-odd-nodes.md) what becomes of nodes that contradict themselves.",
        "The model is what the labels of the policy's `modelLabels` say, then the vendor's product label, then what "
        "lists the devices, then a cloud's label with a name that the catalog knows, then the type of the machine. "
        "Memory is what the vendor's label says, then the ResourceSlice, then [the catalog](accelerators.md); never a "
        "number in a name. One product's memory is the least over its nodes.",
        *(f"## {vendor.name}\n\n{table(('what', 'where'), _read_of(vendor))}" for vendor in accelerators().vendors),
        "## Of every node\n\n"
        + table(
            ("what", "where"),
            (
                ("devices of two models", f"`{TWO_MODELS_KEY}`: `true`, or `false` against signs that mislead"),
                ("its name, labels and uid", "`metadata`"),
                ("whether it is being deleted", "`metadata.deletionTimestamp`"),
                ("taints, and whether it is cordoned", "`spec.taints`, `spec.unschedulable`"),
                ("what pods may ask for", "`status.allocatable`, `status.capacity` of accelerators"),
                ("whether it is ready", "`status.conditions`"),
                ("since when a label may have changed", "`status.nodeInfo.bootID`"),
                ("what a snapshot remembers", f"the annotation `{ANNOTATION}`"),
            ),
        ),
    )


def _read_of(one: Vendor) -> Iterator[tuple[str, str]]:
    memory = (
        f"`{key.key}` (a bare number is {key.unit}{' of all cards' * (key.per == 'node')})" for key in one.memory_keys
    )
    slices = one.slices
    figures = f"`{slices.product}`{f', memory `{slices.memory}`' if slices.memory else ''}" if slices else ""
    rows = {
        "whole devices": code(one.resources),
        "shares, by the resource's name": code(one.share_resources),
        "a part of each device's memory": code(sorted(one.fraction_resources)),
        "product": code(one.product_keys),
        "product, by clouds": code(one.cloud_keys),
        "product, by the machine's type": ", ".join(f"`{kind}` {name}" for kind, name in one.instance_types.items()),
        "memory": ", ".join(memory),
        "devices of that product": code([one.count_key] if one.count_key else ()),
        "how often each is offered": code([one.replicas_key] if one.replicas_key else ()),
        "cards in all": code(one.card_keys),
        "one label for each value": code(f"{key}.…" for key in one.counted_keys),
        "several share a device": code([*one.share_products, *_meant(one.share_labels)]),
        "slices": code([*one.slice_products, *_meant(one.slice_labels)]),
        "half set": code(one.invalid_products),
        "annotations that list devices": code(one.registers),
        "ResourceSlices": f"driver `{slices.driver}`: product {figures}" if slices else "",
    }
    return ((what, where) for what, where in rows.items() if where)


def _meant(labels: Mapping[str, Iterable[str]]) -> Iterator[str]:
    return (f"{key}: {' | '.join(values)}" for key, values in labels.items())


def _catalog(name: str) -> Any:  # noqa: ANN401 - as it is written
    return yaml.safe_load(files("webhook.catalog").joinpath(name).read_text("utf-8"))


_EVENTS: Final = {
    Reason.PINNED: (
        "the job carries our pin, or what it got with its pool, and its selectors are what the record says",
        ("pinned", "pool"),
    ),
    Reason.WOULD_PIN: ("a policy whose action is Audit would have pinned it, had it denied", ("would_pin",)),
    Reason.WOULD_DENY: ("a policy whose action is Audit would have refused it", ("would_deny",)),
    Reason.ADMITTED_WITH_RISK: (
        "it was admitted with a warning, for which a policy of action Deny would have refused it",
        ("admitted_with_risk",),
    ),
}


def _events() -> str:
    words = texts()["events"]
    rows = [
        (code([reason]), "Warning" if reason in WARNINGS else "Normal", when, code(words[key] for key in keys))
        for reason, (when, keys) in ((one, _EVENTS[one]) for one in Reason)
    ]
    return page(
        "webhook/answer/events.py",
        "# Events",
        "`kubectl describe` shows them, and `kubectl get events -n NAMESPACE` all of a namespace. Their source is "
        "`samestep`. A dry run has none.",
        "## On a job that has been created",
        table(("reason", "type", "when", "message"), rows),
        "One replica writes them, the one that holds the Lease. It watches the jobs and reviews each new one again as "
        "it stands, at that moment: who created it is not known any more, so pools that are for groups, and conditions "
        "that ask for `request.userInfo`, count as for nobody. Where there are any, `{as_nobody}` says so: "
        f"`{words['as_nobody']}`. A job that was given such a pool shows that, and has it. Of several policies that "
        f"match, the one that steers is named. A message has at most {LONGEST} bytes; where a patch is longer, it ends "
        "with `…` (the audit annotation `would-be-patch` has more of it). A job has no second Event of the same "
        "reason, whichever replica looks.",
        "No Event is on pods and other objects that the controller of a job makes, on objects that hold jobs (a "
        "CronJob: its Jobs have theirs), nor in namespaces whose jobs are not sent to admission.",
        "## On a namespace in which jobs are denied",
        table(
            ("reason", "type", "when", "message"),
            [
                (
                    "the [code](codes.md) that denies",
                    "Warning",
                    "once a minute, where it denied there: with the number of denials and the first of them",
                    code([words["denied"]]),
                )
            ],
        ),
        f"Each replica tells of what it denied itself, of {MOST_DENIED} namespaces and codes in a minute at the most; "
        "the log has the number of denials beyond that. They are in that namespace, and `involvedObject.kind` is "
        "`Namespace`.",
        "## On policies, pools and exceptions",
        "Where one cannot be taken as it is: the reason and the message of its condition `Ready`, as "
        "[How to change policies live](../how-to/change-policies-live.md) says.",
        "## Where there are none",
        "The server needs the right to create Events and, for those on jobs, to list and watch each kind "
        "(`manifests/base/rbac.yaml`). A kind that it may not watch costs only itself, and `/readyz?verbose` on the"
        " probe "
        "port says so; one that comes later is taken up within half a minute, with what was created of it before. "
        "`samestep_events_total` counts what became of them. With `--fleet` there is no cluster to write to.",
    )


def _metrics() -> str:
    families = (one for one in text_string_to_metric_families(_scrape()) if not one.name.endswith("_created"))
    return page(
        "webhook/server/metrics.py",
        "# Metrics",
        "At `/metrics` of the port for metrics (9090), in the text format of Prometheus. No label holds the name of a "
        "job, a namespace or a user. Gauges are read at the moment of the scrape.",
        table(("metric", "type", "labels", "meaning"), map(_metric, families)),
    )


def _alerts() -> str:
    manifest = yaml.safe_load(_ALERTS.read_text("utf-8"))
    rules = [rule for group in manifest["spec"]["groups"] for rule in group["rules"]]
    return page(
        "manifests/components/monitoring/rules.yaml",
        "# Alerts",
        "Part of the overlay and of the component `monitoring`, for the operator of Prometheus; without it, "
        "[the same rules](../../manifests/components/monitoring/rules.yaml) are below `spec`. Those on "
        "`apiserver_admission_webhook_…` are silent where Prometheus does not scrape the API server: it alone knows of "
        "calls that never arrived. [Troubleshooting](../how-to/troubleshoot.md) goes on from there.",
        table(("alert", "severity", "after", "meaning"), map(_alert, rules)),
        *(f"## {rule['alert']}\n\n```promql\n{rule['expr']}\n```" for rule in rules),
    )


def _alert(rule: Mapping[str, Any]) -> tuple[str, ...]:
    told = rule["annotations"]
    summary = re.sub(r"{{ *\$labels\.(\w+) *}}", r"*\1*", told["summary"])
    summary = re.sub(r"{{ *\$value.*?}}", "*n*", summary)
    return (
        f"[{rule['alert']}](#{rule['alert'].lower()})",
        rule["labels"]["severity"],
        rule.get("for", "at once"),
        f"{summary}. {told['description']}",
    )


def _metric(family: Metric) -> tuple[str, ...]:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    labels = {label for sample in family.samples for label in sample.labels} - {"le"}
    return f"`{name}`", family.type, code(sorted(labels)), family.documentation


def _scrape() -> str:
    """What a replica tells that has one node in view and has found something in one review: a metric without a sample
    would not say what its labels are."""
    node = read_node({"metadata": {"name": "a"}, "status": {"allocatable": {"nvidia.com/gpu": 1}}})
    assert node is not None
    fleet = build_fleet([node], taken_at=0.0)
    _, cert, key = self_signed(("localhost",))
    certificate = ServingCertificate.of(cert, key)
    certificate.authority_expires_at = certificate.expires_at
    metrics = Metrics(Worlds(Policy(), fleet), certificate, "")
    keeper = Keeper("", lambda: None, "")
    keeper.repairs["MutatingWebhookConfiguration", "edited"] += 1
    metrics.keep(keeper)
    unreadable = Request(Kind("batch", "v1", "Job"), "CREATE", {"spec": "?"})
    outcome = review(unreadable, World(fleet, Policy()))
    metrics.count(outcome, 0.0)
    slow, fast = Model("slow", "slow", ""), Model("fast", "fast", "")
    mixed = Decision(Verdict.ADMIT, findings=(Finding("SST306"),), straggler=Straggler(slow, fast, 0.0, 50.0, 1.0))
    metrics.count(replace(outcome, decision=mixed), 0.0)
    used = (ExceptionUse("a", "b/c", "SST201"),)
    metrics.count(replace(outcome, would_be=Verdict.DENY, exceptions=used), 0.0)
    metrics.handler_runs(next(iter(STAGES))).inc()
    metrics.http_responses(200).inc()
    metrics.events.labels(Outcome.WRITTEN.value).inc()
    metrics.show(
        Tally(
            queries=Counter(ok=1),
            dropped=Counter({"not a number": 1}),
            runs=Counter(well=1),
            writes=Counter(written=1),
            profiles=Counter(measured=1),
        )
    )
    return metrics.text().decode()
