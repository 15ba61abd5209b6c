"""Wrong requests: 4xx, a message that names the field, and nothing written."""

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from linmed.policies import ALL

from .serving import ARMS, application, create, decide

HUGE = "1" + "0" * 400

DECIDE = [
    ("malformed JSON", b'{"arms": [[1, 0]', "body"),
    ("no JSON at all", b"arms", "body"),
    ("empty body", b"", "body"),
    ("not an object", b"[1, 2]", "body"),
    ("NaN", b'{"arms": [[1.0, NaN]]}', "arms[0][1]"),
    ("infinity", b'{"arms": [[1.0, -Infinity]]}', "arms[0][1]"),
    ("overflow to infinity", b'{"arms": [[1.0, 1e999]]}', "arms[0][1]"),
    ("a huge integer", f'{{"arms": [[1.0, {HUGE}]]}}'.encode(), "arms[0][1]"),
    ("a large number", b'{"arms": [[1.0, 1e50]]}', "arms"),
    ("a string for a number", b'{"arms": [["1.0", 0.0]]}', "arms[0][0]"),
    ("true for a number", b'{"arms": [[true, 0.0]]}', "arms[0][0]"),
    ("wrong dimension", b'{"arms": [[1.0, 0.0, 0.0]]}', "arms"),
    ("ragged", b'{"arms": [[1.0, 0.0], [1.0]]}', "arms"),
    ("no arms", b'{"arms": []}', "arms"),
    ("arms without features", b'{"arms": [[], []]}', "arms"),
    ("neither arms nor catalogue", b"{}", "arms"),
    ("a context without a catalogue", b'{"arms": [[1.0, 0.0]], "context": [1.0]}', "context"),
    ("more ids than arms", b'{"arms": [[1.0, 0.0]], "arm_ids": ["a", "b"]}', "arm_ids"),
    ("unknown field", b'{"arms": [[1.0, 0.0]], "colour": 1}', "colour"),
    ("an empty key", b'{"arms": [[1.0, 0.0]], "key": ""}', "key"),
    ("a key of a megabyte", b'{"arms": [[1.0, 0.0]], "key": "' + b"k" * 2**20 + b'"}', "key"),
    ("deep nesting", b'{"arms": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "body"),
    ("nul in a key", b'{"arms": [[1.0, 0.0]], "key": "a\\u0000b"}', "key"),
    ("half a surrogate", b'{"arms": [[1.0, 0.0]], "key": "\\ud800"}', "body"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("bad")
    with application(f"sqlite:///{folder / 'bad.db'}", max_body=30 * 2**20) as client:
        create(client)
        yield client


def refused(answer: httpx.Response, field: str) -> None:
    assert 400 <= answer.status_code < 500, answer.text[:300]
    error = answer.json()["error"]
    assert field in error["message"] or field == error["field"], error
    assert len(answer.content) < 2000


@pytest.mark.parametrize(("body", "field"), [case[1:] for case in DECIDE], ids=[case[0] for case in DECIDE])
def test_a_wrong_decide_is_refused_and_nothing_is_written(
    service: httpx.Client, body: bytes, field: str
) -> None:
    before = service.get("/v1/bandits/b/statistics").json()["decisions"]
    kind = {"Content-Type": "application/json"}
    refused(service.post("/v1/bandits/b/decide", content=body, headers=kind), field)
    assert service.get("/v1/bandits/b/statistics").json()["decisions"] == before


def test_a_million_arms_are_refused(service: httpx.Client) -> None:
    body = b'{"arms": [' + b",".join([b"[1.0,0.0]"] * 10**6) + b"]}"
    kind = {"Content-Type": "application/json"}
    refused(service.post("/v1/bandits/b/decide", content=body, headers=kind), "arms")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""])
def test_other_content_types_are_refused(service: httpx.Client, kind: str) -> None:
    answer = service.post(
        "/v1/bandits/b/decide", content=b'{"arms": [[1, 0]]}', headers={"Content-Type": kind}
    )
    assert answer.status_code == 415
    refused(answer, "Content-Type")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"decision_id": "x", "reward": 1e50}, "reward"),
        ({"decision_id": "x", "reward": None}, "reward"),
        ({"decision_id": "x"}, "reward"),
        ({"decision_id": 5, "reward": 1.0}, "decision_id"),
        ({"decision_id": "x", "reward": 1.0}, "decision_id"),
        ({"decision_id": "a\u0000b", "reward": 1.0}, "decision_id"),
    ],
)
def test_a_wrong_reward_is_refused(service: httpx.Client, body: dict[str, Any], field: str) -> None:
    refused(service.post("/v1/bandits/b/reward", json=body), field)
    assert service.get("/v1/bandits/b/statistics").json()["rewards"] == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"dim": 0}, "dim"),
        ({"dim": 10**9}, "dim"),
        ({"dim": 2.5}, "dim"),
        ({"name": "a/b"}, "name"),
        ({"name": ""}, "name"),
        ({"policy": {"policy": "NoSuch"}}, "policy"),
        ({"policy": {"policy": "LinMED", "sigma": -1}}, "sigma"),
        ({"policy": {"policy": "LinMED", "sigma": []}}, "sigma"),
        ({"policy": {"policy": "LinMED", "colour": 1}}, "colour"),
        ({"policy": {"policy": ["LinMED"]}}, "policy"),
        ({"policy": {"policy": "EXP2"}}, "catalogue"),
        ({"policy": {"policy": "SpannerIGW", "horizon": 10**400}}, "policy"),
        ({"reward_range": [1.0, 0.0]}, "reward_range"),
        ({"reward_range": [0.0]}, "reward_range"),
        ({"catalogue": {"ids": ["a", "a"], "features": ARMS[:2]}}, "catalogue"),
        ({"catalogue": {"ids": ["a"], "features": ARMS[:2]}}, "catalogue"),
        ({"catalogue": {"ids": ["a"], "features": [[1.0, 2.0, 3.0]]}}, "catalogue"),
        ({"catalogue": {"ids": ["a"], "features": [[]]}}, "catalogue"),
        ({"map": "inner"}, "map"),
    ],
)
def test_a_wrong_bandit_is_refused_and_not_created(
    service: httpx.Client, change: dict[str, Any], field: str
) -> None:
    refused(service.post("/v1/bandits", json={"name": "new", "dim": 2, **change}), field)
    assert service.get("/v1/bandits/new").status_code == 404


def test_rewards_outside_the_declared_range_are_refused(service: httpx.Client) -> None:
    create(service, "ranged", reward_range=[0.0, 1.0])
    body = {"decision_id": decide(service, "ranged")["decision_id"], "reward": 1.5}
    refused(service.post("/v1/bandits/ranged/reward", json=body), "reward")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"targets": ["best"]}, "targets"),
        ({"targets": []}, "targets"),
        ({"estimators": ["magic"]}, "magic"),
        ({"confidence": 1.0}, "confidence"),
        ({"targets": ["uniform"]}, "reward_range"),
        ({"targets": ["arm:999999999"], "interval": "none", "estimators": ["dr"]}, ""),
    ],
)
def test_a_wrong_evaluation_is_refused(service: httpx.Client, body: dict[str, Any], field: str) -> None:
    create_answer = service.post("/v1/bandits", json={"name": "e", "dim": 2})
    assert create_answer.status_code in (200, 201)
    if create_answer.status_code == 201:
        for _ in range(3):
            found = decide(service, "e")
            service.post("/v1/bandits/e/reward", json={"decision_id": found["decision_id"], "reward": 1.5})
    refused(service.post("/v1/bandits/e/evaluate", json=body), field)


LINMED = {"policy": "LinMED"}
FIELDS = [
    ("", {"name": "n", "dim": 0}, "dim"),
    ("", {"name": "a/b", "dim": 2}, "name"),
    ("", {"name": "n", "dim": 2, "colour": 1}, "colour"),
    ("", {"name": "b", "dim": 3}, "name"),
    ("", {"name": "n", "dim": 2, "policy": {**LINMED, "alpha_emp": 2.0}}, "policy.alpha_emp"),
    ("", {"name": "n", "dim": 2, "policy": {**LINMED, "sigma": -1}}, "policy.sigma"),
    ("", {"name": "n", "dim": 2, "policy": {**LINMED, "sigma": "big"}}, "policy.sigma"),
    ("", {"name": "n", "dim": 2, "policy": {**LINMED, "colour": 1}}, "policy.colour"),
    ("", {"name": "n", "dim": 2, "policy": {**LINMED, "label": "x" * 501}}, "policy.label"),
    ("", {"name": "n", "dim": 2, "policy": {"policy": "NoSuch"}}, "policy.policy"),
    ("", {"name": "n", "dim": 2, "policy": {"policy": "EXP2"}}, "catalogue"),
    ("", {"name": "n", "dim": 2, "catalogue": {"ids": ["a", "a"], "features": ARMS[:2]}}, "catalogue.ids"),
    ("", {"name": "n", "dim": 2, "catalogue": {"ids": ["a"], "features": [[1.0] * 3]}}, "catalogue.features"),
    ("", {"name": "n", "dim": 2, "catalogue": {"ids": ["a"], "features": [[]]}}, "catalogue.features"),
    ("", {"name": "n", "dim": 2, "reward_range": [1.0, 0.0]}, "reward_range"),
    ("/b/decide", {"arms": [[1.0, 0.0, 0.0]]}, "arms"),
    ("/b/decide", {"arms": [[1.0, 0.0], [1.0]]}, "arms"),
    ("/b/decide", {"arms": [[1.0, 1e50]]}, "arms[0][1]"),
    ("/b/decide", {"arms": [[1.0, "x"]]}, "arms[0][1]"),
    ("/b/decide", {}, "arms"),
    ("/b/decide", {"arms": ARMS[:1], "context": [1.0]}, "context"),
    ("/b/decide", {"arms": ARMS[:1], "arm_ids": ["a", "b"]}, "arm_ids"),
    ("/b/decide/batch", {"decisions": [{"arms": ARMS}, {"arms": [[1.0]]}]}, "decisions[1].arms"),
    ("/b/decide/batch", {"decisions": [{"arms": ARMS}] * 1001}, "decisions"),
    ("/b/reward", {"decision_id": "x", "reward": 1e50}, "reward"),
    ("/b/reward", {"decision_id": "x", "reward": 1.0}, "decision_id"),
    ("/b/reward/batch", {"rewards": [{"decision_id": "x", "reward": 1e50}]}, "rewards[0].reward"),
    ("/b/reward/batch", {"rewards": [{"decision_id": "x", "reward": 1.0}]}, "rewards[0].decision_id"),
    ("/a%00b/decide", {"arms": ARMS}, "name"),
    ("/b/evaluate", {"confidence": 1.0}, "confidence"),
    ("/b/evaluate", {"targets": ["greedy"]}, "targets"),
    (
        "/b/evaluate",
        {"targets": [{"name": "t", "policy": {**LINMED, "sigma": 0}}]},
        "targets[0].policy.sigma",
    ),
    ("/b/evaluate", {"targets": ["uniform", "uniform"]}, "targets[1]"),
    ("/b/evaluate", {"targets": ["logged", {"name": "logged", "policy": LINMED}]}, "targets[1]"),
    ("/b/evaluate", {"targets": ["uniform"], "interval": "exact"}, "interval"),
    ("/b/evaluate", {"targets": ["uniform"], "missing": "later"}, "missing"),
    ("/b/evaluate", {"targets": ["uniform"], "missing": True}, "missing"),
    ("/b/evaluate", {"targets": ["uniform"], "missing": None}, "missing"),
    ("/b/evaluate", {"targets": ["uniform"], "missing": 0}, "mature"),  # the number needs an age
    ("/b/evaluate", {"targets": ["uniform"], "mature": -1}, "mature"),
    ("/b/evaluate", {"targets": ["uniform"], "mature": "1 d"}, "mature"),
    ("/b/evaluate", {"targets": ["uniform"], "drift": "no"}, "drift"),
    ("/b/evaluate", {"targets": ["uniform"], "smallest_probability": 0.0}, "smallest_probability"),
    ("/b/evaluate", {"targets": ["uniform"], "smallest_probability": 1.5}, "smallest_probability"),
    ("/b/evaluate", {"targets": ["uniform"], "interval": "none"}, None),  # "the log of b is empty"
    ("/no-such/decide", {"arms": ARMS}, None),
    ("/b/no-such", {}, None),
]


@pytest.mark.parametrize(("path", "body", "field"), FIELDS)
def test_an_error_names_the_field_that_is_wrong(
    service: httpx.Client, path: str, body: dict[str, Any], field: str | None
) -> None:
    answer = service.post(f"/v1/bandits{path}", json=body)
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]["field"] == field


def test_an_error_about_the_policy_offers_only_policies_that_can_be_made(service: httpx.Client) -> None:
    body = {"name": "n", "dim": 2, "policy": {"policy": "NoSuch"}}
    message = service.post("/v1/bandits", json=body).json()["error"]["message"]
    offered = {name.strip() for name in message.partition("known are ")[2].split(",")}
    assert {policy.__name__ for policy in ALL} <= offered
    assert not {"Policy", "RidgePolicy", "RulePolicy", "DeterministicPolicy"} & offered


def test_no_generated_request_makes_the_server_fail(service: httpx.Client) -> None:
    """schemathesis over the OpenAPI document, valid and invalid data alike."""
    schema = schemathesis.openapi.from_url(f"{service.base_url}/v1/openapi.json".replace("//v1", "/v1"))
    url = str(service.base_url)
    tested = 0
    few = settings(
        max_examples=10,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    for result in schema.get_all_operations():
        operation = result.ok()

        def check(case: Any) -> None:
            nonlocal tested
            tested += 1
            answer = case.call(base_url=url)
            assert answer.status_code < 500, f"{case.as_curl_command()} gave {answer.status_code}"
            declared = {str(code) for code in case.operation.definition.raw["responses"]} | {"405"}
            assert str(answer.status_code) in declared, f"{case.as_curl_command()} gave {answer.status_code}"

        for mode in schemathesis.GenerationMode:
            try:
                few(given(operation.as_strategy(generation_mode=mode))(check))()
            except Unsatisfiable:  # a request without parameters cannot be wrong
                assert mode == schemathesis.GenerationMode.NEGATIVE
    assert tested > 100
