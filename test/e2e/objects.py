"""Manifests of the workloads under test."""

NAMESPACE = "slurm-bridge"
LABEL_JOB_ID = "scheduler.slinky.slurm.net/slurm-jobid"
LABEL_EXTERNAL = "scheduler.slinky.slurm.net/external-node"
ANNOTATION_NODE = "slinky.slurm.net/slurm-node"
FINALIZER = "scheduler.slinky.slurm.net/finalizer"
TAINT = "slinky.slurm.net/managed-node"
JOB_ANNOTATION = "slurmjob.slinky.slurm.net/"
IMAGE = "docker.io/library/busybox:stable"


def pod_spec(command, scheduler=None):
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", command],
            "resources": {"requests": {"cpu": "1", "memory": "100Mi"}, "limits": {"cpu": "1", "memory": "100Mi"}},
        }],
    }
    return spec | ({"schedulerName": scheduler} if scheduler else {})


def pod(name, command="sleep 1", namespace=NAMESPACE, scheduler=None, **slurm):
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations(slurm)},
            "spec": pod_spec(command, scheduler)}


def job(name, command="sleep 1", parallelism=1, namespace=NAMESPACE, **slurm):
    return {"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations(slurm)},
            "spec": {"parallelism": parallelism, "completions": parallelism, "backoffLimit": 0, "template": {"spec": pod_spec(command)}}}


def annotations(slurm):
    return {JOB_ANNOTATION + key.replace("_", "-"): str(value) for key, value in slurm.items()}
