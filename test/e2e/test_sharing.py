"""Nodes shared by members of a gang and by single pods, and volumes that say where a pod runs, on the real cluster."""

import collections

import pytest
from kubernetes import client

from objects import NAMESPACE, pod
from slurm import ACTIVE, expand
from test_gangs import bound, gang_job, groups, kinds, live  # noqa: F401 (fixtures)
from waiting import always, eventually


@pytest.fixture
def per_node(kube, cluster):
    """How many pods of one CPU a worker takes."""
    return int(kube.core.read_node(cluster.workers[0]).status.allocatable["cpu"])


def test_members_share_nodes(groups, kube, slurm, cluster, per_node):  # W18  # noqa: F811
    """Slurm gives as many nodes as there are; with fewer than members these share them."""
    if per_node < 2:
        pytest.skip("workers of one CPU")
    native = slurm.submit("native-hold", nodes=2, required_nodes=cluster.workers[2:])
    eventually(lambda: slurm.state(native) == "RUNNING", "two nodes are left")
    groups.pod_group("tight", 4, exclusive="false")
    kube.apply(gang_job("tight", "tight", 4, "sleep 8"))
    eventually(lambda: len(bound(kube)) == 4, "all four are bound")
    taken = collections.Counter(p.spec.node_name for p in bound(kube))
    assert len({kube.job_id(p) for p in bound(kube)}) == 1
    assert max(taken.values()) > 1, f"nobody shares: {taken}"
    assert max(taken.values()) <= per_node, f"too many on one node: {taken}"
    record = slurm.job(kube.job_id(bound(kube)[0]))
    assert set(taken) <= set(expand(record["nodes"]))
    eventually(lambda: kube.succeeded("tight"), "all have run")
    slurm.cancel(native)
    eventually(lambda: not live(slurm), "the allocation is free again")


def test_single_pods_share_a_node(bascule, kube, slurm, cluster, per_node):  # W18
    native = slurm.submit("native-hold", nodes=3, required_nodes=cluster.workers[:3])
    eventually(lambda: slurm.state(native) == "RUNNING", "one node is left")
    for i in range(per_node + 1):
        kube.apply(pod(f"single-{i}", "sleep 12", exclusive="false"))
    eventually(lambda: len(bound(kube)) == per_node, "as many as the node has CPUs")
    always(lambda: len([p for p in bound(kube) if p.status.phase in ("Pending", "Running")]) <= per_node, 3, "and no more")
    slurm.cancel(native)
    eventually(lambda: all(p.status.phase == "Succeeded" for p in kube.pods()), "all have run")


def test_a_local_volume_leads_the_pod_to_its_node(bascule, kube, slurm, cluster, tmp_path):  # W21
    home, storage = cluster.workers[2], client.StorageV1Api()
    storage.create_storage_class({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"})
    try:
        kube.core.create_persistent_volume({
            "metadata": {"name": "there"},
            "spec": {"storageClassName": "local", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": str(tmp_path)},
                     "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [home]}]}]}}}})
        kube.core.create_namespaced_persistent_volume_claim(NAMESPACE, {
            "metadata": {"name": "data"}, "spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
        manifest = pod("reads", "ls /data")
        manifest["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        kube.apply(manifest)
        eventually(lambda: kube.pod("reads").spec.node_name == home, "the pod is bound where its volume is")
        assert kube.core.read_namespaced_persistent_volume_claim("data", NAMESPACE).status.phase == "Bound"
        eventually(lambda: kube.pod("reads").status.phase == "Succeeded", "it has run with its volume")
        assert slurm.state(kube.job_id(kube.pod("reads"))) not in ACTIVE or eventually(lambda: not live(slurm), "its job is over")
    finally:
        kube.delete("Pod", "reads")
        kube.core.delete_namespaced_persistent_volume_claim("data", NAMESPACE)
        kube.core.delete_persistent_volume("there")
        storage.delete_storage_class("local")
