"""The files of `deploy/`: what they name exists, and what they run works."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from linmed.cli import main
from linmed.serve.metrics import Metrics

from .serving import Running, create, decide

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
FILES = sorted(path.name for path in DEPLOY.iterdir() if path.is_file())
FOREIGN = {"instance", "job", "le"}
"""Labels that Prometheus adds."""


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_alerts_rest_on_metrics_and_labels_that_exist() -> None:
    metrics = Metrics()
    metrics.answered("/", 200, 0.1)
    metrics.refused.labels("load").inc()
    metrics.decisions.labels("news").inc()
    metrics.rewards.labels("news").inc()
    shown = metrics.text().decode()
    names = set(re.findall(r"^(linmed_\w+)", shown, flags=re.MULTILINE))
    labels = set(re.findall(r'[{,](\w+)="', shown)) | FOREIGN
    for rule in rules():
        expression = rule["expr"]
        used = set(re.findall(r"\b(linmed_\w+|up)\b", expression))
        assert used
        assert used <= names | {"up"}, rule["alert"]
        named = set(re.findall(r"[{,]\s*(\w+)\s*=~?\"", expression))
        named |= {one for group in re.findall(r"by \(([^)]*)\)", expression) for one in group.split(", ")}
        assert named <= labels, rule["alert"]
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}


def test_the_route_that_an_alert_watches_is_the_one_that_is_counted(app: httpx.Client) -> None:
    create(app)
    decide(app)
    routes = {route for rule in rules() for route in re.findall(r'route="([^"]+)"', rule["expr"])}
    counted = app.get("/metrics").text
    assert routes
    for route in routes:
        assert f'linmed_request_seconds_bucket{{le="0.25",route="{route}"}}' in counted


@pytest.mark.parametrize("file", FILES)
def test_options_that_are_named_exist(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    known = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))
    text = (DEPLOY / file).read_text().replace("\\\n#", "")
    lines = re.findall(r"(?:^|[\s/])linmed (?:serve )?(-.*)", text, flags=re.MULTILINE)
    named = {option for line in lines for option in re.findall(r"--[a-z][a-z-]*", line)}
    assert named <= known
    assert named or file in ("alerts.yaml", "Dockerfile.dockerignore")


def test_the_image_copies_and_starts_what_exists() -> None:
    copied = re.findall(r"^COPY (.*)$", DOCKERFILE, flags=re.MULTILINE)
    for line in copied:
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), source
    assert f'ENTRYPOINT ["{copied[-1].split()[-1].rpartition("/")[2]}"]' in DOCKERFILE
    assert os.access(DEPLOY / "serve.sh", os.X_OK)
    assert "USER linmed" in DOCKERFILE


def test_the_images_command_wants_a_token_and_then_serves(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LINMED_DATABASE": f"sqlite:///{tmp_path / 'x.db'}",
    }

    def run(*options: str) -> "subprocess.CompletedProcess[str]":
        words = ["sh", str(DEPLOY / "serve.sh"), *options]
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600)

    assert "--create-token admin" in run().stderr
    assert run("--create-token", "admin").stdout.startswith("lm_")
    assert run("--check").stdout.startswith("ok: ")


def test_the_images_health_check_tells_a_server_that_answers_from_one_that_does_not(running: Running) -> None:
    found = re.search(r'CMD \["python", "-c", "(.*)"\]', DOCKERFILE)
    assert found is not None
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        for address, healthy in ((running.url, True), (f"http://127.0.0.1:{unused.getsockname()[1]}", False)):
            code = found[1].replace("http://127.0.0.1:8000", address)
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300)
            assert (done.returncode == 0) is healthy


def test_the_services_of_compose_wait_for_each_other() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert services["linmed"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert (
        DEPLOY / services["linmed"]["build"]["context"] / services["linmed"]["build"]["dockerfile"]
    ).exists()
    assert services["database"]["healthcheck"]["test"][1] == "pg_isready"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "linmed.service").read_text()
    (tmp_path / "linmed.service").write_text(unit.replace("/opt/linmed/bin/linmed", sys.executable))
    words = ["systemd-analyze", "verify", str(tmp_path / "linmed.service")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert "linmed.service" not in done.stderr, done.stderr
