"""The chart slurm-bridge: golden renderings and what must hold of them."""
import base64
import json
import re
import shutil

import pytest
import yaml

from helm import Chart, container, days_of, find, needs_helm, objects, value_files, without_certificates

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


def test_security_contexts_are_the_sites_to_choose():
    """On OpenShift the namespace gives the user: a fixed one is refused."""
    free = '{"runAsUser":null,"runAsGroup":null,"fsGroup":null}'
    text = render(*(f"{component}.podSecurityContext={free}" for component in ("scheduler", "controllers", "admission")), 'admission.securityContext={"readOnlyRootFilesystem":false}')
    for name in ("slurm-bridge-scheduler", "slurm-bridge-controllers", "slurm-bridge-admission"):
        pod = find(text, "Deployment", name)["spec"]["template"]["spec"]
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] == (name != "slurm-bridge-admission")
    none = find(render("scheduler.podSecurityContext=null", "scheduler.securityContext=null"), "Deployment", "slurm-bridge-scheduler")["spec"]["template"]["spec"]
    assert "securityContext" not in none and "securityContext" not in none["containers"][0]


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
    assert hooks[0]["namespaceSelector"]["matchLabels"] == {"team": "hpc"}
    assert [c["name"] for c in hooks[0]["matchConditions"]] == ["changed"]
    assert "'system:serviceaccount:test-namespace:slurm-bridge-scheduler'" in hooks[0]["matchConditions"][0]["expression"]
    assert "matchConditions" not in find(selected, "MutatingWebhookConfiguration", "slurm-bridge-admission")["webhooks"][0]
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


def test_own_certificate_is_renewed_by_the_webhook():
    """It is told what for, and may write that Secret and those configurations alone."""
    text = render("admission.certManager.enabled=false")
    name, host = "slurm-bridge-admission", "slurm-bridge-admission.test-namespace"
    flags = [one for one in container(text, name)["args"] if one.startswith("--certificate-")]
    assert flags == [f"--certificate-secret={name}", f"--certificate-names={host},{host}.svc,{host}.svc.cluster.local",
                     f"--certificate-webhooks=mutating/{name},validating/{name}"]
    assert find(text, "ClusterRole", name)["rules"] == [
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
         "resourceNames": [name], "verbs": ["get", "patch"]}]
    role = find(text, "Role", name)
    assert role["metadata"]["namespace"] == "test-namespace"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": ["get", "patch"]},
                             {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}]
    assert find(text, "RoleBinding", name)["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": "test-namespace"}]
    selector = find(render("admission.certManager.enabled=false", 'admission.managedNamespaceSelector={"matchLabels":{"a":"b"}}'), "ClusterRole", name)["rules"]
    assert [rule["resources"][0] for rule in selector] == ["namespaces", "mutatingwebhookconfigurations"]


@pytest.mark.parametrize("sets", [(), ("admission.certManager.enabled=false", 'admission.tls={"existingSecret":"mine","caBundle":"Y2E="}')])
def test_a_certificate_of_others_is_never_touched(sets):
    text = render(*sets)
    assert not [one for one in container(text, "slurm-bridge-admission")["args"] if "certificate" in one]
    rules = [rule for one in objects(text) if one["kind"] in ("Role", "ClusterRole") for rule in one["rules"]]
    assert not [rule for rule in rules if {"secrets", "validatingwebhookconfigurations"} & set(rule["resources"])]
    assert not [one for one in objects(text) if one["kind"] == "Role" and one["metadata"]["name"] == "slurm-bridge-admission"]


def test_own_certificate_is_for_a_year():
    secret = find(render("admission.certManager.enabled=false"), "Secret", "slurm-bridge-admission")["data"]
    for part in ("ca.crt", "tls.crt"):
        assert days_of(secret[part]) == 365


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


def test_device_drivers_reach_all_processes():  # W36
    drivers = [{"driver": "fpga.example.org", "numberAttribute": "slot"}]
    text = render(f"sharedConfig.deviceDrivers={json.dumps(drivers)}")
    assert yaml.safe_load(find(text, "ConfigMap", "slurm-bridge-config")["data"]["config.yaml"])["deviceDrivers"] == drivers
    assert "deviceDrivers" not in find(render(), "ConfigMap", "slurm-bridge-config")["data"]["config.yaml"]
    assert "kind" in refused('sharedConfig.deviceDrivers=[{"driver":"a","kind":"fpga"}]')


def test_several_partitions_may_be_the_default():
    config = yaml.safe_load(find(render('schedulerConfig.partition="gpu,cpu"'), "ConfigMap", "slurm-bridge-config")["data"]["config.yaml"])
    assert config["partition"] == "gpu,cpu"
    assert "partition" in refused('schedulerConfig.partition="gpu, cpu"')
    assert "partition" in refused('schedulerConfig.partition="gpu,"')


def test_admission_can_be_left_out():
    text = render("admission.enabled=false")
    assert not [o for o in objects(text) if "admission" in o["metadata"]["name"]]


def test_a_webhook_that_nobody_serves_is_refused():
    """With Fail no pod of a managed namespace could be created."""
    assert "admission.replicas: 0 with admission.failurePolicy Fail" in refused("admission.replicas=0")
    assert find(render("admission.replicas=0", 'admission.failurePolicy="Ignore"'), "Deployment", "slurm-bridge-admission")["spec"]["replicas"] == 0
    assert render("admission.replicas=0", "admission.enabled=false")


def test_names_are_the_originals_whatever_the_release_is_called():
    for text in (render(), render('fullnameOverride="x"')):
        assert [one["metadata"]["name"] for one in objects(text) if one["kind"] == "Deployment"] == [
            "slurm-bridge-admission", "slurm-bridge-controllers", "slurm-bridge-scheduler"]
        assert find(text, "ConfigMap", "slurm-bridge-config")
    named = render('nameOverride="n"')
    assert container(named, "n-controllers") and find(named, "ConfigMap", "slurm-bridge-config")


def test_containers_and_volumes_are_named_as_the_originals():
    """Patches, `kubectl logs -c` and sidecar injectors go by these names."""
    for sets, prefix in (((), "slurm-bridge"), (('nameOverride="n"',), "n")):
        text = render(*sets)
        for name, wanted in (("slurm-bridge-scheduler", "scheduler"), (f"{prefix}-controllers", f"{prefix}-controllers"), (f"{prefix}-admission", f"{prefix}-admission")):
            pod = find(text, "Deployment", name)["spec"]["template"]
            assert [one["name"] for one in pod["spec"]["containers"]] == [wanted]
            assert pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] == wanted
            assert {"name": "slurm-bridge-config", "configMap": {"name": "slurm-bridge-config"}} in pod["spec"]["volumes"]


def test_roles_hold_no_more_than_is_called():
    for text in (render(), render('admission.managedNamespaceSelector={"matchLabels":{"a":"b"}}')):
        rules = [rule for one in objects(text) if one["kind"] in ("Role", "ClusterRole") for rule in one["rules"]]
        assert not [rule for rule in rules if "update" in rule["verbs"]], "all is patched"
        for rule in rules:
            assert "namespaces" not in rule["resources"] or rule["verbs"] == ["get"], rule
    (rule,) = [rule for rule in find(render(), "ClusterRole", "slurm-bridge-scheduler")["rules"] if "namespaces" in rule["resources"]]
    assert rule["resourceNames"] == ["kube-system"], "its UID is the cluster's name"


# Values of slurm-bridge 1.3 and its successors, with their defaults. A values file that sets any of them must be understood.
COMPONENT = {"image.pullPolicy": "IfNotPresent", "image.tag": "", "pdb.enabled": False, "priorityClassName": "", "resources": {}, "nodeSelector": {}, "affinity": {}, "tolerations": []}
ORIGINAL = {
    "nameOverride": "", "fullnameOverride": "", "namespaceOverride": "",
    **{f"scheduler.{key}": value for key, value in COMPONENT.items()},
    "scheduler.replicaCount": 1, "scheduler.leaderElect": False, "scheduler.verbosity": None,
    "schedulerConfig.schedulerName": "slurm-bridge-scheduler", "schedulerConfig.mcsLabel": "kubernetes", "schedulerConfig.partition": "slurm-bridge",
    "schedulerConfig.clientQPS": None, "schedulerConfig.clientBurst": None,
    **{f"admission.{key}": value for key, value in COMPONENT.items()},
    "admission.enabled": True, "admission.replicas": 1, "admission.pdb.minAvailable": 1, "admission.pdb.maxUnavailable": None,
    "admission.certManager.enabled": True, "admission.certManager.duration": "43800h0m0s", "admission.certManager.renewBefore": "8760h0m0s",
    "admission.tls.existingSecret": "", "admission.tls.caBundle": "",
    "admission.managedNamespaces": ["slurm-bridge"], "admission.managedNamespaceSelector": {},
    **{f"controllers.{key}": value for key, value in COMPONENT.items()},
    "controllers.replicas": 1, "controllers.leaderElect": False, "controllers.verbosity": None, "controllers.podWorkers": None,
    "controllers.pdb.minAvailable": 1, "controllers.pdb.maxUnavailable": None,
    "sharedConfig.slurmRestApi": "http://slurm-restapi.slurm:6820", "sharedConfig.slurmJwtSecret": "slurm-bridge-token", "sharedConfig.deviceProfiles": None,
}


def test_every_value_of_the_original_is_here_with_its_default():
    ours = yaml.safe_load((CHART.folder / "values.yaml").read_text())
    for path, default in ORIGINAL.items():
        at = ours
        for key in path.split("."):
            assert key in at, path
            at = at[key]
        assert at == default, path
    schema = json.loads((CHART.folder / "values.schema.json").read_text())

    def described(values, schema, path=""):
        for key, value in values.items():
            assert key in schema["properties"], f"{path}{key} is not in the schema"
            if isinstance(value, dict) and "properties" in schema["properties"][key]:
                described(value, schema["properties"][key], f"{path}{key}.")

    described(ours, schema)


def test_a_values_file_of_the_original_is_understood():
    gates = {"DRAExtendedResource": True, "SchedulerPopFromBackoffQ": False}
    text = render("scheduler.featureGates=" + json.dumps(gates), "schedulerConfig.clientQPS=50.5", "schedulerConfig.clientBurst=100", "controllers.podWorkers=8",
                  "scheduler.verbosity=5", 'sharedConfig.slurmJwtSecret={"name":"token","key":"SLURM_JWT"}', 'admission.image.repository="ghcr.io/slinkyproject/slurm-bridge-admission"')
    assert "--pod-workers=8" in container(text, "slurm-bridge-controllers")["args"]
    assert "--zap-log-level=5" in container(text, "slurm-bridge-scheduler")["args"]
    for name in ("slurm-bridge-scheduler", "slurm-bridge-controllers"):
        (secret,) = [v["secret"] for v in find(text, "Deployment", name)["spec"]["template"]["spec"]["volumes"] if v["name"] == "slurm-jwt"]
        assert secret["secretName"] == "token" and secret["items"] == [{"key": "SLURM_JWT", "path": "auth-token"}]
    assert "deviceProfiles" in refused('sharedConfig.deviceProfiles=[{"name":"cpu"}]')


def test_numbers_may_be_texts_and_nothing_is_the_default():
    """As the original's templates take them, and as parameters of Argo CD come."""
    text = render('scheduler.replicaCount="2"', "admission.replicas=12", 'controllers.replicas="1"', 'controllers.podWorkers="8"', 'controllers.verbosity=""', "scheduler.verbosity=0",
                  'admission.image.repository=""', "scheduler.image.tag=1.3")
    assert container(text, "slurm-bridge-scheduler")["image"].endswith(":1.3")
    assert container(text, "slurm-bridge-admission")["image"] == container(render(), "slurm-bridge-admission")["image"]
    assert find(text, "Deployment", "slurm-bridge-scheduler")["spec"]["replicas"] == 2 and "--leader-elect=true" in container(text, "slurm-bridge-scheduler")["args"]
    assert find(text, "Deployment", "slurm-bridge-admission")["spec"]["replicas"] == 12
    assert find(text, "Deployment", "slurm-bridge-controllers")["spec"]["replicas"] == 1
    assert {"--pod-workers=8", "--zap-log-level=info", "--leader-elect=false"} <= set(container(text, "slurm-bridge-controllers")["args"])
    assert "--zap-log-level=0" in container(text, "slurm-bridge-scheduler")["args"]
    assert "replicaCount" in refused('scheduler.replicaCount="two"') and "podWorkers" in refused('controllers.podWorkers="0"')
    assert "admission.replicas: 0" in refused('admission.replicas="0"')


def test_a_certificate_from_elsewhere():  # W60: also where charts are rendered without a cluster
    text = render("admission.certManager.enabled=false", 'admission.tls={"existingSecret":"mine","caBundle":"Y2E="}')
    assert not [o for o in objects(text) if o["kind"] == "Secret" or o["apiVersion"].startswith("cert-manager.io")]
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        assert find(text, kind, "slurm-bridge-admission")["webhooks"][0]["clientConfig"]["caBundle"] == "Y2E="
    volumes = {v["name"]: v for v in find(text, "Deployment", "slurm-bridge-admission")["spec"]["template"]["spec"]["volumes"]}
    assert volumes["certificates"]["secret"]["secretName"] == "mine"
    assert "caBundle" in refused("admission.certManager.enabled=false", 'admission.tls.existingSecret="mine"')
    assert "certManager" in refused('admission.tls={"existingSecret":"mine","caBundle":"Y2E="}')


def test_cert_manager_renews_what_the_pods_mount():
    text = render()
    (secret,) = [v["secret"] for v in find(text, "Deployment", "slurm-bridge-admission")["spec"]["template"]["spec"]["volumes"] if v["name"] == "certificates"]
    certificate = find(text, "Certificate", "slurm-bridge-admission")
    assert certificate["spec"]["secretName"] == secret["secretName"]
    assert "slurm-bridge-admission.test-namespace.svc" in certificate["spec"]["dnsNames"]
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        annotations = find(text, kind, "slurm-bridge-admission")["metadata"]["annotations"]
        assert annotations["cert-manager.io/inject-ca-from"] == "test-namespace/slurm-bridge-admission"


def test_readiness_is_readiness():  # W59
    for name in ("slurm-bridge-scheduler", "slurm-bridge-controllers", "slurm-bridge-admission"):
        one = container(render(), name)
        assert one["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
        assert one["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
        assert {"name": "health", "containerPort": 8081, "protocol": "TCP"} in one["ports"]


@pytest.mark.parametrize("component,count", [("scheduler", "replicaCount"), ("admission", "replicas"), ("controllers", "replicas")])
def test_two_replicas(component, count):
    """They elect, spread over nodes, and one of them may go."""
    name = f"slurm-bridge-{component}"
    text = render(f"{component}.{count}=2", f"{component}.pdb.enabled=true")
    spec = find(text, "Deployment", name)["spec"]
    assert spec["replicas"] == 2 and "strategy" not in spec
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway" and spread["labelSelector"]["matchLabels"] == spec["selector"]["matchLabels"]
    assert component == "admission" or "--leader-elect=true" in container(text, name)["args"]
    budget = find(text, "PodDisruptionBudget", name)["spec"]
    assert budget["selector"]["matchLabels"] == spec["selector"]["matchLabels"]
    assert budget.get("maxUnavailable") == 1 or budget.get("minAvailable") == 1
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}
    own = find(render(f"{component}.{count}=2", f"{component}.affinity=" + json.dumps(apart)), "Deployment", name)["spec"]["template"]["spec"]
    assert own["affinity"] == apart and "topologySpreadConstraints" not in own
    assert "topologySpreadConstraints" not in find(render(), "Deployment", name)["spec"]["template"]["spec"]


def test_lease_and_role_fit():
    """Who elects may write leases in the namespace of the lease, and is told its name and namespace."""
    text = render("scheduler.replicaCount=2", "controllers.replicas=2", 'namespaceOverride="other"')
    for name in ("slurm-bridge-scheduler", "slurm-bridge-controllers"):
        rules = find(text, "Role", name)
        assert rules["metadata"]["namespace"] == "other" and rules["rules"][0]["resources"] == ["leases"]
        fields = {e["name"]: e.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") for e in container(text, name)["env"]}
        assert fields["POD_NAME"] == "metadata.name" and fields["POD_NAMESPACE"] == "metadata.namespace"


def test_network_policies_let_in_what_is_served():
    text = render("networkPolicy.enabled=true")
    for name in ("slurm-bridge-scheduler", "slurm-bridge-controllers", "slurm-bridge-admission"):
        policy = find(text, "NetworkPolicy", name)["spec"]
        assert policy["policyTypes"] == ["Ingress"], "what they call is not limited"
        assert policy["podSelector"]["matchLabels"] == find(text, "Deployment", name)["spec"]["selector"]["matchLabels"]
        served = {p["name"] for p in container(text, name)["ports"]}
        assert {p["port"] for rule in policy["ingress"] for p in rule["ports"]} == served


def test_flags_are_the_programs():  # W61: of admission too; none is ignored
    for component in ("scheduler", "controllers", "admission"):
        args = container(render(), f"slurm-bridge-{component}")["args"]
        assert args[0] == component
        assert "--config=/etc/slurm-bridge/config.yaml" in args and "--metrics-bind-address=:8080" in args


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """The notes as an object of the chart: Helm itself shows them only where it can ask a cluster."""
    folder = tmp_path_factory.mktemp("chart") / "slurm-bridge"
    shutil.copytree(CHART.folder, folder)
    (folder / "templates/NOTES.txt").rename(folder / "notes.txt")
    (folder / "templates/notes.yaml").write_text(
        'kind: ConfigMap\nmetadata: {name: notes}\ndata: {text: {{ tpl (.Files.Get "notes.txt") . | toJson }}}\n')

    def show(*sets):
        chart = Chart("slurm-bridge")
        chart.folder = folder
        return find(chart.render(*sets), "ConfigMap", "notes")["data"]["text"]
    return show


def test_the_notes_say_who_will_be_evicted(notes):
    text = notes()
    assert text.index("are evicted at once") < text.index("kubectl drain") < text.index("kubectl label node")
    assert "(scheduler.tolerations, controllers.tolerations, admission.tolerations)" in text
    mild = '[{"key":"slinky.slurm.net/managed-node","operator":"Exists","effect":"NoExecute"}]'
    assert "(admission.tolerations)" in notes(f"scheduler.tolerations={mild}", 'controllers.tolerations=[{"operator":"Exists"}]')
    assert "tolerate that taint either" not in notes(f"scheduler.tolerations={mild}", f"controllers.tolerations={mild}", "admission.enabled=false")
    other = '[{"key":"dedicated","operator":"Exists"}]'
    assert "(scheduler.tolerations, " in notes(f"scheduler.tolerations={other}")
