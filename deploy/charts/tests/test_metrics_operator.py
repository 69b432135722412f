"""Dashboard and alerts of the chart slurm-operator speak only of metrics that the program has."""
import json
import re
import subprocess
import time
import urllib.request

import pytest
import yaml

from apiserver import free_ports
from bridge_processes import BINARY
from helm import Chart, find, needs_helm, objects
from promtool import fired, needs_promtool, promtool
from test_metrics import names, registered

pytestmark = needs_helm
CHART = Chart("slurm-operator", release="slurm-operator", namespace="slinky")
ON = ("grafana.dashboard.enabled=true", "prometheusRule.enabled=true", "serviceMonitor.enabled=true", "webhook.metricsPort=8080")
# They come with the first worker, with the first answer of a RestApi, and with the webhook.
LATER = {"bascule_nodeset_actions_total", "bascule_slurm_token_expiry_seconds", "bascule_slurm_token_lifetime_seconds",
         "bascule_webhook_certificate_expiry_seconds"}


def dashboard():
    data = find(CHART.render(*ON), "ConfigMap", "slurm-operator-dashboard")["data"]
    assert list(data) == ["slurm-operator.json"]
    return json.loads(data["slurm-operator.json"])


def rule_spec(*sets):
    return find(CHART.render(*ON, *sets), "PrometheusRule", "slurm-operator")["spec"]


def rules(*sets):
    return [rule for group in rule_spec(*sets)["groups"] for rule in group["rules"]]


def expressions():
    board = dashboard()
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield f"panel {panel['title']}", target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["definition"]
    for rule in rules():
        yield f"alert {rule['alert']}", rule["expr"]


def test_every_metric_is_registered():
    known = registered(without="bridge")
    unknown = {(where, name) for where, text in expressions() for name in names(text) if name not in known}
    assert not unknown
    used = {name for _, text in expressions() for name in names(text)}
    # Slurm's own calls are counted by the bridge's processes alone.
    ours = {name for name in known if name.startswith("bascule_") and not name.startswith("bascule_slurm_request_")}
    assert ours == {name for name in used if name.startswith("bascule_")}, "each metric of our own has a panel or an alert"


@pytest.mark.skipif(not BINARY.exists(), reason=f"no {BINARY}")
def test_every_metric_is_there_from_the_start(cluster, tmp_path):
    """A rate over a series that begins with its first event would miss that event."""
    wanted = {name for _, text in expressions() for name in names(text) if not name.startswith("controller_runtime_webhook_")} - LATER
    assert cluster.apply(Chart("slurm-operator-crds").render()) is None
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    cluster.kubectl("create", "namespace", "measured")
    controller = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "Controller", "metadata": {"name": "slurm", "namespace": "measured"},
                  "spec": {"slurmKeyRef": {"name": "a", "key": "b"}, "jwtKeyRef": {"name": "a", "key": "c"}}}
    assert cluster.create(controller, "controllers")[1] is None
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({
        "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {"token": cluster.token}}],
        "clusters": [{"name": "x", "cluster": {"server": cluster.url, "insecure-skip-tls-verify": True}}]}))
    (port,) = free_ports(1)
    with (tmp_path / "log").open("w") as log:
        operator = subprocess.Popen([BINARY, "operator", f"--kubeconfig={tmp_path}/kubeconfig", f"--metrics-addr=127.0.0.1:{port}", "--health-addr=0", "--namespaces=measured",
                                     "--leader-elect", "--leader-elect-namespace=measured"], stdout=log, stderr=log, env={"POD_NAMESPACE": "measured", "POD_NAME": "x"})
    try:
        limit, said, missing = time.monotonic() + 30, "", wanted
        while (missing or 'status{name="slurm-operator"} 1' not in said) and time.monotonic() < limit:
            time.sleep(0.3)
            try:
                said = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
            except OSError:
                continue
            missing = wanted - {m[1] for m in re.finditer(r"^([a-z_]+)[ {]", said, re.M)}
        assert not missing, (missing, (tmp_path / "log").read_text()[-2000:])
        assert 'leader_election_master_status{name="slurm-operator"} 1' in said
        assert re.search(r'bascule_slurm_cluster_up\{[^}]*controller="slurm"[^}]*\} 0', said), "one that has no RestApi does not answer"
    finally:
        operator.terminate()
        operator.wait(20)
        cluster.kubectl("delete", "controller", "slurm", "-n", "measured")


def test_panels_are_whole():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24, panel["title"]
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "$datasource" and panel["targets"], panel["title"]
            assert all('namespace="$namespace"' in target["expr"] for target in panel["targets"]), panel["title"]
    taken = [(p["gridPos"]["x"] + dx, p["gridPos"]["y"] + dy) for p in panels for dx in range(p["gridPos"]["w"]) for dy in range(p["gridPos"]["h"])]
    assert len(set(taken)) == len(taken), "no panel lies on another"


def test_nothing_of_it_without_being_asked():
    assert not {one["kind"] for one in objects(CHART.render())} & {"PrometheusRule", "ServiceMonitor"}
    assert "grafana_dashboard" not in CHART.render()


def test_the_sidecar_finds_the_dashboard():
    assert find(CHART.render(*ON), "ConfigMap", "slurm-operator-dashboard")["metadata"]["labels"]["grafana_dashboard"] == "1"
    other = find(CHART.render(*ON, 'grafana.dashboard={"enabled":true,"namespace":"monitoring","labels":{"mine":"yes"},"annotations":{"folder":"Slurm"}}'), "ConfigMap", "slurm-operator-dashboard")["metadata"]
    assert other["namespace"] == "monitoring" and other["labels"]["mine"] == "yes" and other["annotations"] == {"folder": "Slurm"}


def test_alerts_are_whole():
    for rule in rules():
        assert rule["alert"].startswith("BasculeOperator") and rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert rule["annotations"]["summary"] and rule["annotations"]["description"], rule["alert"]
        assert 'namespace="slinky"' in rule["expr"], rule["alert"]
    assert "BasculeOperatorNoLeader" not in {rule["alert"] for rule in rules("operator.leaderElection=false")}, "there is no such metric then"
    (renamed,) = [one for one in objects(CHART.render(*ON, 'nameOverride="op"', 'webhook.timeoutSeconds="5"')) if one["kind"] == "PrometheusRule"]
    texts = {rule["alert"]: rule["expr"] for rule in renamed["spec"]["groups"][0]["rules"]}
    assert renamed["metadata"]["name"] == "op" and 'job="op"' in texts["BasculeOperatorStuck"] and 'job="op-webhook"' in texts["BasculeOperatorAdmissionSlow"]
    assert texts["BasculeOperatorAdmissionSlow"].endswith("> 2.5")
    mine = {"alert": "Mine", "expr": "vector(1)"}
    assert mine in rules("prometheusRule.rules=" + json.dumps([mine]))


@pytest.mark.parametrize("sets,missing,jobs", [
    (("webhook.metricsPort=0",), {"BasculeOperatorAdmissionFails", "BasculeOperatorAdmissionSlow", "BasculeOperatorCertificateExpires"}, ["slurm-operator"]),
    (("operator.metricsPort=0",), {"BasculeOperatorNoLeader", "BasculeOperatorStuck"}, ["slurm-operator-webhook"]),
    (("webhook.enabled=false",), {"BasculeOperatorAdmissionFails"}, ["slurm-operator"])])
def test_no_alert_of_what_is_not_scraped(sets, missing, jobs):
    made = rules(*sets)
    assert not missing & {rule["alert"] for rule in made}
    assert [rule["labels"]["component"] for rule in made if rule["alert"] == "BasculeOperatorDown"] == jobs
    assert [one["metadata"]["name"] for one in objects(CHART.render(*ON, *sets)) if one["kind"] == "ServiceMonitor"] == jobs


def test_alerts_need_a_scrape():
    """Without one every process would be told as down for ever."""
    assert "prometheusRule.enabled needs serviceMonitor.enabled" in CHART.refused("prometheusRule.enabled=true")
    assert "there is nothing to scrape" in CHART.refused("serviceMonitor.enabled=true", "operator.metricsPort=0")


def test_a_scrape_finds_each_component():
    text = CHART.render(*ON, "webhook.metricsSecure=true")
    for name in ("slurm-operator", "slurm-operator-webhook"):
        monitor, service = find(text, "ServiceMonitor", name)["spec"], find(text, "Service", name)
        assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        (endpoint,) = monitor["endpoints"]
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]} and endpoint["path"] == "/metrics"
        assert endpoint.get("scheme") == ("https" if "webhook" in name else None), "as the port speaks"


def series(metric, component="operator", /, **labels):
    job = "slurm-operator" if component == "operator" else f"slurm-operator-{component}"
    labels = {"namespace": "slinky", "job": job, "pod": f"{component}-x"} | labels
    return metric + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


OF = {"exported_namespace": "slurm", "controller": "slurm"}
HEALTHY = {
    **{series("process_start_time_seconds", c): "1000x90" for c in ("operator", "webhook")},
    series("leader_election_master_status"): "1x90",
    series("bascule_slurm_cluster_up", **OF): "0x8 1x80",  # slurmctld takes its time to start
    series("bascule_slurm_cluster_up", exported_namespace="other", controller="slurm"): "1x90",
    series("bascule_object_ready", kind="NodeSet", exported_namespace="slurm", name="gpu"): "0x20 1x70",  # images are pulled
    series("bascule_nodeset_actions_total", action="create_pod", outcome="done"): "0+9x90",
    series("bascule_nodeset_actions_total", action="delete_pod", outcome="stale"): "0+9x90",
    series("bascule_nodeset_actions_total", action="create_pod", outcome="failed"): "0x30 3x60",  # a quota that was raised
    series("controller_runtime_reconcile_errors_total", controller="nodeset-controller"): "0x30 8x60",
    **{series("workqueue_queue_duration_seconds_bucket", name="token", le=le): "0+60x90" for le in ("0.1", "+Inf")},
    series("workqueue_longest_running_processor_seconds", name="token"): "1x90",
    series("bascule_kubernetes_cache_failures", resource="pods"): "2x90",
    series("rest_client_requests_total", code="200", method="GET"): "0+60x90",
    series("rest_client_requests_total", code="409", method="PATCH"): "0+30x90",
    series("controller_runtime_webhook_requests_total", "webhook", code="200"): "0+60x90",
    series("controller_runtime_webhook_requests_total", "webhook", code="500"): "0x90",
    **{series("controller_runtime_webhook_latency_seconds_bucket", "webhook", le=le): "0+60x90" for le in ("0.01", "+Inf")},
    series("bascule_webhook_certificate_expiry_seconds", "webhook"): "2592000-60x90",  # cert-manager renews now
}
FAULTS = {
    "BasculeOperatorDown": {series("process_start_time_seconds", "webhook"): None},
    "BasculeOperatorRestarts": {series("process_start_time_seconds"): "1+100x90"},
    "BasculeOperatorNoLeader": {series("leader_election_master_status"): "0x90"},
    "BasculeOperatorSlurmUnreachable": {series("bascule_slurm_cluster_up", **OF): "0x90"},
    "BasculeOperatorObjectNotReady": {series("bascule_object_ready", kind="NodeSet", exported_namespace="slurm", name="gpu"): "0x90"},
    "BasculeOperatorActionsFail": {series("bascule_nodeset_actions_total", action="write_node", outcome="unknown"): "0+1x90"},
    "BasculeOperatorReconcileErrors": {series("controller_runtime_reconcile_errors_total", controller="nodeset-controller"): "0+1x90"},
    "BasculeOperatorBehind": {series("workqueue_queue_duration_seconds_bucket", name="token", le="0.1"): "0x90", series("workqueue_queue_duration_seconds_bucket", name="token", le="100"): "0+60x90"},
    "BasculeOperatorStuck": {series("workqueue_longest_running_processor_seconds", name="token"): "400x90"},
    "BasculeOperatorCacheStale": {series("bascule_kubernetes_cache_failures", resource="pods"): "9x90"},
    "BasculeOperatorApiErrors": {series("rest_client_requests_total", code="403", method="PATCH"): "0+60x90"},
    "BasculeOperatorAdmissionFails": {series("controller_runtime_webhook_requests_total", "webhook", code="500"): "0+1x90"},
    "BasculeOperatorAdmissionSlow": {series("controller_runtime_webhook_latency_seconds_bucket", "webhook", le="0.01"): "0x90", series("controller_runtime_webhook_latency_seconds_bucket", "webhook", le="10"): "0+60x90"},
    "BasculeOperatorCertificateExpires": {series("bascule_webhook_certificate_expiry_seconds", "webhook"): "604000x90"},
}


@needs_promtool
def test_prometheus_takes_the_rules(tmp_path):
    for sets in ((), ("webhook.metricsPort=0",), ("operator.metricsPort=0",), ("operator.leaderElection=false",)):
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule_spec(*sets)))
        assert promtool("check", "rules", tmp_path / "rules.yaml") == ""


@needs_promtool
def test_each_alert_fires_for_its_fault_alone(tmp_path):
    spec = rule_spec()
    assert {rule["alert"] for group in spec["groups"] for rule in group["rules"]} == set(FAULTS)
    for after in ("40m", "80m"):
        assert fired(tmp_path, spec, HEALTHY, after) == set()
    for alert, fault in FAULTS.items():
        now = {name: values for name, values in (HEALTHY | fault).items() if values is not None}
        assert fired(tmp_path, spec, now, "80m") == {alert}
