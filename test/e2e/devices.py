"""Devices that are not there: ResourceSlices and DeviceClasses as drivers publish them, and the claims that pods get."""

from kubernetes import client
from kubernetes.client.rest import ApiException

from objects import NAMESPACE

GROUP = ("resource.k8s.io", "v1")
GPU, NVIDIA, CPU = "gpu.example.com", "gpu.nvidia.com", "dra.cpu"
PREFIX = "deviceclass.resource.kubernetes.io/"


def resource_slice(driver, node, devices, part=0, parts=1):
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": f"{node}-{driver}-e2e-{part}"},
        "spec": {"driver": driver, "nodeName": node, "pool": {"name": f"{node}-{driver}-pool", "generation": 1, "resourceSliceCount": parts}, "devices": devices}}


def example_gpus(numbers):
    return [{"name": f"gpu-{i}", "attributes": {"index": {"int": i}}} for i in numbers]


def nvidia_gpus(numbers):
    """Their driver tells the number by the name alone."""
    return [{"name": f"gpu-{i}", "attributes": {"productName": {"string": "NVIDIA H100 80GB HBM3"}, "type": {"string": "gpu"}}} for i in numbers]


def cpus(count):
    """Of one socket, each a core of its own."""
    return [{"name": f"cpudev{i:03}", "attributes": {"cpuID": {"int": i}, "coreID": {"int": i}, "socketID": {"int": 0}, "coreType": {"string": "standard"}}} for i in range(count)]


def publish(slices):
    """With the DeviceClasses of their drivers. What is there already stays."""
    api = client.CustomObjectsApi()
    for driver in {s["spec"]["driver"] for s in slices}:
        create(api, "deviceclasses", {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": driver},
                                      "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}})
    for one in slices:
        create(api, "resourceslices", one)


def create(api, plural, body):
    try:
        api.create_cluster_custom_object(*GROUP, plural, body)
    except ApiException as e:
        assert e.status == 409, e


def withdraw(slices):
    for one in slices:
        client.CustomObjectsApi().delete_cluster_custom_object(*GROUP, "resourceslices", one["metadata"]["name"])


def claims():
    return client.CustomObjectsApi().list_namespaced_custom_object(*GROUP, NAMESPACE, "resourceclaims")["items"]


def results(claim):
    return claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])


def gres(slurm, node):
    return slurm.nodes().get(node, {}).get("gres", "")
