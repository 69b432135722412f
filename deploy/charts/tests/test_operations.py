"""What the chart slurm-bridge promises on a real API server: its webhook stops nobody else's pods, its certificate outlives upgrades and
changes without a restart, bad configuration is told, and a release of slurm-bridge becomes ours and back."""
import base64
import contextlib
import json
import socket
import ssl
import subprocess
import time

import pytest
import yaml

from apiserver import free_ports
from bridge_processes import BINARY, kubeconfig, make_certificate, processes
from helm import Chart, days_of, find, helm, needs_helm, objects

pytestmark = needs_helm
CHART = Chart("slurm-bridge")
needs_binary = pytest.mark.skipif(not BINARY.exists(), reason=f"no {BINARY}")
OWN_CERTIFICATE = ("--set", "admission.certManager.enabled=false")


@pytest.fixture
def release(cluster):
    """helm of one release on that server; removed afterwards."""
    namespace = "operations"

    def run(verb, chart, *args):
        done = helm(verb, "bridge", str(chart), "-n", namespace, *cluster.helm_config, *args)
        assert done.returncode == 0, done.stderr
        return namespace

    cluster.kubectl("create", "namespace", namespace)
    yield run
    helm("uninstall", "bridge", "-n", namespace, *cluster.helm_config)


def get(cluster, what, name, namespace="operations"):
    done = cluster.kubectl("get", what, name, "-n", namespace, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def eventually(check, seconds=15):
    limit = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < limit, "not in time"
        time.sleep(0.2)
    return value


# --- the webhook ------------------------------------------------------------------------------------------------------


def make_pod(cluster, namespace, **spec):
    cluster.kubectl("create", "namespace", namespace)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-", "namespace": namespace}, "spec": {"containers": [{"name": "c", "image": "i"}]} | spec}
    return cluster.kubectl("create", "-f", "-", given=json.dumps(pod))


def test_nobody_else_is_stopped_by_a_webhook_that_is_away(cluster, release):  # W56
    release("install", CHART.folder, *OWN_CERTIFICATE, "--set", "admission.managedNamespaces={hpc}")
    # the API server takes up a new webhook configuration within a second or so
    refused = eventually(lambda: (done := make_pod(cluster, "hpc")).returncode and done)
    assert "failed calling webhook" in refused.stderr and "pods.slinky.slurm.net" in refused.stderr
    assert make_pod(cluster, "web").returncode == 0
    assert make_pod(cluster, "operations").returncode == 0, "the bridge's own pods least of all"
    assert "failed calling webhook" in make_pod(cluster, "web", schedulerName="slurm-bridge-scheduler").stderr
    release("upgrade", CHART.folder, *OWN_CERTIFICATE, "--set", "admission.managedNamespaces={hpc},admission.failurePolicy=Ignore")
    eventually(lambda: make_pod(cluster, "hpc").returncode == 0)


def test_a_selector_chooses_namespaces(cluster, release):  # W56
    release("install", CHART.folder, *OWN_CERTIFICATE, "--set", "admission.managedNamespaceSelector.matchLabels.team=hpc")
    cluster.kubectl("create", "namespace", "chosen")
    assert cluster.kubectl("label", "namespace", "chosen", "team=hpc").returncode == 0
    eventually(lambda: "failed calling webhook" in make_pod(cluster, "chosen").stderr)
    assert make_pod(cluster, "web").returncode == 0


# --- certificates -----------------------------------------------------------------------------------------------------


def test_a_certificate_outlives_upgrades(cluster, release):  # W60
    namespace = release("install", CHART.folder, *OWN_CERTIFICATE)
    before = get(cluster, "secret", "slurm-bridge-admission")["data"]
    release("upgrade", CHART.folder, *OWN_CERTIFICATE, "--set", "admission.replicas=2")
    assert get(cluster, "secret", "slurm-bridge-admission")["data"] == before
    hooks = get(cluster, "mutatingwebhookconfiguration", "slurm-bridge-admission")["webhooks"]
    assert {hook["clientConfig"]["caBundle"] for hook in hooks} == {before["ca.crt"]}
    cluster.kubectl("delete", "secret", "slurm-bridge-admission", "-n", namespace)
    release("upgrade", CHART.folder, *OWN_CERTIFICATE)  # how it is renewed
    after = get(cluster, "secret", "slurm-bridge-admission")["data"]
    hooks = get(cluster, "validatingwebhookconfiguration", "slurm-bridge-admission")["webhooks"]
    assert after != before and {hook["clientConfig"]["caBundle"] for hook in hooks} == {after["ca.crt"]}


def served_certificate(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as plain, ssl._create_unverified_context().wrap_socket(plain) as tls:
            return tls.getpeercert(binary_form=True)
    except OSError:
        return None


@needs_binary
def test_a_certificate_changes_without_a_restart(cluster, tmp_path):  # W60
    with processes(cluster, tmp_path) as bridge:
        first = eventually(lambda: served_certificate(bridge.webhook))
        make_certificate(tmp_path, "second")
        eventually(lambda: served_certificate(bridge.webhook) not in (None, first), 30)
        assert bridge.running["admission"].poll() is None


def bundles(cluster):
    """The caBundle of every webhook of the bridge, in base64."""
    hooks = [hook for kind in ("mutating", "validating") for hook in get(cluster, kind + "webhookconfiguration", "slurm-bridge-admission")["webhooks"]]
    return {hook["clientConfig"]["caBundle"] for hook in hooks}


def is_trusted(cluster, port):
    """Whether the API server believes who serves there, whichever webhook it calls."""
    for bundle in bundles(cluster):
        context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
        try:
            with socket.create_connection(("127.0.0.1", port), 2) as plain, context.wrap_socket(plain, server_hostname="slurm-bridge-admission.operations.svc"):
                pass
        except OSError:
            return False
    return True


def mount(data, folder):
    """As kubelet brings a Secret to a pod."""
    for part in ("tls.key", "tls.crt"):
        (folder / "new").write_bytes(base64.b64decode(data[part]))
        (folder / "new").rename(folder / part)


@contextlib.contextmanager
def webhook_of_the_chart(cluster, namespace, folder):
    """The webhook as the chart runs it: with its flags and its account's rights. Its port."""
    (port,) = free_ports(1)
    token = cluster.kubectl("create", "token", "slurm-bridge-admission", "-n", namespace).stdout.strip()
    kubeconfig(cluster, folder / "kubeconfig", token)
    (folder / "config.yaml").write_text("managedNamespaces: [a]\n")
    flags = [one for one in get(cluster, "deployment", "slurm-bridge-admission")["spec"]["template"]["spec"]["containers"][0]["args"] if one.startswith("--certificate-")]
    command = [BINARY, "admission", f"--config={folder}/config.yaml", f"--kubeconfig={folder}/kubeconfig", "--metrics-bind-address=0", "--health-probe-bind-address=0",
               f"--webhook-bind-address=127.0.0.1:{port}", f"--cert-dir={folder}", *flags]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={"POD_NAMESPACE": namespace, "POD_NAME": "admission-0"})
    try:
        yield port
        assert process.poll() is None, (folder / "log").read_text()
    finally:
        process.terminate()
        process.wait(20)


@needs_binary
def test_the_webhook_renews_its_certificate(cluster, release, tmp_path):
    """By its account's rights, without a restart; an upgrade of the chart keeps what it has made."""
    namespace = release("install", CHART.folder, *OWN_CERTIFICATE)

    def secret():
        return get(cluster, "secret", "slurm-bridge-admission")["data"]

    for part in ("tls.key", "tls.crt"):
        (tmp_path / part).write_text("what kubelet brought before the Secret was mended")
    with webhook_of_the_chart(cluster, namespace, tmp_path) as port:
        eventually(lambda: "waits for a certificate" in (tmp_path / "log").read_text())
        mount(secret(), tmp_path)
        eventually(lambda: is_trusted(cluster, port))
        make_certificate(tmp_path, "somebody-else")  # one that does not name the Service
        wrong = {part: base64.b64encode((tmp_path / part).read_bytes()).decode() for part in ("tls.key", "tls.crt")}
        done = cluster.kubectl("patch", "secret", "slurm-bridge-admission", "-n", namespace, "--type=merge", "-p", json.dumps({"data": wrong}))
        assert done.returncode == 0, done.stderr
        eventually(lambda: secret()["tls.crt"] != wrong["tls.crt"], 30)
        renewed = secret()
        assert days_of(renewed["tls.crt"]) == 365
        assert bundles(cluster) == {renewed["ca.crt"]}
        mount(renewed, tmp_path)
        eventually(lambda: is_trusted(cluster, port))
        events = cluster.kubectl("get", "events", "-n", namespace, "-o", "jsonpath={.items[*].reason}").stdout
        assert "CertificateRenewed" in events, (tmp_path / "log").read_text()
        release("upgrade", CHART.folder, *OWN_CERTIFICATE)
        assert secret() == renewed and bundles(cluster) == {renewed["ca.crt"]}
        assert is_trusted(cluster, port)


def test_no_change_of_a_secret_restarts_a_pod():
    """Certificate and token come as whole folders, which kubelet renews; nothing of them is in the pods' template."""
    text = CHART.render("admission.certManager.enabled=false")
    secrets = {v for o in objects(text) if o["kind"] == "Secret" for v in o["data"].values()}
    for name in ("slurm-bridge-admission", "slurm-bridge-controllers", "slurm-bridge-scheduler"):
        template = find(text, "Deployment", name)["spec"]["template"]
        assert set(template["metadata"]["annotations"]) == {"kubectl.kubernetes.io/default-container", "checksum/config"}
        assert not [m for c in template["spec"]["containers"] for m in c["volumeMounts"] if "subPath" in m]
        assert not [v for v in secrets if v in json.dumps(template)]


# --- the processes ----------------------------------------------------------------------------------------------------


@needs_binary
@pytest.mark.parametrize("component", ("scheduler", "controllers", "admission"))
def test_a_bad_configuration_is_told_in_full(tmp_path, component):  # W62
    config = tmp_path / "config.yaml"
    config.write_text("slurmRestApi: 5\npartitoin: x\nmanagedNamespaces: no-list\n")
    done = subprocess.run([BINARY, component, f"--config={config}"], capture_output=True, text=True, timeout=20, env={})
    assert done.returncode == 2, done.stderr
    for word in (str(config), "slurmRestApi", "partitoin", "partition", "managedNamespaces"):
        assert word in done.stderr + done.stdout, f"{word} is not in: {done.stderr}"


@needs_binary
@pytest.mark.parametrize("component", ("scheduler", "controllers", "admission"))
def test_the_configuration_is_where_the_flag_says(tmp_path, component):  # W61
    """No second place is looked at."""
    done = subprocess.run([BINARY, component, f"--config={tmp_path}/none.yaml"], capture_output=True, text=True, timeout=20, env={})
    assert done.returncode != 0 and f"{tmp_path}/none.yaml" in done.stderr + done.stdout
    flags = subprocess.run([BINARY, component, "--help"], capture_output=True, text=True, timeout=20).stdout
    args = [a.split("=")[0] for a in find(CHART.render("controllers.podWorkers=3"), "Deployment", f"slurm-bridge-{component}")["spec"]["template"]["spec"]["containers"][0]["args"][1:]]
    assert args and [a for a in args if a not in flags] == []


@needs_binary
def test_the_second_replica_takes_over(cluster, tmp_path):
    """At once when the first ends in good order; when it is killed as soon as its lease is over."""
    with processes(cluster, tmp_path, one="scheduler", two="scheduler") as bridge:
        leads = 'leader_election_master_status{name="slurm-bridge-scheduler"} 1'

        def leader():
            leading = [name for name, process in bridge.running.items() if process.poll() is None and leads in bridge.scrape(name)]
            assert len(leading) <= 1, "never two"
            return leading and leading[0]

        first = eventually(leader)
        second = "two" if first == "one" else "one"
        bridge.running[first].terminate()
        assert bridge.running[first].wait(10) == 0
        eventually(lambda: leader() == second, 8)
        bridge.start(first, "scheduler")
        eventually(lambda: bridge.scrape(first))
        bridge.running[second].kill()
        eventually(lambda: leader() == first, 30)


# --- from slurm-bridge and back (docs/migration.md) -------------------------------------------------------------------


def original(folder):
    """A chart that makes objects of the names, selectors and kinds that slurm-bridge's has."""
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: slurm-bridge\nversion: 1.3.0\n")

    def metadata(name):
        return {"name": name, "namespace": "operations", "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": "bridge"}}

    made = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(name), "data": {"a": "b"}} for name in ("slurm-bridge-config", "scheduler-config")]
    for name in ("slurm-bridge-admission", "slurm-bridge-controllers", "slurm-bridge-scheduler"):
        labels = metadata(name)["labels"]
        pod = {"serviceAccountName": name, "containers": [{"name": "scheduler" if name.endswith("scheduler") else name, "image": "old:1", "args": ["--x"], "ports": [{"name": "metrics", "containerPort": 8080}],
                                                           "livenessProbe": {"httpGet": {"path": "/healthz", "port": 10259, "scheme": "HTTPS"}, "initialDelaySeconds": 15}}],
               "volumes": [{"name": "slurm-bridge-config", "configMap": {"name": "slurm-bridge-config"}}]}
        made += [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name)},
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(name), "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
             "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "operations"}]},
        ]
    made += [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata("slurm-bridge-admission"), "spec": {"selector": metadata("slurm-bridge-admission")["labels"], "ports": [
            {"name": "https", "port": 443, "targetPort": 9443}, {"name": "health", "port": 8081}]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata("slurm-bridge-controllers"), "spec": {"clusterIP": "None", "selector": metadata("slurm-bridge-controllers")["labels"], "ports": [
            {"name": "metrics", "port": 8080}, {"name": "health", "port": 8081}]}},
        {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata("slurm-bridge-admission"), "data": {"tls.crt": "Y3J0", "tls.key": "a2V5", "ca.crt": "Y2E="}},
    ]
    for kind, path in (("Mutating", "mutate"), ("Validating", "validate")):
        made.append({"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration", "metadata": {"name": "slurm-bridge-admission"}, "webhooks": [
            {"name": "pods.slinky.slurm.net", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore", "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE", "UPDATE"], "scope": "Namespaced"}],
             "clientConfig": {"service": {"name": "slurm-bridge-admission", "namespace": "operations", "path": f"/{path}--v1-pod"}},
             "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "operations"]}]}}]})
    (folder / "templates/all.yaml").write_text(yaml.safe_dump_all(made))
    return folder


def images(cluster):
    items = json.loads(cluster.kubectl("get", "deployments", "-n", "operations", "-o", "json").stdout)["items"]
    return {d["metadata"]["name"]: (d["metadata"]["uid"], d["spec"]["template"]["spec"]["containers"][0]["image"], d["spec"]["strategy"]["type"]) for d in items}


def test_a_release_of_slurm_bridge_becomes_ours_and_back(cluster, release, tmp_path):
    release("install", original(tmp_path / "slurm-bridge"))
    before = images(cluster)
    release("upgrade", CHART.folder, *OWN_CERTIFICATE, "--reset-values")
    after = images(cluster)
    assert {name: uid for name, (uid, *_) in after.items()} == {name: uid for name, (uid, *_) in before.items()}, "in place"
    assert all(image.startswith("ghcr.io/bascule/bascule:") for _, image, _ in after.values())
    assert {name: strategy for name, (_, _, strategy) in after.items()} == {
        "slurm-bridge-admission": "RollingUpdate", "slurm-bridge-controllers": "Recreate", "slurm-bridge-scheduler": "Recreate"}
    assert get(cluster, "secret", "slurm-bridge-admission")["data"]["tls.key"] == "a2V5", "the certificate stays"
    assert cluster.kubectl("get", "configmap", "scheduler-config", "-n", "operations").returncode != 0
    done = helm("rollback", "bridge", "-n", "operations", *cluster.helm_config)
    assert done.returncode == 0, done.stderr
    assert images(cluster) == before
    assert cluster.kubectl("get", "configmap", "scheduler-config", "-n", "operations").returncode == 0


def test_replicas_come_and_go(cluster, release):
    """The strategy follows leader election; the API server refuses one that is half of each."""
    release("install", CHART.folder, *OWN_CERTIFICATE)
    release("upgrade", CHART.folder, *OWN_CERTIFICATE, "--set", "scheduler.replicaCount=2,controllers.replicas=2,scheduler.pdb.enabled=true,networkPolicy.enabled=true")
    assert {strategy for _, _, strategy in images(cluster).values()} == {"RollingUpdate"}
    release("upgrade", CHART.folder, *OWN_CERTIFICATE, "--reset-values")
    assert {name: strategy for name, (_, _, strategy) in images(cluster).items()}["slurm-bridge-scheduler"] == "Recreate"
