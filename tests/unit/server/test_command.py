"""`samestep serve` as a process."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.samples import demo_nodes
from tests.unit.server.conftest import admission_review
from webhook.cli.serve import serve
from webhook.server.certificates import self_signed


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": demo_nodes()}))
    return path


def command(*options: str | Path) -> list[str]:
    ports = ("--port", "0", "--probe-port", "0", "--metrics-port", "0")
    return [sys.executable, "-m", "webhook.cli", "serve", "--host", "127.0.0.1", *ports, *map(str, options)]


@contextmanager
def serving(*options: str | Path) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """The process, once it listens, and the facts of that line of log."""
    with subprocess.Popen(command(*options), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            yield process, json.loads(process.stderr.readline())
        finally:
            process.kill()


def is_ready(probe_port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{probe_port}/readyz").close()
    except urllib.error.HTTPError:
        return False
    return True


def test_it_has_the_same_help_without_the_group() -> None:
    called = [sys.executable, "-c", "from webhook.cli.serve import serve; serve()", "-h"]
    told = subprocess.run(called, capture_output=True, text=True, check=True).stdout
    assert "-h, --help" in told


def refused(*options: str | Path) -> str:
    """What it says where it cannot start."""
    environment = {"HOME": "/nonexistent", "KUBECONFIG": None, "KUBERNETES_SERVICE_HOST": None}
    done = CliRunner().invoke(serve, command(*options)[4:], env=environment)
    assert done.exit_code == 2, done.exception
    return done.stderr.strip()


def test_a_fleet_out_of_files_is_served_without_a_cluster_until_sigterm(fleet: Path, tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    with serving("--fleet", fleet, "--ca-out", ca) as (process, told):
        request = urllib.request.Request(
            f"https://127.0.0.1:{told['port']}/admit/pin", json.dumps(admission_review()).encode()
        )
        context = ssl.create_default_context(cafile=str(ca))
        with urllib.request.urlopen(request, context=context) as answer:
            response = json.load(answer)["response"]
        with urllib.request.urlopen(f"http://127.0.0.1:{told['probe_port']}/readyz") as ready:
            assert ready.read() == b"ready\n"
        process.send_signal(signal.SIGTERM)

        assert response["allowed"]
        assert response["patchType"] == "JSONPatch"
        assert process.wait(10) == 0
        assert process.stderr is not None
        [line] = process.stderr.read().splitlines()
        assert json.loads(line)["verdict"] == "Pin"


def test_sigterm_under_load_loses_no_review(fleet: Path, tmp_path: Path) -> None:
    """Each client keeps its connection, as the API server does, and goes elsewhere once we are unready and have closed
    it."""
    ca = tmp_path / "ca.pem"
    unready = threading.Event()
    statuses: list[int] = []
    lost: list[Exception] = []
    with serving("--fleet", fleet, "--ca-out", ca, "--lame-duck", "2") as (process, told):
        assert process.stderr is not None
        log = threading.Thread(target=process.stderr.read)
        log.start()
        context = ssl.create_default_context(cafile=str(ca))
        body = json.dumps(admission_review()).encode()

        def load() -> None:
            connection = http.client.HTTPSConnection("127.0.0.1", told["port"], timeout=10, context=context)
            try:
                while connection.sock is not None or not unready.is_set():
                    connection.request("POST", "/admit/pin", body)
                    answer = connection.getresponse()
                    answer.read()
                    statuses.append(answer.status)
            except (OSError, http.client.HTTPException) as error:
                lost.append(error)

        clients = [threading.Thread(target=load) for _ in range(16)]
        for client in clients:
            client.start()
        while len(statuses) < 100:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        while is_ready(told["probe_port"]):
            pass
        unready.set()
        for client in clients:
            client.join()
        assert process.wait(10) == 0
        log.join()
    assert lost == []
    assert set(statuses) == {200}


def policy(**spec: object) -> str:
    document = {"apiVersion": "samestep.dev/v1alpha1", "kind": "TrainingPolicy", "metadata": {"name": "mine"}}
    return json.dumps({**document, "spec": spec})


def test_policy_files_are_followed_within_two_seconds_and_a_fault_leaves_the_last_good_one(
    fleet: Path, tmp_path: Path
) -> None:
    folder, ca = tmp_path / "policies", tmp_path / "ca.pem"
    folder.mkdir()
    with serving("--fleet", fleet, "--ca-out", ca, "--policies", folder) as (process, told):
        context = ssl.create_default_context(cafile=str(ca))

        def patched() -> bool:
            body = json.dumps(admission_review()).encode()
            request = urllib.request.Request(f"https://127.0.0.1:{told['port']}/admit/pin", body)
            with urllib.request.urlopen(request, context=context) as answer:
                return "patch" in json.load(answer)["response"]

        def metric(name: str) -> float:
            with urllib.request.urlopen(f"http://127.0.0.1:{told['metrics_port']}/metrics") as scraped:
                lines = scraped.read().decode().splitlines()
            return float(next(line for line in lines if line.startswith(f"{name} ")).rpartition(" ")[2])

        def within_two_seconds(condition: Callable[[], bool]) -> None:
            until = time.monotonic() + 2
            while not condition():
                assert time.monotonic() < until
                time.sleep(0.05)

        broken = 'samestep_broken_objects{kind="File"}'
        assert (patched(), metric("samestep_policies")) == (True, 0)
        (folder / "mine.json").write_text(policy(pin={"when": "Never"}))
        within_two_seconds(lambda: not patched())
        (folder / "mine.json").write_text(policy(pin={"when": "Allways"}))
        within_two_seconds(lambda: metric(broken) == 1)
        assert (patched(), metric("samestep_policies")) == (False, 1)
        (folder / "mine.json").unlink()
        within_two_seconds(patched)
        assert (metric("samestep_policies"), metric(broken)) == (0, 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert process.stderr is not None
        [warned] = [line for line in map(json.loads, process.stderr) if line["level"] == "warning"]
        assert warned["message"].endswith(
            "mine.json:1:114: spec.pin.when: Input should be 'WhenMixed', 'Always' or 'Never'"
        )


def test_node_labels_that_a_policy_file_names_make_the_fleet_anew(fleet: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(policy())
    with serving("--fleet", fleet, "--policies", file) as (process, told):

        def models() -> set[str]:
            with urllib.request.urlopen(f"http://127.0.0.1:{told['metrics_port']}/metrics") as scraped:
                lines = scraped.read().decode().splitlines()
            samples = [line.rpartition(" ") for line in lines if line.startswith("samestep_fleet_nodes{")]
            return {name for name, _, value in samples if float(value)}

        assert len(models()) == 2
        file.write_text(policy(modelLabels=["kubernetes.io/hostname"]))
        until = time.monotonic() + 5
        while len(models()) != 4:
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def imported(ca: Path, *options: str | Path) -> tuple[set[str], set[str]]:
    """What a server imports until it listens, and what from then on, with a request and its end."""
    environment = os.environ | {"PYTHONPROFILEIMPORTTIME": "1"}
    start = command("--ca-out", ca, *options)
    with subprocess.Popen(start, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        before: list[str] = []
        while not (line := process.stderr.readline()).startswith("{"):
            assert line, before
            before.append(line)
        body = json.dumps(admission_review()).encode()
        url = f"https://127.0.0.1:{json.loads(line)['port']}/admit/pin"
        with urllib.request.urlopen(url, body, context=ssl.create_default_context(cafile=str(ca))) as answer:
            assert json.load(answer)["response"]["allowed"]
        process.send_signal(signal.SIGTERM)
        after = process.stderr.readlines()
    return modules_in(before), modules_in(after)


def modules_in(lines: list[str]) -> set[str]:
    """As `python -X importtime` tells them."""
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


def test_a_server_holds_nothing_that_only_commands_need_nor_a_cel_runtime_without_conditions(
    fleet: Path, tmp_path: Path
) -> None:
    before, after = imported(tmp_path / "ca.pem", "--fleet", fleet)
    assert "webhook.review" in before
    assert not (before | after) & {"cel_expr_python", "rich.console", "webhook.cli.audit"}


def test_no_request_waits_for_an_import(fleet: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    condition = {"name": "jobs", "expression": "job.kind.startsWith('Job')"}
    file.write_text(policy(match={"matchConditions": [condition]}))
    before, after = imported(tmp_path / "ca.pem", "--fleet", fleet, "--policies", file)
    assert "cel_expr_python" in before
    assert after == set()


def test_policies_that_are_not_there_are_one_line(fleet: Path, tmp_path: Path) -> None:
    assert refused("--fleet", fleet, "--policies", tmp_path / "none").endswith("none: No such file or directory")


def test_a_served_process_drains_for_its_lame_duck_time(fleet: Path) -> None:
    with serving("--fleet", fleet, "--lame-duck", "0.5") as (process, told):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        with pytest.raises(urllib.error.HTTPError) as unready:
            urllib.request.urlopen(f"http://127.0.0.1:{told['probe_port']}/readyz")
        assert unready.value.code == 503
        unready.value.close()
        assert process.wait(10) == 0


def test_a_port_in_use_is_one_line(fleet: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        told = refused("--fleet", fleet, "--port", port)
    assert told.startswith(f"Error: cannot listen on 127.0.0.1:{port}: ")
    assert told.count("\n") == 0


def test_a_certificate_that_cannot_be_served_is_one_line(fleet: Path, tmp_path: Path) -> None:
    _, cert, _ = self_signed(["localhost"])
    _, _, key = self_signed(["localhost"])
    (tmp_path / "tls.crt").write_bytes(cert)
    (tmp_path / "tls.key").write_bytes(key)

    told = refused("--fleet", fleet, "--cert", tmp_path / "tls.crt", "--key", tmp_path / "tls.key")

    assert told == f"Error: {tmp_path}/tls.crt, {tmp_path}/tls.key: the key does not belong to the certificate"


def kubeconfig(path: Path, server: str) -> Path:
    content = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {"token": "secret"}}],
    }
    path.write_text(json.dumps(content))
    return path


def test_an_api_server_that_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server = f"https://127.0.0.1:{unused.getsockname()[1]}"
        told = refused("--kubeconfig", kubeconfig(tmp_path / "config", server))
    assert told.startswith(f"Error: cannot reach the API server at {server}: ")
    assert told.count("\n") == 0


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "no such kubeconfig file"),
        ("just text", "not a kubeconfig file"),
        ("[1, 2", "not a kubeconfig file"),
        ("apiVersion: v1\nkind: Config\n", "Invalid kube-config file. Expected key current-context"),
    ],
)
def test_a_bad_kubeconfig_is_one_line(content: str | None, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)

    told = refused("--kubeconfig", path)

    assert told.startswith(f"Error: {path}: {fault}")
    assert told.count("\n") == 0


def test_no_cluster_at_all_is_one_line() -> None:
    assert refused() == "Error: /nonexistent/.kube/config: no such kubeconfig file"


def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "https://127.0.0.1:1")

    assert "Expected object with name nowhere" in refused("--kubeconfig", path, "--context", "nowhere")


def test_a_fleet_that_cannot_be_read_names_file_and_place(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("kind: Node\n---\n{")

    told = refused("--fleet", path)

    assert told.splitlines()[0] == "unreadable: fleet.yaml#0: apiVersion: expected a string, got nothing"


@pytest.mark.parametrize(
    "options",
    [
        ("--cert", "a"),
        ("--key", "a"),
        ("--fleet", "a", "--context", "b"),
        ("--cert", "a", "--key", "b", "--ca-out", "c"),
        ("--own-certificates", "--cert", "a", "--key", "b"),
        ("--own-certificates", "--ca-out", "c"),
        ("--own-certificates", "--fleet", "a"),
        ("--client-name", "a"),
    ],
    ids=" ".join,
)
def test_options_that_do_not_go_together_are_a_usage_error(options: tuple[str, ...]) -> None:
    assert refused(*options).startswith("Usage: ")
