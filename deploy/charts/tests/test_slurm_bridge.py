"""The chart slurm-bridge: golden renderings and what must hold of them."""
import base64
import json
import re

import pytest
import yaml

from helm import Chart, container, find, needs_helm, objects, value_files, without_certificates

pytestmark = needs_helm
CHART = Chart("slurm-bridge")
render, refused = CHART.render, CHART.refused


@value_files("slurm-bridge")
def test_golden(values):
    CHART.matches_golden(values, without_certificates)


def test_lint():
    CHART.lints()


def test_secrets_reach_only_those_who_call_slurm():
    text = render()
    assert "env" not in container(text, "slurm-bridge-admission")
    for name in ("slurm-bridge-scheduler", "slurm-bridge-controllers"):
        env = {e["name"]: e.get("value") for e in container(text, name)["env"]}
        assert env["SLURM_JWT_FILE"] == "/var/run/secrets/slurm/auth-token"
        volumes = find(text, "Deployment", name)["spec"]["template"]["spec"]["volumes"]
        assert any(v.get("secret", {}).get("secretName") == "slurm-bridge-token" for v in volumes)


def test_pods_are_locked_down_and_restart_on_change():
    text = render()
    sums = set()
    for name in ("slurm-bridge-scheduler", "slurm-bridge-controllers", "slurm-bridge-admission"):
        pod = find(text, "Deployment", name)["spec"]["template"]
        assert re.fullmatch("[0-9a-f]{64}", pod["metadata"]["annotations"]["checksum/config"])
        sums.add(pod["metadata"]["annotations"]["checksum/config"])
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        security = pod["spec"]["containers"][0]["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/readyz"
    other = find(render('schedulerConfig.partition="x"'), "Deployment", "slurm-bridge-scheduler")
    assert other["spec"]["template"]["metadata"]["annotations"]["checksum/config"] not in sums


def test_images_are_set_one_by_one():
    text = render('scheduler.image={"repository":"a","tag":"1","pullPolicy":"Always"}', 'controllers.image.tag="2"')
    assert container(text, "slurm-bridge-scheduler")["image"] == "a:1"
    assert container(text, "slurm-bridge-scheduler")["imagePullPolicy"] == "Always"
    assert container(text, "slurm-bridge-controllers")["image"].endswith(":2")
    assert container(text, "slurm-bridge-admission")["image"].endswith(":0.1.0")


def test_several_replicas_elect_a_leader():
    assert "--leader-elect=false" in container(render(), "slurm-bridge-scheduler")["args"]
    assert find(render(), "Deployment", "slurm-bridge-scheduler")["spec"]["strategy"] == {"type": "Recreate"}
    two = render("scheduler.replicaCount=2", "controllers.leaderElect=true")
    assert "--leader-elect=true" in container(two, "slurm-bridge-scheduler")["args"]
    assert "--leader-elect=true" in container(two, "slurm-bridge-controllers")["args"]
    assert "strategy" not in find(two, "Deployment", "slurm-bridge-scheduler")["spec"]


def test_resources_go_where_they_are_asked_for():  # W59
    text = render('controllers.resources={"requests":{"cpu":"1"}}', 'admission.resources={"requests":{"cpu":"2"}}')
    assert container(text, "slurm-bridge-controllers")["resources"] == {"requests": {"cpu": "1"}}
    assert container(text, "slurm-bridge-admission")["resources"] == {"requests": {"cpu": "2"}}


@pytest.mark.parametrize("pdb,replicas,spec", [  # W59
    ({"enabled": True}, 1, {"maxUnavailable": 1}),
    ({"enabled": True}, 2, {"minAvailable": 1}),
    ({"enabled": True, "maxUnavailable": 2}, 3, {"maxUnavailable": 2}),
    ({"enabled": True, "maxUnavailable": 0}, 3, {"maxUnavailable": 1}),
    ({"enabled": True, "minAvailable": 3}, 3, {"maxUnavailable": 1}),
    ({"enabled": True, "minAvailable": "50%"}, 3, {"minAvailable": "50%"}),
])
def test_budgets_allow_drains(pdb, replicas, spec):
    text = render("admission.pdb=" + json.dumps(pdb), f"admission.replicas={replicas}")
    got = find(text, "PodDisruptionBudget", "slurm-bridge-admission")["spec"]
    got.pop("selector")
    assert got == spec


def test_webhook_sees_only_what_concerns_slurm():  # W56
    text = render('admission.managedNamespaces=["a","b"]')
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        (hook,) = find(text, kind, "slurm-bridge-admission")["webhooks"]
        assert hook["matchConditions"][0]["expression"].startswith("request.namespace in ['a','b'] || (")
        assert hook["failurePolicy"] == "Fail" and hook["timeoutSeconds"] == 10
        assert hook["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "test-namespace"]
    selected = render('admission.managedNamespaceSelector={"matchLabels":{"team":"hpc"}}')
    hooks = find(selected, "ValidatingWebhookConfiguration", "slurm-bridge-admission")["webhooks"]
    assert hooks[0]["namespaceSelector"]["matchLabels"] == {"team": "hpc"} and "matchConditions" not in hooks[0]
    assert "schedulerName == 'slurm-bridge-scheduler'" in hooks[1]["matchConditions"][0]["expression"]
    config = find(selected, "ConfigMap", "slurm-bridge-config")["data"]["config.yaml"]
    assert "managedNamespaces" not in config and yaml.safe_load(config)["managedNamespaceSelector"]


def test_admission_reads_namespaces_only_with_a_selector():
    assert find(render(), "ClusterRole", "slurm-bridge-admission")["rules"] == []
    text = render('admission.managedNamespaceSelector={"matchLabels":{"team":"hpc"}}')
    assert find(text, "ClusterRole", "slurm-bridge-admission")["rules"][0]["resources"] == ["namespaces"]


def test_own_certificate_is_one_pair():  # W60
    text = render("admission.certManager.enabled=false")
    secret = find(text, "Secret", "slurm-bridge-admission")
    hook = find(text, "MutatingWebhookConfiguration", "slurm-bridge-admission")["webhooks"][0]
    assert hook["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
    assert base64.b64decode(secret["data"]["tls.crt"]).startswith(b"-----BEGIN CERTIFICATE")
    assert not [o for o in objects(text) if o["apiVersion"].startswith("cert-manager.io")]


def test_trusted_users_follow_the_names():
    text = render('schedulerConfig.schedulerName="mine"', 'namespaceOverride="other"', 'admission.trustedUsers=["ada"]')
    config = yaml.safe_load(find(text, "ConfigMap", "slurm-bridge-config")["data"]["config.yaml"])
    assert config["trustedUsers"] == ["system:serviceaccount:other:mine",
                                      "system:serviceaccount:other:slurm-bridge-controllers", "ada"]
    assert {o["metadata"].get("namespace", "other") for o in objects(text)} == {"other"}


def test_mistakes_are_named():
    assert "replicaCout" in refused("scheduler.replicaCout=2")
    assert "schedulerName" in refused('schedulerConfig.schedulerName="A_B"')
    assert "slurmRestApi" in refused('sharedConfig.slurmRestApi="slurm:6820"')
    assert "timeoutSeconds" in refused("admission.timeoutSeconds=31")


def test_admission_can_be_left_out():
    text = render("admission.enabled=false")
    assert not [o for o in objects(text) if "admission" in o["metadata"]["name"]]
