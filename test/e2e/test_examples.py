"""Every manifest of docs/examples does on the real cluster what its comment says."""

import dataclasses
import os
import re
import subprocess
import typing

import pytest
from kubernetes import client

from conftest import DEVCLUSTER, ROOT, WORKERS
from objects import NAMESPACE
from slurm import ACTIVE, VERSION_24, expand
from test_gangs import kinds  # noqa: F401  (a fixture: the CRDs of groups)
from waiting import eventually

EXAMPLES = ROOT / "docs/examples"


@dataclasses.dataclass(frozen=True)
class Example:
    pods: int
    ends: bool = True  # by itself
    names: typing.Tuple[str, ...] = ()  # of its Slurm jobs
    limit: typing.Optional[int] = None  # minutes
    jobs: typing.Optional[int] = None  # as many as pods, unless it is a gang
    before: typing.Optional[typing.Callable] = None
    act: typing.Optional[typing.Callable] = None  # once it is applied: what its comment tells the user to do, or what a controller that is not here does
    check: typing.Optional[typing.Callable] = None


def kubectl(*args):
    done = subprocess.run([DEVCLUSTER, "run", "kubectl", "-n", NAMESPACE, *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout



# --- what users and absent controllers do --------------------------------------------------------------------------


def run_now(_kube, _slurm):
    kubectl("patch", "cronjob", "nightly", "-p", '{"spec": {"suspend": true}}')  # the suite may run at that hour, too
    kubectl("create", "job", "nightly-now", "--from=cronjob/nightly")  # belongs to the CronJob, and goes with it


def grow(kube, _slurm):
    """The command of the example's comment, once its first pods run."""
    eventually(lambda: [p.status.phase for p in kube.pods(job="elastic")] == ["Running"] * 2, "the first two run")
    (patch,) = re.findall(r"-p '(.*)'", (EXAMPLES / "job-elastic.yaml").read_text())
    kubectl("patch", "job", "elastic", "-p", patch)


def owned(made, name, labels=None):
    return {"name": name, "namespace": NAMESPACE, "labels": labels or {}, "ownerReferences": [
        {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": made["metadata"]["name"], "uid": made["metadata"]["uid"], "controller": True}]}


def play_job_set(kube, _slurm):
    """What JobSet's controller makes of it: a Job for each replica."""
    made = client.CustomObjectsApi().get_namespaced_custom_object("jobset.x-k8s.io", "v1alpha2", NAMESPACE, "jobsets", "study")
    for part in made["spec"]["replicatedJobs"]:
        for i in range(part["replicas"]):
            kube.batch.create_namespaced_job(NAMESPACE, {"apiVersion": "batch/v1", "kind": "Job", "metadata": owned(made, f"study-{part['name']}-{i}"), "spec": part["template"]["spec"]})


def play_leader_worker_set(kube, _slurm):
    """What its controller makes of it: in each group a leader, llm-0, and its workers, llm-0-1."""
    made = client.CustomObjectsApi().get_namespaced_custom_object("leaderworkerset.x-k8s.io", "v1", NAMESPACE, "leaderworkersets", "llm")
    prefix, spec = "leaderworkerset.sigs.k8s.io/", made["spec"]
    for group in range(spec["replicas"]):
        for worker in range(spec["leaderWorkerTemplate"]["size"]):
            labels = {prefix + "name": "llm", prefix + "group-index": str(group), prefix + "group-key": f"key-{group}", prefix + "worker-index": str(worker)}
            name = f"llm-{group}" + (f"-{worker}" if worker else "")
            kube.core.create_namespaced_pod(NAMESPACE, {"apiVersion": "v1", "kind": "Pod", "metadata": owned(made, name, labels), "spec": spec["leaderWorkerTemplate"]["workerTemplate"]["spec"]})


def submit_native(_kube, slurm):
    """The sbatch of the example's comment: all nodes but one."""
    (command,) = re.findall(r"^# +(sbatch .*)$", (EXAMPLES / "job-beside-native.yaml").read_text(), re.M)
    assert f"-N{WORKERS - 1} " in command
    native = int(re.search(r"Submitted batch job (\d+)", slurm.command(*command.split()))[1])
    eventually(lambda: slurm.state(native) == "RUNNING", "the native job runs")


def bascule_says(slurm, *args):
    binary = os.environ.get("BASCULE_BINARY", ROOT / "build/release/bascule")
    done = subprocess.run([binary, *args], capture_output=True, text=True, env=os.environ | {"SLURM_JWT": slurm.token()})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def queue_shows_both(kube, slurm):
    """What the example's comment promises of `bascule queue`; and the pod that waits, while the other runs, is explained."""
    def one_runs_and_one_has_been_told():
        placed, waiting = ([p for p in kube.pods(job="beside") if bool(p.spec.node_name) is there] for there in (True, False))
        return len(placed) == len(waiting) == 1 and any(c.type == "PodScheduled" and c.message for c in waiting[0].status.conditions or []) and waiting[0]

    waiting = eventually(one_runs_and_one_has_been_told, "one of the two runs, the other has been told why it waits", every=0.05)
    shown = bascule_says(slurm, "queue", "-A", "--slurm-url", "http://127.0.0.1:6820", "-o", "wide")
    assert " native " in shown and waiting.metadata.name in shown, shown
    assert "waits" in bascule_says(slurm, "explain", f"pod/{waiting.metadata.name}", "-n", NAMESPACE)


def both_kept_apart(kube, slurm):
    native = max((job for job in slurm.jobs() if job["name"] == "native"), key=lambda job: job["job_id"])  # earlier ones are listed for minutes
    taken = set(expand(native["nodes"]))
    used = [p.spec.node_name for p in kube.pods(job="beside")]
    assert len(taken) == WORKERS - 1 and slurm.state(native["job_id"]) == "RUNNING", "the native job went on all the time"
    assert len(set(used)) == 1 and not taken & set(used), f"pods on {used}, native job on {taken}"
    slurm.cancel(native["job_id"])


def was_made_anew(kube, slurm):
    """W4: the pod of the same name is another one, with another Slurm job."""
    old = kube.pod("store-1")
    kubectl("delete", "pod", "store-1")
    fresh = eventually(lambda: (p := kube.pod("store-1")) and p.metadata.uid != old.metadata.uid and p.status.phase == "Running" and p, "store-1 runs again")
    assert kube.job_id(fresh) != kube.job_id(old)
    eventually(lambda: slurm.state(kube.job_id(old)) == "CANCELLED", "the old allocation is free")


EXPECTED = {
    "pod.yaml": Example(1, names=("sleep-pod",), limit=1),
    "job.yaml": Example(1, names=("hello",), limit=5),
    "job-parallel.yaml": Example(3, names=("large-job",)),
    "job-indexed.yaml": Example(4, names=("sweep",)),
    "job-elastic.yaml": Example(4, names=("elastic",), act=grow),
    "job-beside-native.yaml": Example(2, names=("beside-native",), before=submit_native, act=queue_shows_both, check=both_kept_apart),
    "cronjob.yaml": Example(1, names=("nightly",), limit=10, act=run_now),
    "deployment.yaml": Example(2, ends=False, names=("service",)),
    "statefulset.yaml": Example(2, ends=False, names=("store",), check=was_made_anew),
    "podgroup.yaml": Example(2, names=("pair",), limit=5, jobs=1),
    "workload.yaml": Example(2, names=("train",), limit=5, jobs=1),
    "jobset.yaml": Example(3, names=("study",), limit=5, act=play_job_set),
    "leaderworkerset.yaml": Example(4, ends=False, names=("llm-0", "llm-1"), limit=60, jobs=2, act=play_leader_worker_set),
}


# W64: what the documentation shows is run.
def test_every_example_is_tried():
    assert {f.name for f in EXAMPLES.glob("*.yaml")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(bascule, kinds, kube, slurm, name):  # noqa: F811
    example = EXPECTED[name]
    if VERSION_24 and example.before:
        pytest.skip("Slurm 24.11 has no external jobs")
    before = max(slurm.states(), default=0)
    if example.before:
        example.before(kube, slurm)
    kubectl("apply", "-f", str(EXAMPLES / name))
    try:
        if example.act:
            example.act(kube, slurm)
        wanted = "Succeeded" if example.ends else "Running"

        def all_there():
            pods = kube.pods()
            phases = [p.status.phase for p in pods]
            assert phases == [wanted] * example.pods, phases
            return pods

        pods = eventually(all_there, f"{example.pods} pods are {wanted}", every=0.3)
        records = {kube.job_id(p): slurm.job(kube.job_id(p)) for p in pods}
        assert len(records) == (example.jobs or example.pods) and min(records) > before, f"Slurm jobs: {sorted(records)}"
        assert {record["name"] for record in records.values()} == set(example.names)
        for job_id, record in records.items():
            members = [p.spec.node_name for p in pods if kube.job_id(p) == job_id]
            assert sorted(expand(record["nodes"])) == sorted(members), "as many nodes as pods, and these"
            assert example.limit is None or record["time_limit"]["number"] == example.limit
        if example.check:
            example.check(kube, slurm)
    finally:
        kubectl("delete", "--wait=false", "--ignore-not-found", "-f", str(EXAMPLES / name))
        if example.act in (play_job_set, play_leader_worker_set):
            kube.delete_all()  # the garbage collector may not know the kind yet
    eventually(lambda: not kube.pods(), "the pods are gone")
    eventually(lambda: not [i for i, s in slurm.states().items() if i > before and s in ACTIVE], "so are the Slurm jobs")
