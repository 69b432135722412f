"""Every manifest of docs/examples does on the real cluster what its comment says."""

import subprocess

import pytest

from conftest import DEVCLUSTER, ROOT
from objects import NAMESPACE
from slurm import ACTIVE, expand
from waiting import eventually

EXAMPLES = ROOT / "docs/examples"
# file: (pods, whether they end by themselves, Slurm job name, time limit in minutes or None)
EXPECTED = {
    "pod.yaml": (1, True, "sleep-pod", 1),
    "job.yaml": (1, True, "hello", 5),
    "job-parallel.yaml": (3, True, "large-job", None),
    "job-indexed.yaml": (4, True, "sweep", None),
    "cronjob.yaml": (1, True, "nightly", 10),
    "deployment.yaml": (2, False, "service", None),
    "statefulset.yaml": (2, False, "store", None),
}


def kubectl(*args):
    done = subprocess.run([DEVCLUSTER, "run", "kubectl", "-n", NAMESPACE, *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_tried():
    assert {f.name for f in EXAMPLES.glob("*.yaml")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(bascule, kube, slurm, name):
    count, ends, job_name, limit = EXPECTED[name]
    before = max(slurm.states(), default=0)
    kubectl("apply", "-f", str(EXAMPLES / name))
    try:
        if name == "cronjob.yaml":
            kubectl("create", "job", "nightly-now", "--from=cronjob/nightly")  # belongs to the CronJob, and goes with it
        wanted = "Succeeded" if ends else "Running"

        def all_there():
            pods = kube.pods()
            phases = [p.status.phase for p in pods]
            assert phases == [wanted] * count, phases
            return pods

        pods = eventually(all_there, 60, f"{count} pods are {wanted}", every=0.3)
        job_ids = [kube.job_id(p) for p in pods]
        assert len(set(job_ids)) == count and min(job_ids) > before, f"each pod has a Slurm job of its own: {job_ids}"
        for p in pods:
            record = slurm.job(kube.job_id(p))
            assert expand(record["nodes"]) == [p.spec.node_name]
            assert record["name"] == job_name
            assert limit is None or record["time_limit"]["number"] == limit
        if name == "statefulset.yaml":
            was_made_anew(kube, slurm)
    finally:
        kubectl("delete", "--wait=false", "-f", str(EXAMPLES / name))
    eventually(lambda: not kube.pods(), 40, "the pods are gone")
    eventually(lambda: not [i for i, s in slurm.states().items() if i > before and s in ACTIVE], 20, "so are the Slurm jobs")


def was_made_anew(kube, slurm):
    """W4: the pod of the same name is another one, with another Slurm job."""
    old = kube.pod("store-1")
    kubectl("delete", "pod", "store-1")
    fresh = eventually(lambda: (p := kube.pod("store-1")) and p.metadata.uid != old.metadata.uid and p.status.phase == "Running" and p, 30, "store-1 runs again")
    assert kube.job_id(fresh) != kube.job_id(old)
    eventually(lambda: slurm.state(kube.job_id(old)) == "CANCELLED", 10, "the old allocation is free")
