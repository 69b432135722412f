"""Charts installed, upgraded and removed with helm on a real API server. Nothing runs there: objects are all there is."""
import json

import pytest

from helm import HERE, helm, needs_helm

pytestmark = needs_helm
CHARTS = HERE.parent
# Other tests of the session may have applied them without helm.
CRDS = ("install", "crds", "slurm-operator-crds", "--take-ownership")


@pytest.fixture
def installed(cluster):
    """helm on that server; releases are removed afterwards."""
    releases = []

    def run(verb, release, chart, *args):
        namespace = f"install-{release}"
        releases.append((release, namespace))
        done = helm(verb, release, str(CHARTS / chart), "-n", namespace, "--create-namespace", *cluster.helm_config, *args)
        assert done.returncode == 0, done.stderr
        return namespace

    yield run
    for release, namespace in dict(releases).items():
        helm("uninstall", release, "-n", namespace, *cluster.helm_config)


def data(cluster, namespace, secret):
    done = cluster.kubectl("get", "secret", secret, "-n", namespace, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["data"]


def test_resources_outlive_their_chart(cluster, installed):  # A59
    namespace = installed(*CRDS)
    assert helm("uninstall", "crds", "-n", namespace, *cluster.helm_config).returncode == 0
    assert "nodesets.slinky.slurm.net" in cluster.kubectl("get", "crd", "-o", "name").stdout
    installed(*CRDS)
    installed("upgrade", "crds", "slurm-operator-crds")


def test_keys_outlive_an_upgrade(cluster, installed):
    installed(*CRDS)
    namespace = installed("install", "slurm", "slurm")
    before = [data(cluster, namespace, f"slurm-auth-{which}") for which in ("slurm", "jwt")]
    installed("upgrade", "slurm", "slurm", "--set", "nodesets.cpu.replicas=2")
    assert [data(cluster, namespace, f"slurm-auth-{which}") for which in ("slurm", "jwt")] == before
    # A28: rotated in place, and the new one is kept
    rotated = cluster.kubectl("patch", "secret", "slurm-auth-jwt", "-n", namespace, "--type=merge", "-p", '{"data":{"jwt.key":"bmV3"}}')
    assert rotated.returncode == 0, rotated.stderr
    installed("upgrade", "slurm", "slurm")
    assert data(cluster, namespace, "slurm-auth-jwt") == {"jwt.key": "bmV3"}
    got = cluster.kubectl("get", "slinky", "-n", namespace, "-o", "name").stdout.split()
    assert got == [one + ".slinky.slurm.net/slurm" + more for one, more in (("controller", ""), ("nodeset", "-worker-cpu"), ("restapi", ""))]


def test_an_immutable_key_of_the_original_chart_is_taken_over(cluster, installed):
    installed(*CRDS)
    namespace = installed("install", "old", "slurm", "--set", "fullnameOverride=old")
    patched = cluster.kubectl("patch", "secret", "old-auth-slurm", "-n", namespace, "--type=merge", "-p", '{"immutable":true}')
    assert patched.returncode == 0, patched.stderr
    before = data(cluster, namespace, "old-auth-slurm")
    installed("upgrade", "old", "slurm", "--set", "fullnameOverride=old")
    assert data(cluster, namespace, "old-auth-slurm") == before


def test_certificate_outlives_an_upgrade(cluster, installed):
    namespace = installed("install", "slurm-operator", "slurm-operator", "--set", "certManager.enabled=false")
    before = data(cluster, namespace, "slurm-operator-webhook-ca")
    installed("upgrade", "slurm-operator", "slurm-operator", "--set", "certManager.enabled=false,webhook.replicas=2")
    assert data(cluster, namespace, "slurm-operator-webhook-ca") == before
    hooks = json.loads(cluster.kubectl("get", "validatingwebhookconfiguration", "slurm-operator-webhook", "-o", "json").stdout)["webhooks"]
    assert {hook["clientConfig"]["caBundle"] for hook in hooks} == {before["ca.crt"]}
