"""Devices by class on the real cluster: ResourceSlices as a driver publishes them, without a driver. The kubelet cannot start such a pod, so the
tests look as far as the bound pod, its claim, and what Slurm gave."""

import json

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

from objects import NAMESPACE, pod
from slurm import VERSION_24
from waiting import always, eventually

pytestmark = pytest.mark.skipif(VERSION_24, reason="external nodes with devices need Slurm 26.05")
CLASS = "gpu.example.com"
RESOURCE = f"deviceclass.resource.kubernetes.io/{CLASS}"


def slice_of(node, part, parts, devices):
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{node}-e2e-{part}"},
        "spec": {"driver": CLASS, "nodeName": node, "pool": {"name": f"{node}-gpus", "generation": 1, "resourceSliceCount": parts},
                 "devices": [{"name": f"gpu-{i}", "attributes": {"index": {"int": i}}} for i in devices]}}


def publish(api, made):
    for kind, body in made:
        try:
            api.create_cluster_custom_object("resource.k8s.io", "v1", kind, body)
        except ApiException as e:
            assert e.status == 409, e


@pytest.fixture
def gpus(bascule, cluster, slurm):
    """A worker with four GPUs in two slices, as Slurm counts them. They stay: fewer devices count only after ten minutes."""
    api = client.CustomObjectsApi()
    node = cluster.workers[-1]
    slices = [("resourceslices", slice_of(node, part, 2, range(2 * part, 2 * part + 2))) for part in range(2)]
    publish(api, [("deviceclasses", {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": CLASS},
                                     "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{CLASS}'"}}]}}), *slices])
    eventually(lambda: f"gpu:{CLASS}:4" in gres(slurm, node), "Slurm counts four GPUs")
    return node, api, slices


def asking(name, count):
    body = pod(name, "sleep 30", exclusive="false")
    resources = body["spec"]["containers"][0].setdefault("resources", {})
    for part in ("requests", "limits"):
        resources.setdefault(part, {})[RESOURCE] = str(count)
    return body


def gres(slurm, node):
    return slurm.nodes().get(node, {}).get("gres", "")


def claims(api):
    return api.list_namespaced_custom_object("resource.k8s.io", "v1", NAMESPACE, "resourceclaims")["items"]


def held(api):
    return sorted(r["device"] for c in claims(api) for r in c.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []))


def test_pods_get_claims_for_the_devices_that_slurm_gave(gpus, kube, slurm):
    node, api, _ = gpus
    for name, count in (("two", 2), ("one", 1)):
        kube.apply(asking(name, count))
    for name in ("two", "one"):
        eventually(lambda: kube.pod(name).spec.node_name == node, f"pod {name} is bound")
    made = {c["metadata"]["ownerReferences"][0]["name"]: c for c in claims(api)}
    for name, count in (("two", 2), ("one", 1)):
        results = made[name]["status"]["allocation"]["devices"]["results"]
        assert len(results) == count
        assert made[name]["status"]["reservedFor"][0]["uid"] == kube.pod(name).metadata.uid
        raw = json.loads(kube.core.read_namespaced_pod(name, NAMESPACE, _preload_content=False).data)
        assert raw["status"]["extendedResourceClaimStatus"]["resourceClaimName"] == made[name]["metadata"]["name"]
    assert len(set(held(api))) == 3, held(api)
    for name in ("two", "one"):
        kube.delete("Pod", name)
    eventually(lambda: not claims(api), "the claims are gone with their pods")


def test_more_devices_than_a_node_has_are_not_submitted(gpus, kube, slurm):
    _, api, _ = gpus
    kube.apply(asking("five", 5))
    eventually(lambda: any(f"too few devices of class {CLASS}" in said for said in kube.said_about(kube.pod("five"))), "the pod says why")
    assert not kube.job_id(kube.pod("five")) and not claims(api)


def test_a_driver_that_starts_anew_leaves_the_node_alone(gpus, kube, slurm):
    node, api, slices = gpus
    for kind, body in slices:
        api.delete_cluster_custom_object("resource.k8s.io", "v1", kind, body["metadata"]["name"])
    try:
        always(lambda: f"gpu:{CLASS}:4" in gres(slurm, node) and "DRAIN" not in slurm.nodes()[node]["state"], 5, "the node keeps its GPUs in Slurm")
    finally:
        publish(api, slices)
    kube.apply(asking("four", 4))
    eventually(lambda: kube.pod("four").spec.node_name == node, "a pod gets all four")
