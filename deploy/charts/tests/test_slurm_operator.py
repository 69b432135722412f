"""The charts slurm-operator and slurm-operator-crds. Numbers A.. are weaknesses of the original that are closed."""
import base64
import json
import time

import pytest
import yaml

from helm import HERE, Chart, container, days_of, find, needs_helm, objects, value_files, without_certificates

pytestmark = needs_helm
CHART = Chart("slurm-operator", release="slurm-operator", namespace="slinky")
render, refused = CHART.render, CHART.refused
KINDS = ["accounting", "controller", "loginset", "nodeset", "restapi", "token"]


def kinds(text, *wanted):
    return [one for one in objects(text) if one["kind"] in wanted]


@value_files("slurm-operator")
def test_golden(values):
    CHART.matches_golden(values, without_certificates)


def test_lint():
    CHART.lints()
    Chart("slurm-operator-crds").lints()


def test_resources_come_with_a_chart_of_their_own_or_with_this_one():  # A59
    for text in (Chart("slurm-operator-crds").render(), render("crds.enabled=true")):
        made = kinds(text, "CustomResourceDefinition")
        assert [one["spec"]["names"]["singular"] for one in made] == KINDS
        assert all(one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for one in made)
    assert not kinds(render(), "CustomResourceDefinition")


def test_arguments_in_their_order():
    args = container(render(), "slurm-operator")["args"]
    assert args == ["operator", *(f"--{kind}-workers=4" for kind in KINDS), "--slurmclient-workers=2", "--zap-log-level=info", "--health-addr=:8081",
                    "--metrics-addr=:8080", "--profile-addr=localhost:6060", "--leader-elect=true", "--leader-elect-namespace=slinky"]
    args = container(render("operator.metricsPort=0", "operator.profile=true", 'operator.namespaces=" a, ,b"', 'propagatedNodeConditions=["A","B"]'),
                     "slurm-operator")["args"]
    assert args[-7:] == ["--metrics-addr=0", "--profile", "--profile-addr=localhost:6060", "--leader-elect=true", "--leader-elect-namespace=slinky",
                         "--namespaces=a,b", "--propagated-node-conditions=A,B"]
    args = container(render("operator.metricsPort=9090", "operator.metricsSecure=true"), "slurm-operator")["args"]
    assert args[10:12] == ["--metrics-addr=:9090", "--metrics-secure"]
    assert container(render(), "slurm-operator-webhook")["args"] == [
        "operator-webhook", "--zap-log-level=info", "--server-addr=:9443", "--health-addr=:8081", "--metrics-addr=0"]


@pytest.mark.parametrize("port", ['"8O80"', '"08080"', "70000", "false", '""', "-1", '"70000"'])
def test_ports_are_ports(port):
    assert "metricsPort" in refused("operator.metricsPort=" + port)


def test_numbers_may_be_texts_and_nothing_is_the_default():
    """As the original's templates take them, and as parameters of Argo CD come."""
    text = render('operator.healthPort="8082"', 'operator.metricsPort="8083"', 'operator.nodesetWorkers="8"', "operator.tokenWorkers=0", 'operator.controllerWorkers=""',
                  'operator.logLevel=""', 'operator.replicas="12"', "operator.pdb.enabled=true",
                  'webhook.serverPort="9444"', "webhook.timeoutSeconds=0", 'webhook.healthPort=""', 'webhook.replicas="2"', 'imagePullPolicy=""', 'operator.imagePullPolicy=""')
    deployment = find(text, "Deployment", "slurm-operator")["spec"]
    args = deployment["template"]["spec"]["containers"][0]["args"]
    assert deployment["replicas"] == 12 and find(text, "PodDisruptionBudget", "slurm-operator")
    assert {"--health-addr=:8082", "--metrics-addr=:8083", "--nodeset-workers=8", "--zap-log-level=info"} <= set(args)
    assert not [one for one in args if one.startswith(("--token-workers", "--controller-workers"))]
    assert {port["name"]: port["containerPort"] for port in deployment["template"]["spec"]["containers"][0]["ports"]} == {"metrics": 8083, "health": 8082}
    assert deployment["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    webhook = container(text, "slurm-operator-webhook")
    assert {"--server-addr=:9444", "--health-addr=:8081"} <= set(webhook["args"]) and {"name": "https", "containerPort": 9444, "protocol": "TCP"} in webhook["ports"]
    assert {hook["timeoutSeconds"] for hook in find(text, "ValidatingWebhookConfiguration", "slurm-operator-webhook")["webhooks"]} == {10}
    for value in ('operator.healthPort="70000"', 'webhook.serverPort="x"', "operator.nodesetWorkers=-1", 'operator.nodesetWorkers="many"', 'operator.replicas="-1"'):
        assert value.split("=")[0].split(".")[1] in refused(value)


def test_mistakes_are_named():
    for port in ("0", '"0"'):
        assert "operator.metricsSecure needs a metricsPort other than 0" in refused("operator.metricsPort=" + port, "operator.metricsSecure=true")
    assert "replcas" in refused("operator.replcas=2")
    assert "operator.image is empty" in refused('operator.image=""')
    assert "webhook.image.repository is needed" in refused('webhook.image={"repository":"","tag":"1"}')
    assert "operator.replicas: more than one needs operator.leaderElection" in refused("operator.replicas=2", "operator.leaderElection=false")
    assert "timeoutSeconds" in refused("webhook.timeoutSeconds=31")


@pytest.mark.parametrize("image,wanted", [
    ("registry/x:7", "registry/x:7"), ({"repository": "r"}, "r:0.1.0"), ({"repository": "r", "tag": "7"}, "r:7"),
    ({"repository": "r", "tag": "7", "digest": "sha256:" + "0" * 64}, "r@sha256:" + "0" * 64)])
def test_images(image, wanted):
    assert container(render("operator.image=" + json.dumps(image)), "slurm-operator")["image"] == wanted


@pytest.mark.parametrize("pdb,replicas,spec", [
    ({"enabled": False}, 2, None), ({"enabled": True}, 1, None), ({"enabled": True}, 2, {"minAvailable": 1}),
    ({"enabled": True, "maxUnavailable": 0}, 2, {"maxUnavailable": 0}), ({"enabled": True, "minAvailable": None}, 2, {"minAvailable": 1}),
    ({"enabled": True, "minAvailable": "50%", "maxUnavailable": 1}, 3, {"maxUnavailable": 1})])
def test_budgets(pdb, replicas, spec):
    text = render("operator.pdb=" + json.dumps(pdb), f"operator.replicas={replicas}")
    if spec is None:
        assert not kinds(text, "PodDisruptionBudget")
        return
    got = find(text, "PodDisruptionBudget", "slurm-operator")["spec"]
    assert got == {**spec, "selector": find(text, "Deployment", "slurm-operator")["spec"]["selector"]}


def test_pods_are_locked_down():
    for name in ("slurm-operator", "slurm-operator-webhook"):
        pod = find(render(), "Deployment", name)["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        security = pod["containers"][0]["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"] and security["capabilities"] == {"drop": ["ALL"]}


def test_one_that_leads_or_none_beside():
    assert find(render(), "Deployment", "slurm-operator")["spec"]["strategy"] == {"type": "RollingUpdate"}
    alone = render("operator.leaderElection=false")
    assert find(alone, "Deployment", "slurm-operator")["spec"]["strategy"] == {"type": "Recreate"}
    assert not [one for one in kinds(alone, "Role") if "leases" in json.dumps(one)]


def test_containers_are_named_as_the_originals():
    """Patches, `kubectl logs -c` and sidecar injectors go by these names."""
    for name, wanted in (("slurm-operator", "slurm-operator"), ("slurm-operator-webhook", "webhook")):
        pod = find(render(), "Deployment", name)["spec"]["template"]
        assert [one["name"] for one in pod["spec"]["containers"]] == [wanted]
        assert pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] == wanted


def test_selectors_hold_through_an_upgrade():  # A57
    text = render()
    for name in ("slurm-operator", "slurm-operator-webhook"):
        selector = find(text, "Service", name)["spec"]["selector"]
        assert selector == find(text, "Deployment", name)["spec"]["selector"]["matchLabels"]
        assert set(selector) == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}


@pytest.mark.parametrize("account,name", [({"create": True, "name": ""}, "slurm-operator-webhook"), ({"create": True, "name": "mine"}, "mine"),
                                          ({"create": False, "name": "theirs"}, "theirs"), ({"create": False, "name": ""}, "default")])
def test_roles_reach_the_account_whatever_its_name(account, name):  # A56, A57
    text = render("webhook.serviceAccount=" + json.dumps(account))
    assert find(text, "Deployment", "slurm-operator-webhook")["spec"]["template"]["spec"]["serviceAccountName"] == name
    assert bool([one for one in kinds(text, "ServiceAccount") if one["metadata"]["name"] == name]) == account["create"]
    bindings = [one for one in kinds(text, "ClusterRoleBinding") if one["metadata"]["name"].startswith("slurm-operator-webhook")]
    assert len(bindings) == 2
    for one in bindings:
        assert one["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": "slinky"}]
        assert find(text, "ClusterRole", one["roleRef"]["name"])


def test_rights_end_at_the_namespaces_given():  # A52
    text = render('operator.namespaces="a,b"', 'webhook.namespaces="a"')
    for role in kinds(text, "ClusterRole"):
        assert not [rule for rule in role["rules"] if set(rule["resources"]) - {"nodes"}], role["metadata"]["name"]
    for namespace in ("a", "b"):
        (role,) = [one for one in kinds(text, "Role") if one["metadata"]["namespace"] == namespace and one["metadata"]["name"] == "slurm-operator-objects"]
        assert ["configmaps", "persistentvolumeclaims", "pods", "secrets", "services"] in [rule["resources"] for rule in role["rules"]]
        assert [one for one in kinds(text, "RoleBinding") if one["metadata"]["namespace"] == namespace and one["roleRef"]["name"] == role["metadata"]["name"]]


def test_webhook_has_only_the_rights_it_needs():
    def rules(text):
        return [rule for role in kinds(text, "ClusterRole") if role["metadata"]["name"].startswith("slurm-operator-webhook") for rule in role["rules"]]
    assert rules(render()) == [
        {"apiGroups": [""], "resources": ["configmaps", "persistentvolumeclaims"], "verbs": ["get"]},
        {"apiGroups": ["slinky.slurm.net"], "resources": ["nodesets"], "verbs": ["list"]},
    ]
    assert {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]} in rules(render("webhook.podsBinding=true"))


def test_own_certificate_is_renewed_by_the_webhook():
    """It is told what for, and may write that Secret and its configurations alone; with cert-manager, nothing."""
    name, host = "slurm-operator-webhook", "slurm-operator-webhook.slinky"

    def flags(text):
        return [one for one in container(text, name)["args"] if one.startswith("--certificate-")]

    def rules(text, group):
        roles = [one for one in kinds(text, "Role", "ClusterRole") if one["metadata"]["name"].startswith(name)]
        return [(one["kind"], rule["resources"], rule["resourceNames"], rule["verbs"]) for one in roles for rule in one["rules"]
                if rule["apiGroups"] == [group] and "resourceNames" in rule]
    assert flags(render()) == [] and rules(render(), "") == [] and rules(render(), "admissionregistration.k8s.io") == []
    own = ("certManager.enabled=false", 'certManager.secretName="hook"')
    text = render(*own)
    assert flags(text) == ["--certificate-secret=hook", f"--certificate-names={name},{host},{host}.svc,{host}.svc.cluster.local",
                           f"--certificate-webhooks=validating/{name}"]
    assert rules(text, "") == [("Role", ["secrets"], ["hook"], ["get", "patch"])]
    assert rules(text, "admissionregistration.k8s.io") == [("ClusterRole", ["validatingwebhookconfigurations"], [name], ["get", "patch"])]
    assert find(text, "RoleBinding", name)["metadata"]["namespace"] == "slinky"
    assert {days_of(find(text, "Secret", "hook")["data"][part]) for part in ("ca.crt", "tls.crt")} == {365}
    text = render(*own, "webhook.podsBinding=true")
    assert flags(text)[-1] == f"--certificate-webhooks=validating/{name},mutating/{name}"
    assert rules(text, "admissionregistration.k8s.io")[0][1] == ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    assert flags(render(*own, 'webhook.namespaces="a"')), "wherever it looks at objects"


def test_metrics_reader_only_with_secure_metrics():
    assert not [one for one in kinds(render(), "ClusterRole") if "metrics" in one["metadata"]["name"]]
    secure = render("operator.metricsSecure=true")
    assert find(secure, "ClusterRole", "slurm-operator-metrics-reader")["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert not [one for one in kinds(render("operator.metricsSecure=true", "operator.enabled=false"), "ClusterRole") if "metrics" in one["metadata"]["name"]]
    webhooks = ("webhook.metricsSecure=true", "webhook.metricsPort=8080")
    for sets in (webhooks, (*webhooks, "operator.metricsSecure=true"), (*webhooks, "operator.enabled=false")):  # one for both, by the name that bindings have
        (role,) = [one for one in kinds(render(*sets), "ClusterRole") if "metrics" in one["metadata"]["name"]]
        assert role["metadata"]["name"] == "slurm-operator-metrics-reader"


def test_what_the_webhook_sees():
    text = render('webhook.namespaces="a, b"', "webhook.podsBinding=true", "webhook.timeoutSeconds=3", 'webhook.validating.failurePolicy="Ignore"',
                  'webhook.mutating.matchConditions=[{"name":"x","expression":"true"}]')
    hooks = find(text, "ValidatingWebhookConfiguration", "slurm-operator-webhook")["webhooks"]
    assert [hook["name"] for hook in hooks] == [*(kind + "-v1beta1.kb.io" for kind in KINDS), "nodeset-deletion-v1beta1.kb.io"]
    for hook, kind in zip(hooks, KINDS):
        assert hook["clientConfig"]["service"]["path"] == "/validate-slinky-slurm-net-v1beta1-" + kind
        assert hook["failurePolicy"] == "Ignore" and hook["timeoutSeconds"] == 3
        assert [one["expression"] for one in hook["matchConditions"]] == ["!has(object.metadata.deletionTimestamp)"], "what goes is not held up"
        assert [one["values"] for one in hook["namespaceSelector"]["matchExpressions"]] == [["a", "b"], ["kube-system", "kube-public", "kube-node-lease"]]
    (hook,) = find(text, "MutatingWebhookConfiguration", "slurm-operator-webhook")["webhooks"]
    assert hook["failurePolicy"] == "Ignore" and hook["timeoutSeconds"] == 3 and hook["matchConditions"]
    assert hook["namespaceSelector"]["matchExpressions"][1]["values"][-1] == "slinky"
    assert not kinds(render(), "MutatingWebhookConfiguration")
    own = find(render('webhook.validating.namespaceSelector={"matchLabels":{"a":"b"}}'), "ValidatingWebhookConfiguration", "slurm-operator-webhook")
    assert own["webhooks"][0]["namespaceSelector"] == {"matchLabels": {"a": "b"}}


def test_deletions_in_the_foreground_alone_ask_the_webhook(cluster):
    """It is away here, so what asks it is refused. A condition of the user that reads `object` holds up no other deletion."""
    text = render("certManager.enabled=false", 'webhook.namespaces="deletions"', 'webhook.validating.matchConditions=[{"name":"x","expression":"object.metadata.name != \'y\'"}]')
    assert cluster.apply(Chart("slurm-operator-crds").render()) is None
    cluster.kubectl("wait", "--for=condition=Established", "crd/nodesets.slinky.slurm.net", "--timeout=30s")
    cluster.kubectl("create", "namespace", "deletions")
    node_set = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": {"name": "gpu", "namespace": "deletions"}, "spec": {"controllerRef": {"name": "slurm"}}}
    assert cluster.create(node_set, "nodesets")[1] is None
    hooks = find(text, "ValidatingWebhookConfiguration", "slurm-operator-webhook")
    assert cluster.apply(yaml.safe_dump(hooks)) is None

    def said(*args):
        return cluster.kubectl("delete", "-n", "deletions", "--dry-run=server", *args).stderr
    try:
        until = time.monotonic() + 20
        while "failed calling webhook" not in (last := said("nodeset", "gpu", "--cascade=foreground")):  # it takes effect within a second or two
            assert time.monotonic() < until, last
            time.sleep(0.2)
        assert "nodeset-deletion-v1beta1.kb.io" in last
        assert "nodeset-deletion-v1beta1.kb.io" in said("nodesets", "--all", "--cascade=foreground")
        for how in ("background", "orphan"):
            assert said("nodeset", "gpu", "--cascade=" + how) == ""
        one = "/apis/slinky.slurm.net/v1beta1/namespaces/deletions/nodesets"
        for path in (f"{one}/gpu?dryRun=All", f"{one}?dryRun=All"):  # as programs do, without a word of dependents; one, and all
            done = cluster.kubectl("delete", "--raw", path)
            assert done.returncode == 0, done.stderr
    finally:
        cluster.kubectl("delete", "validatingwebhookconfiguration", "slurm-operator-webhook")
        cluster.kubectl("delete", "nodeset", "gpu", "-n", "deletions")


@pytest.mark.parametrize("chart,release,name", [("slurm-operator", "slurm-operator", "slurm-operator-webhook"), ("slurm-bridge", "bridge", "slurm-bridge-admission")])
def test_the_way_to_the_webhook_leads_to_pods_of_the_original_too(chart, release, name):
    """They have no port of a name: while a new pod comes up the Service would lead nowhere, and every object be refused."""
    ports = find(Chart(chart, release=release).render(), "Service", name)["spec"]["ports"]
    assert [port["targetPort"] for port in ports if port["name"] == "https"] == [9443]


def test_certificates():
    text = render()
    assert len([one for one in objects(text) if one["apiVersion"] == "cert-manager.io/v1"]) == 4
    hooks = find(text, "ValidatingWebhookConfiguration", "slurm-operator-webhook")
    assert hooks["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == "slinky/slurm-operator-webhook"
    assert not [hook for hook in hooks["webhooks"] if "caBundle" in hook["clientConfig"]]
    text = render("certManager.enabled=false")
    secret = find(text, "Secret", "slurm-operator-webhook-ca")
    assert all(base64.b64decode(secret["data"][key]).startswith(b"-----BEGIN") for key in ("ca.crt", "tls.crt", "tls.key"))
    hooks = find(text, "ValidatingWebhookConfiguration", "slurm-operator-webhook")["webhooks"]
    assert [hook["clientConfig"]["caBundle"] for hook in hooks] == [secret["data"]["ca.crt"]] * 7


def test_parts_can_be_left_out():
    assert not [one for one in objects(render("webhook.enabled=false")) if "webhook" in one["metadata"]["name"]]
    text = render("operator.enabled=false")
    assert [one["metadata"]["name"] for one in kinds(text, "Deployment")] == ["slurm-operator-webhook"]


@pytest.mark.parametrize("release,sets,name,full", [
    ("slurm-operator", (), "slurm-operator", "slurm-operator"), ("slinky", (), "slurm-operator", "slinky-slurm-operator"),
    ("slinky", ('nameOverride="op"',), "op", "slinky-op"), ("slinky", ('fullnameOverride="x"',), "slurm-operator", "x")])
def test_objects_are_named_after_the_chart_and_roles_after_the_release(release, sets, name, full):
    text = Chart("slurm-operator", release=release, namespace="slinky").render(*sets)
    for kind in ("Deployment", "Service"):
        assert [one["metadata"]["name"] for one in kinds(text, kind)] == [name, name + "-webhook"]
    hooks = find(text, "ValidatingWebhookConfiguration", name + "-webhook")["webhooks"]
    assert {hook["clientConfig"]["service"]["name"] for hook in hooks} == {name + "-webhook"}
    assert [one["spec"]["dnsNames"] for one in kinds(text, "Certificate") if "dnsNames" in one["spec"]] == [[name + "-webhook", name + "-webhook.slinky.svc"]]
    assert [one["metadata"]["name"] for one in kinds(text, "ServiceAccount")] == [full, name + "-webhook"]
    for one in kinds(text, "ClusterRole", "ClusterRoleBinding"):
        assert one["metadata"]["name"].startswith(full), "two releases have roles of their own"
    assert find(render('namespaceOverride="y"'), "Deployment", "slurm-operator-webhook")["metadata"]["namespace"] == "y"


def test_nothing_may_be_updated_since_all_is_patched():
    """`*/finalizers` alone: children that block the deletion of their owner need it (OwnerReferencesPermissionEnforcement)."""
    text = render("operator.metricsSecure=true", "webhook.podsBinding=true")
    rules = [rule for role in kinds(text, "Role", "ClusterRole") for rule in role["rules"]]
    for rule in rules:
        finalizers = [one for one in rule.get("resources", []) if one.endswith("/finalizers")]
        assert "update" not in rule["verbs"] or rule["resources"] == finalizers, rule
        assert rule["verbs"] == ["patch"] or not [one for one in rule.get("resources", []) if one.endswith("/status")], rule
    assert [rule["apiGroups"] for rule in rules if "events" in rule.get("resources", [])] == [["events.k8s.io"]]
    assert {"apiGroups": ["slinky.slurm.net"], "resources": ["nodesets"], "verbs": ["patch"]} in rules, "their finalizer"


@pytest.mark.parametrize("values", [None, "full"])
def test_a_real_api_server_takes_it(cluster, values):
    files = [HERE / "values/slurm-operator" / f"{values}.yaml"] if values else []
    text = render(files=files)
    for name in ("slinky", "slurm", "other", "monitoring"):
        cluster.kubectl("create", "namespace", name)
    known = [one for one in objects(text) if not one["apiVersion"].startswith(("cert-manager.io/", "monitoring.coreos.com/"))]
    assert cluster.apply(yaml.safe_dump_all(known), "--dry-run=server") is None
