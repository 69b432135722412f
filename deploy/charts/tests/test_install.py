"""Charts installed, upgraded and removed with helm on a real API server. Nothing runs there: objects are all there is."""
import json
import os
import re
import shlex

import pytest
import yaml

from helm import HERE, find, helm, needs_helm, objects

pytestmark = needs_helm
CHARTS = HERE.parent
ROOT = HERE.parents[2]
FIRST_CLUSTER = ROOT / "docs/examples/operator/first-cluster.yaml"
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


def immutable(cluster, namespace, secret):
    return cluster.kubectl("get", "secret", secret, "-n", namespace, "-o", "jsonpath={.immutable}").stdout == "true"


def test_resources_outlive_their_chart(cluster, installed):  # A59
    namespace = installed(*CRDS)
    assert helm("uninstall", "crds", "-n", namespace, *cluster.helm_config).returncode == 0
    assert "nodesets.slinky.slurm.net" in cluster.kubectl("get", "crd", "-o", "name").stdout
    installed(*CRDS)
    installed("upgrade", "crds", "slurm-operator-crds")


def test_keys_outlive_an_upgrade(cluster, installed):
    installed(*CRDS)
    namespace = installed("install", "slurm", "slurm", "--set", "jwtKey.immutable=false")
    before = [data(cluster, namespace, f"slurm-auth-{which}") for which in ("slurm", "jwt")]
    installed("upgrade", "slurm", "slurm", "--set", "nodesets.cpu.replicas=2")
    assert [data(cluster, namespace, f"slurm-auth-{which}") for which in ("slurm", "jwt")] == before
    # A28: rotated in place, and the new one is kept, as changeable as it was
    rotated = cluster.kubectl("patch", "secret", "slurm-auth-jwt", "-n", namespace, "--type=merge", "-p", '{"data":{"jwt.key":"bmV3"}}')
    assert rotated.returncode == 0, rotated.stderr
    installed("upgrade", "slurm", "slurm")
    assert data(cluster, namespace, "slurm-auth-jwt") == {"jwt.key": "bmV3"}
    assert [immutable(cluster, namespace, f"slurm-auth-{which}") for which in ("slurm", "jwt")] == [True, False]
    got = cluster.kubectl("get", "slinky", "-n", namespace, "-o", "name").stdout.split()
    assert got == [one + ".slinky.slurm.net/slurm" + more for one, more in (("controller", ""), ("nodeset", "-worker-cpu"), ("restapi", ""))]


def test_an_immutable_key_of_the_original_chart_is_taken_over(cluster, installed):
    """Whatever the values say: nobody can make it changeable again."""
    installed(*CRDS)
    namespace = installed("install", "old", "slurm", "--set", "fullnameOverride=old")
    before = data(cluster, namespace, "old-auth-slurm")
    installed("upgrade", "old", "slurm", "--set", "fullnameOverride=old,slurmKey.immutable=false")
    assert data(cluster, namespace, "old-auth-slurm") == before and immutable(cluster, namespace, "old-auth-slurm")


def test_a_rendering_without_the_cluster_changes_no_key(cluster):
    """As of Argo CD, or of `helm template | kubectl apply`: each makes other keys."""
    cluster.kubectl("create", "namespace", "rendered")

    def apply():
        done = helm("template", "slurm", str(CHARTS / "slurm"), "-n", "rendered", "--kube-version", "1.34.0", "--show-only", "templates/secrets.yaml")
        assert done.returncode == 0, done.stderr
        return cluster.apply(done.stdout)

    assert apply() is None
    before = [data(cluster, "rendered", f"slurm-auth-{which}") for which in ("slurm", "jwt")]
    assert "immutable" in apply()
    assert [data(cluster, "rendered", f"slurm-auth-{which}") for which in ("slurm", "jwt")] == before


def test_keys_brought_for_an_accounting_outside_are_left_alone(cluster, installed):
    """The original makes none there, so that those of slurmdbd were brought under the very names; Helm would refuse them as somebody else's."""
    installed(*CRDS)
    namespace = "install-outside"
    cluster.kubectl("create", "namespace", namespace)
    brought = cluster.kubectl("create", "secret", "generic", "outside-slurm-auth-slurm", "-n", namespace, "--from-literal=slurm.key=brought")
    assert brought.returncode == 0, brought.stderr
    before = data(cluster, namespace, "outside-slurm-auth-slurm")
    outside = ("--set", "accounting.enabled=true,accounting.external=true")
    installed("install", "outside", "slurm", *outside)
    made = data(cluster, namespace, "outside-slurm-auth-jwt")
    installed("upgrade", "outside", "slurm", *outside)
    assert data(cluster, namespace, "outside-slurm-auth-slurm") == before
    assert data(cluster, namespace, "outside-slurm-auth-jwt") == made, "one that the release made is kept"


def test_keys_that_the_chart_made_stay_when_they_are_no_longer_its(cluster, installed):
    """As the chart's README says."""
    installed(*CRDS)
    namespace = installed("install", "mine", "slurm", "--set", "fullnameOverride=mine")
    before = data(cluster, namespace, "mine-auth-slurm")
    kept = cluster.kubectl("annotate", "secret", "mine-auth-slurm", "mine-auth-jwt", "-n", namespace, "helm.sh/resource-policy=keep")
    assert kept.returncode == 0, kept.stderr
    installed("upgrade", "mine", "slurm", "--set", "fullnameOverride=mine,slurmKey.create=false,jwtKey.create=false")
    assert data(cluster, namespace, "mine-auth-slurm") == before


def test_certificate_outlives_an_upgrade(cluster, installed):
    namespace = installed("install", "slurm-operator", "slurm-operator", "--set", "certManager.enabled=false")
    before = data(cluster, namespace, "slurm-operator-webhook-ca")
    installed("upgrade", "slurm-operator", "slurm-operator", "--set", "certManager.enabled=false,webhook.replicas=2")
    assert data(cluster, namespace, "slurm-operator-webhook-ca") == before
    hooks = json.loads(cluster.kubectl("get", "validatingwebhookconfiguration", "slurm-operator-webhook", "-o", "json").stdout)["webhooks"]
    assert {hook["clientConfig"]["caBundle"] for hook in hooks} == {before["ca.crt"]}


@pytest.mark.parametrize("other", ["x-slurm-operator-webhook", "slinky-slurm-operator-webhook"])
def test_a_certificate_for_another_name_is_made_anew(cluster, installed, other):
    """The API server would refuse it, and with it every change of a Slurm object."""
    namespace = installed("install", "slinky", "slurm-operator", "--set", "certManager.enabled=false")
    name = other.removesuffix("-webhook")
    wrong = {"data": data_of_another_name(name, namespace)}
    patched = cluster.kubectl("patch", "secret", "slurm-operator-webhook-ca", "-n", namespace, "--type=merge", "-p", json.dumps(wrong))
    assert patched.returncode == 0, patched.stderr
    installed("upgrade", "slinky", "slurm-operator", "--set", "certManager.enabled=false")
    after = data(cluster, namespace, "slurm-operator-webhook-ca")
    assert after["tls.crt"] != wrong["data"]["tls.crt"]
    hooks = json.loads(cluster.kubectl("get", "validatingwebhookconfiguration", "slurm-operator-webhook", "-o", "json").stdout)["webhooks"]
    assert {hook["clientConfig"]["caBundle"] for hook in hooks} == {after["ca.crt"]}


def data_of_another_name(name, namespace):
    text = helm("template", "r", str(CHARTS / "slurm-operator"), "-n", namespace, "--set", f"certManager.enabled=false,nameOverride={name}").stdout
    return find(text, "Secret", "slurm-operator-webhook-ca")["data"]


def installs(page):
    """The `helm install` commands of a page, as words."""
    text = (ROOT / page).read_text().replace("\\\n", " ").replace("$REGISTRY", "registry.example/hpc")
    return [shlex.split(line, comments=True) for line in re.findall(r"^helm install .*$", text, re.M)]


@pytest.mark.parametrize("page", ["README.md", "docs/operator.md"])
def test_what_a_page_says_to_install_is_what_it_says_to_push(tmp_path, page):
    """Every image of ours is one that the page pushes, under one tag; no cert-manager is needed; and there is a partition."""
    pushed = set(re.findall(r"docker://\$REGISTRY/(\S+?)[;\s]", (ROOT / page).read_text()))
    names = {"slurmctld", "slurmrestd", "slurmdbd", "slurmd", "login"}
    pushed = {f"registry.example/hpc/{one}:26.05" for one in names} | {f"registry.example/hpc/{one}" for one in pushed if "$" not in one}
    (tmp_path / "slurm.yaml").write_text(FIRST_CLUSTER.read_text().replace("REGISTRY", "registry.example/hpc"))
    commands = installs(page)
    assert {os.path.basename(words[3]) for words in commands} >= {"slurm-operator-crds", "slurm-operator", "slurm"}
    for words in commands:
        words[3], words[1] = str(ROOT / words[3]), "template"
        done = helm(*[str(tmp_path / word) if word == "slurm.yaml" else word for word in words[1:] if word != "--create-namespace"], "--kube-version", "1.34.0")
        assert done.returncode == 0, done.stderr
        made = objects(done.stdout)
        assert not [one for one in made if one["apiVersion"].startswith("cert-manager.io/")], words
        images = set(re.findall(r'image: "?([^"\s]+)', done.stdout))
        assert images - pushed <= {"docker.io/library/alpine:3.22"}, words
        if words[3].endswith("/slurm"):
            (controller,) = [one for one in made if one["kind"] == "Controller"]
            assert "PartitionName=all Nodes=ALL Default=YES" in controller["spec"]["extraConf"]
            assert [one["spec"]["replicas"] for one in made if one["kind"] == "NodeSet"] == [2]


def test_the_first_clusters_values_name_every_image_of_ours():
    def keys(value, at=()):
        if isinstance(value, dict):
            for key, one in value.items():
                yield from keys(one, (*at, key))
        elif at[-1] == "repository" and ("bascule" in str(value) or "REGISTRY" in str(value)):
            yield ".".join(at)

    assert sorted(keys(yaml.safe_load(FIRST_CLUSTER.read_text()))) == sorted(keys(yaml.safe_load((CHARTS / "slurm/values.yaml").read_text())))
