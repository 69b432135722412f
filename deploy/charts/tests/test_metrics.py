"""Dashboard and alerts of the chart slurm-bridge speak only of metrics that the program has."""
import json
import re
import time

import pytest
import yaml

from bridge_processes import BINARY, ROOT, processes
from helm import Chart, find, needs_helm
from promtool import fired, needs_promtool, promtool

pytestmark = needs_helm
CHART = Chart("slurm-bridge")
ON = ('grafana.dashboard.enabled=true', 'prometheusRule.enabled=true', 'serviceMonitor.enabled=true')
# Words of PromQL that look like names of metrics: they have an underscore.
FUNCTIONS = {"histogram_quantile", "label_values"}


def dashboard():
    data = find(CHART.render(*ON), "ConfigMap", "slurm-bridge-dashboard")["data"]
    assert list(data) == ["slurm-bridge.json"]
    return json.loads(data["slurm-bridge.json"])


def rules(*sets):
    groups = find(CHART.render(*ON, *sets), "PrometheusRule", "slurm-bridge")["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def names(expression):
    """Names of metrics in an expression: what has an underscore and is no function, label or text."""
    bare = re.sub(r"\{[^{}]*\}", "", re.sub(r'"[^"]*"', "", expression))
    bare = re.sub(r"\b(by|without|on|ignoring|group_left)\s*\([^()]*\)", "", bare)
    return {word for word in re.findall(r"(?<![$\w])[a-z]\w*_\w+", bare)} - FUNCTIONS


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


def registered(without="operator"):
    """Names that the source registers, one house apart; of a histogram its three series."""
    found = set()
    for file in (ROOT / "src").rglob("*.cpp"):
        if file.name.endswith("_test.cpp") or without in file.relative_to(ROOT).parts:
            continue
        text = file.read_text()
        constants = dict(re.findall(r'(k\w+) = ("[a-z_]+")', text))
        for how, word in re.findall(r'\b(counter|gauge|histogram|add|set|observe)\(\s*(?:metrics, )?("[a-z_]+"|k\w+)', text):
            name = constants.get(word, word).strip('"')
            found |= {name + part for part in ("_bucket", "_count", "_sum")} if how in ("histogram", "observe") else {name}
    return found


def test_names_are_found():
    assert names('histogram_quantile(0.9, sum by (le, my_label) (rate(a_b_bucket{c_d="e_f"}[$__rate_interval]))) / x_y') == {"a_b_bucket", "x_y"}


def test_every_metric_is_registered():
    known = registered()
    assert "bascule_slurm_request_duration_seconds_bucket" in known and "workqueue_depth" in known
    unknown = {(where, name) for where, text in expressions() for name in names(text) if name not in known}
    assert not unknown
    used = {name for _, text in expressions() for name in names(text)}
    assert len(used) > 15
    ours = {re.sub("_(bucket|count|sum)$", "", name) for name in known if name.startswith("bascule_")}
    assert ours == {re.sub("_(bucket|count|sum)$", "", name) for name in used if name.startswith("bascule_")}, "each metric of our own has a panel or an alert"


@pytest.mark.skipif(not BINARY.exists(), reason=f"no {BINARY}")
def test_every_metric_is_there_from_the_start(cluster, tmp_path):  # W61: of all three processes
    """A rate over a series that begins with its first event would miss that event."""
    wanted = {name for _, text in expressions() for name in names(text)}
    with processes(cluster, tmp_path) as bridge:
        limit, missing = time.monotonic() + 20, wanted
        while missing and time.monotonic() < limit:
            time.sleep(0.3)
            said = {component: bridge.scrape(component) for component in bridge.metrics}
            missing = wanted - {m[1] for text in said.values() for m in re.finditer(r"^([a-z_]+)[ {]", text, re.M)}
        assert not missing, bridge.logs()
        assert "bascule_slurm_reachable 0" in said["scheduler"] and "bascule_slurm_reachable 0" in said["controllers"]
        assert 'leader_election_master_status{name="slurm-bridge-scheduler"} 1' in said["scheduler"]
        assert "controller_runtime_webhook_requests_total{" in said["admission"]


def test_panels_are_whole():
    board = dashboard()
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "$datasource" and panel["targets"], panel["title"]
            assert all('namespace="$namespace"' in target["expr"] for target in panel["targets"]), panel["title"]
    taken = [(p["gridPos"]["x"] + dx, p["gridPos"]["y"] + dy) for p in panels for dx in range(p["gridPos"]["w"]) for dy in range(p["gridPos"]["h"])]
    assert len(set(taken)) == len(taken), "no panel lies on another"


def test_the_sidecar_finds_the_dashboard():
    labels = find(CHART.render(*ON), "ConfigMap", "slurm-bridge-dashboard")["metadata"]["labels"]
    assert labels["grafana_dashboard"] == "1"
    other = find(CHART.render(*ON, 'grafana.dashboard={"enabled":true,"namespace":"monitoring","labels":{"mine":"yes"},"annotations":{"folder":"Slurm"}}'), "ConfigMap", "slurm-bridge-dashboard")["metadata"]
    assert other["namespace"] == "monitoring" and other["labels"]["mine"] == "yes" and other["annotations"] == {"folder": "Slurm"}


def test_nothing_of_it_without_being_asked():
    kinds = {o["kind"] for o in yaml.safe_load_all(CHART.render()) if o}
    assert not kinds & {"PrometheusRule", "ServiceMonitor"}
    assert "grafana_dashboard" not in CHART.render()


def test_alerts_are_whole():
    seen = rules('scheduler.replicaCount=2', 'controllers.leaderElect=true')
    for rule in seen:
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert rule["annotations"]["summary"] and rule["annotations"]["description"], rule["alert"]
        assert 'namespace="test-namespace"' in rule["expr"], rule["alert"]
    assert [r["labels"]["component"] for r in seen if r["alert"] == "BasculeNoLeader"] == ["slurm-bridge-scheduler", "slurm-bridge-controllers"]
    assert "BasculeNoLeader" not in {r["alert"] for r in rules()}, "without election there is no such metric"
    assert not {r["alert"] for r in rules("admission.enabled=false")} & {"BasculeAdmissionFails", "BasculeAdmissionSlow"}
    assert all('job="mine"' in r["expr"] for r in rules('schedulerConfig.schedulerName="mine"') if r["alert"] == "BasculeSubmitsRefused")
    mine = {"alert": "Mine", "expr": "vector(1)"}
    assert mine in rules("prometheusRule.rules=" + json.dumps([mine]))


def test_alerts_name_reasons_that_exist():
    (rule,) = [r for r in rules() if r["alert"] == "BasculePodsWaitOnFault"]
    reasons = re.search(r'reason=~"([^"]+)"', rule["expr"])[1].split("|")
    names = ("unit_plan.cpp", "unit_submit.cpp", "unit_bind.cpp", "scheduler.cpp", "scheduler_act.cpp")
    source = "".join((ROOT / "src/bridge" / name).read_text() for name in names)
    assert [r for r in reasons if f'"{r}"' not in source] == []
    page = (ROOT / "docs/why-does-my-pod-wait.md").read_text().partition("\n## Reasons")[2].partition("\n### Slurm's reasons")[0]
    ordinary = {"Unschedulable", "InsufficientPods", "Submitting", "SlurmStarting", "VolumeNotReady", "SlurmJobEnded", "SlurmJobSUSPENDED", "GangClosed", "SchedulingGated"}
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.M)) - ordinary == set(reasons), "each reason is ordinary, or its lasting is a fault"


def test_an_answer_that_says_unchanged_is_no_failure():
    """slurmrestd answers 304 to a question with update_time when nothing is newer."""
    said = [text for where, text in expressions() if "bascule_slurm_request_duration" in text and "code!~" in text]
    assert len(said) == 2 and all('code!~"2..|304"' in text for text in said)


def rule_spec(*sets):
    return find(CHART.render(*ON, *sets), "PrometheusRule", "slurm-bridge")["spec"]


@needs_promtool
def test_prometheus_takes_the_rules(tmp_path):
    for sets in ((), ("scheduler.replicaCount=2", "controllers.replicas=2"), ("admission.enabled=false",)):
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule_spec(*sets)))
        assert promtool("check", "rules", tmp_path / "rules.yaml") == ""


def series(metric, component="scheduler", /, **labels):
    labels = {"namespace": "test-namespace", "job": f"slurm-bridge-{component}", "pod": f"{component}-x"} | labels
    return metric + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


SLURM = "bascule_slurm_request_duration_seconds"
HEALTHY = {
    **{series("process_start_time_seconds", c): "1000x60" for c in ("scheduler", "controllers", "admission")},
    **{series("leader_election_master_status", c): "1x60" for c in ("scheduler", "controllers")},
    **{series("bascule_slurm_reachable", c): "1x60" for c in ("scheduler", "controllers")},
    # the one's token is for a year, the other's for a day and renewed by itself
    series("bascule_slurm_token_expiry_seconds"): "20000000x60",
    series("bascule_slurm_token_lifetime_seconds"): "31536000x60",
    series("bascule_slurm_token_expiry_seconds", "controllers"): "20000x60",
    series("bascule_slurm_token_lifetime_seconds", "controllers"): "86400x60",
    **{series(f"{SLURM}_bucket", le=le, operation="get_job", code="200"): "0+60x60" for le in ("0.5", "+Inf")},
    series(f"{SLURM}_count", operation="get_job", code="200"): "0+60x60",
    series(f"{SLURM}_count", operation="list_partitions", code="304"): "0+15x60",  # nothing has changed since: the answer at rest
    series(f"{SLURM}_count", operation="submit_job", code="422"): "0+600x60",  # users' mistakes, each said again every minute
    series("bascule_bridge_submits_total", result="accepted"): "0+60x60",
    series("bascule_bridge_submits_total", result="refused"): "0x60",
    series("bascule_bridge_waiting_pods", reason="Unschedulable"): "500x60",
    series("bascule_bridge_waiting_pods", reason="New"): "1x60",
    **{series("workqueue_queue_duration_seconds_bucket", name="scheduler", le=le): "0+60x60" for le in ("0.1", "+Inf")},
    series("workqueue_longest_running_processor_seconds", name="scheduler"): "1x60",
    series("controller_runtime_reconcile_errors_total", controller="scheduler"): "0x60",
    series("bascule_kubernetes_cache_failures", resource="pods"): "2x60",
    series("rest_client_requests_total", code="200", method="GET"): "0+60x60",
    series("rest_client_requests_total", code="409", method="PATCH"): "0+30x60",
    series("controller_runtime_webhook_requests_total", "admission", code="200"): "0+60x60",
    series("controller_runtime_webhook_requests_total", "admission", code="500"): "0x60",
    **{series("controller_runtime_webhook_latency_seconds_bucket", "admission", le=le): "0+60x60" for le in ("0.01", "+Inf")},
    series("bascule_webhook_certificate_expiry_seconds", "admission"): "2592000-60x60",  # cert-manager renews now
}
FAULTS = {
    "BasculeDown": {series("process_start_time_seconds", "controllers"): None},
    "BasculeNoLeader": {series("leader_election_master_status"): "0x60"},
    "BasculeSlurmUnreachable": {series("bascule_slurm_reachable"): "0x60"},
    "BasculeSlurmTokenExpires": {series("bascule_slurm_token_expiry_seconds"): "1209000x60"},
    "BasculeSlurmSlow": {series(f"{SLURM}_bucket", le="0.5", operation="get_job", code="200"): "0x60", series(f"{SLURM}_bucket", le="10", operation="get_job", code="200"): "0+60x60"},
    "BasculeSlurmErrors": {series(f"{SLURM}_count", operation="cancel_job", code="500"): "0+30x60"},
    "BasculeSubmitsRefused": {series("bascule_bridge_submits_total", result="refused"): "0+1x60"},
    "BasculePodsWaitOnFault": {series("bascule_bridge_waiting_pods", reason="InvalidRequest"): "3x60"},
    "BasculeSubmitsNothing": {series("bascule_bridge_submits_total", result="accepted"): "7x60"},
    "BasculeBehind": {series("workqueue_queue_duration_seconds_bucket", name="scheduler", le="0.1"): "0x60", series("workqueue_queue_duration_seconds_bucket", name="scheduler", le="100"): "0+60x60"},
    "BasculeStuck": {series("workqueue_longest_running_processor_seconds", name="scheduler"): "400x60"},
    "BasculeReconcileErrors": {series("controller_runtime_reconcile_errors_total", controller="scheduler"): "0+60x60"},
    "BasculeCacheStale": {series("bascule_kubernetes_cache_failures", resource="pods"): "9x60"},
    "BasculeApiErrors": {series("rest_client_requests_total", code="403", method="PATCH"): "0+60x60"},
    "BasculeAdmissionFails": {series("controller_runtime_webhook_requests_total", "admission", code="500"): "0+1x60"},
    "BasculeAdmissionSlow": {series("controller_runtime_webhook_latency_seconds_bucket", "admission", le="0.01"): "0x60", series("controller_runtime_webhook_latency_seconds_bucket", "admission", le="10"): "0+60x60"},
    "BasculeCertificateExpires": {series("bascule_webhook_certificate_expiry_seconds", "admission"): "604000x60"},
    "BasculeRestarts": {series("process_start_time_seconds", "controllers"): "1+100x60"},
}


@needs_promtool
def test_each_alert_fires_for_its_fault_alone(tmp_path):
    spec = rule_spec("scheduler.replicaCount=2", "controllers.replicas=2")
    assert {r["alert"] for g in spec["groups"] for r in g["rules"]} == set(FAULTS)
    assert fired(tmp_path, spec, HEALTHY, "50m") == set()
    for alert, fault in FAULTS.items():
        now = {name: values for name, values in (HEALTHY | fault).items() if values is not None}
        assert fired(tmp_path, spec, now, "50m") == {alert}


@needs_promtool
def test_a_token_that_should_have_been_renewed_by_itself_is_told_of(tmp_path):
    late = HEALTHY | {series("bascule_slurm_token_expiry_seconds", "controllers"): "8000x60"}
    assert fired(tmp_path, rule_spec(), late, "50m") == {"BasculeSlurmTokenExpires"}
    unsaid = {name: values for name, values in late.items() if "_lifetime_" not in name}
    assert fired(tmp_path, rule_spec(), unsaid, "50m") == {"BasculeSlurmTokenExpires"}, "it does not say when it was made"
    none = {name: values for name, values in HEALTHY.items() if "_token_" not in name}
    assert fired(tmp_path, rule_spec(), none, "50m") == set(), "it does not say when it ends"


def test_alerts_need_a_scrape():
    """Without one every process would be told as down for ever."""
    assert "prometheusRule.enabled needs serviceMonitor.enabled" in CHART.refused("prometheusRule.enabled=true")


def test_a_scrape_finds_each_component():
    text = CHART.render(*ON)
    for name in ("slurm-bridge-scheduler", "slurm-bridge-controllers", "slurm-bridge-admission"):
        monitor, service = find(text, "ServiceMonitor", name)["spec"], find(text, "Service", name)
        assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert monitor["endpoints"][0]["port"] in {p["name"] for p in service["spec"]["ports"]}
        pod = find(text, "Deployment", name)["spec"]["template"]
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        assert {"name": "metrics", "containerPort": 8080, "protocol": "TCP"} in pod["spec"]["containers"][0]["ports"]
