"""Devices by class on the real cluster: ResourceSlices as a driver publishes them, without a device. `devcluster dradrivers` prepares the claims for
the kubelets, so that such a pod runs."""

import collections
import json

import pytest

from devices import GPU, PREFIX, claims, example_gpus, gres, publish, resource_slice, results, withdraw
from objects import NAMESPACE, pod
from slurm import VERSION_24
from test_gangs import bound, gang_job, groups, kinds  # noqa: F401 (fixtures)
from waiting import always, eventually

pytestmark = pytest.mark.skipif(VERSION_24, reason="external nodes with devices need Slurm 26.05")


@pytest.fixture
def gpus(bascule, cluster, slurm):
    """A worker with four GPUs in two slices, as Slurm counts them. They stay: fewer devices count only after ten minutes."""
    node = cluster.workers[-1]
    slices = [resource_slice(GPU, node, example_gpus(range(2 * part, 2 * part + 2)), part, 2) for part in range(2)]
    publish(slices)
    eventually(lambda: f"gpu:{GPU}:4" in gres(slurm, node), "Slurm counts four GPUs")
    return node, slices


def ask(spec, count, node):
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}  # test_examples.py gives others some, too
    resources = spec["containers"][0].setdefault("resources", {})
    for part in ("requests", "limits"):
        resources.setdefault(part, {})[PREFIX + GPU] = str(count)


def asking(name, count, node):
    body = pod(name, "sleep 30", exclusive="false")
    ask(body["spec"], count, node)
    return body


def asking_gang(name, pods, count, node=None):
    body = gang_job(name, name, pods, "sleep 30")
    ask(body["spec"]["template"]["spec"], count, node)
    return body


def held():
    return sorted(r["device"] for c in claims() for r in results(c))


def test_pods_get_claims_for_the_devices_that_slurm_gave(gpus, kube, slurm):
    node, _ = gpus
    for name, count in (("two", 2), ("one", 1)):
        kube.apply(asking(name, count, node))
    for name in ("two", "one"):
        eventually(lambda: kube.pod(name).spec.node_name == node, f"pod {name} is bound")
    made = {c["metadata"]["ownerReferences"][0]["name"]: c for c in claims()}
    for name, count in (("two", 2), ("one", 1)):
        assert len(results(made[name])) == count
        assert made[name]["status"]["reservedFor"][0]["uid"] == kube.pod(name).metadata.uid
        raw = json.loads(kube.core.read_namespaced_pod(name, NAMESPACE, _preload_content=False).data)
        assert raw["status"]["extendedResourceClaimStatus"]["resourceClaimName"] == made[name]["metadata"]["name"]
    assert len(set(held())) == 3, held()
    for name in ("two", "one"):
        kube.delete("Pod", name)
    eventually(lambda: not claims(), "the claims are gone with their pods")


def test_more_devices_than_a_node_has_are_not_submitted(gpus, kube, slurm):
    node, _ = gpus
    kube.apply(asking("five", 5, node))
    eventually(lambda: any(f"too few devices of class {GPU}" in said for said in kube.said_about(kube.pod("five"))), "the pod says why")
    assert not kube.job_id(kube.pod("five")) and not claims()


def test_a_driver_that_starts_anew_leaves_the_node_alone(gpus, kube, slurm):
    node, slices = gpus
    withdraw(slices)
    try:
        always(lambda: f"gpu:{GPU}:4" in gres(slurm, node) and "DRAIN" not in slurm.nodes()[node]["state"], 5, "the node keeps its GPUs in Slurm")
    finally:
        publish(slices)
    kube.apply(asking("four", 4, node))
    eventually(lambda: kube.pod("four").spec.node_name == node, "a pod gets all four")


def devices_of():
    """By pod: the pools and devices of its claim."""
    return {c["metadata"]["ownerReferences"][0]["name"]: sorted((r["pool"], r["device"]) for r in results(c)) for c in claims() if results(c)}


@pytest.fixture
def two_cpus(kube, cluster):
    if int(kube.core.read_node(cluster.workers[-1]).status.allocatable["cpu"]) < 2:
        pytest.skip("workers of one CPU")


def test_members_of_a_gang_share_a_nodes_devices(gpus, groups, kube, slurm, two_cpus):  # W18  # noqa: F811
    """One node has devices: the two members must share it, and one that is made anew gets what the lost one had."""
    node, _ = gpus
    groups.pod_group("tight", 2, exclusive="false")
    kube.apply(asking_gang("tight", 2, 2, node))
    eventually(lambda: len(bound(kube)) == 2, "both are bound")
    assert {p.spec.node_name for p in bound(kube)} == {node} and len({kube.job_id(p) for p in bound(kube)}) == 1
    first = devices_of()
    assert len({d for its in first.values() for d in its}) == 4, first
    lost = bound(kube)[0].metadata.name
    kube.delete("Pod", lost)
    eventually(lambda: lost not in devices_of() and len(devices_of()) == 2, "the next one has its claim")
    after = devices_of()
    new = (set(after) - set(first)).pop()
    assert after[new] == first[lost] and set(after) & set(first) == set(first) - {lost}
    eventually(lambda: kube.pod(new).spec.node_name == node, "the next one is bound")
    kube.delete("Job", "tight")
    eventually(lambda: not claims(), "the claims are gone with their pods")


def test_members_go_where_slurm_gave_devices(gpus, groups, kube, slurm, cluster, two_cpus):  # W18  # noqa: F811
    """Two nodes of two CPUs for three members: two and one, as Slurm has counted them."""
    other = resource_slice(GPU, cluster.workers[-2], example_gpus(range(2)))
    publish([other])
    try:
        eventually(lambda: f"gpu:{GPU}:2" in gres(slurm, cluster.workers[-2]), "Slurm counts the GPUs of another node")
        groups.pod_group("spread", 3, exclusive="false")
        kube.apply(asking_gang("spread", 3, 1))
        eventually(lambda: len(bound(kube)) == 3, "all three are bound")
        record = slurm.job(kube.job_id(bound(kube)[0]))
        taken = collections.Counter(p.spec.node_name for p in bound(kube))
        given = {n["node"]: sum(g["count"] for g in n["gres"]) for n in slurm.rest("GET", f"resources/{record['job_id']}")["nodes"]}
        assert taken == given and sum(given.values()) == 3
        assert len({d for its in devices_of().values() for d in its}) == 3
        kube.delete("Job", "spread")
        eventually(lambda: not claims(), "the claims are gone with their pods")
    finally:
        withdraw([other])
