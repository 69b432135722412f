"""Every manifest of docs/examples does on the real cluster what its comment says."""

import dataclasses
import os
import re
import subprocess
import typing
import urllib.request

import pytest
from kubernetes import client

from conftest import DEVCLUSTER, ROOT, WORKERS, run
from devices import CPU, GPU, NVIDIA, claims, cpus, example_gpus, gres, nvidia_gpus, publish, resource_slice, results
from objects import LABEL_EXTERNAL, NAMESPACE
from slurm import ACTIVE, HYBRID, VERSION_24, expand
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
    after: typing.Optional[typing.Callable] = None  # whatever became of it


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


def owned(made, name, labels=None, annotations=None):
    return {"name": name, "namespace": NAMESPACE, "labels": labels or {}, "annotations": annotations or {}, "ownerReferences": [
        {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": made["metadata"]["name"], "uid": made["metadata"]["uid"], "controller": True}]}


def the_only(group, version, plural):
    (made,) = client.CustomObjectsApi().list_namespaced_custom_object(group, version, NAMESPACE, plural)["items"]
    return made


def play_job_set(kube, _slurm):
    """What JobSet's controller makes of it: an indexed Job for each replica, those that depend on others when these are complete."""
    made = the_only("jobset.x-k8s.io", "v1alpha2", "jobsets")
    name, lead = made["metadata"]["name"], made["spec"].get("coordinator")
    told = {"jobset.sigs.k8s.io/coordinator": f"{name}-{lead['replicatedJob']}-{lead['jobIndex']}-{lead['podIndex']}.{name}"} if lead else {}
    for part in made["spec"]["replicatedJobs"]:
        for other in part.get("dependsOn", []):
            replicas = next(p["replicas"] for p in made["spec"]["replicatedJobs"] if p["name"] == other["name"])
            eventually(lambda: all(kube.succeeded(f"{name}-{other['name']}-{i}") for i in range(replicas)), f"{other['name']} is {other['status']}", every=0.3)
        for i in range(part["replicas"]):
            labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": part["name"], "jobset.sigs.k8s.io/job-index": str(i)}
            spec = part["template"]["spec"] | {"completionMode": "Indexed"}
            spec["template"] = {"metadata": {"labels": labels, "annotations": told}, "spec": spec["template"]["spec"] | {"subdomain": name}}
            kube.batch.create_namespaced_job(NAMESPACE, {"apiVersion": "batch/v1", "kind": "Job", "metadata": owned(made, f"{name}-{part['name']}-{i}", labels, told), "spec": spec})


def play_leader_worker_set(kube, _slurm):
    """What its controller makes of it: in each group a leader, llm-0, and its workers, llm-0-1."""
    made = the_only("leaderworkerset.x-k8s.io", "v1", "leaderworkersets")
    prefix, name, of = "leaderworkerset.sigs.k8s.io/", made["metadata"]["name"], made["spec"]["leaderWorkerTemplate"]
    for group in range(made["spec"]["replicas"]):
        for worker in range(of["size"]):
            template = of["workerTemplate"] if worker else of.get("leaderTemplate", of["workerTemplate"])
            labels = template.get("metadata", {}).get("labels", {}) | {
                prefix + "name": name, prefix + "group-index": str(group), prefix + "group-key": f"key-{group}", prefix + "worker-index": str(worker)}
            pod = f"{name}-{group}" + (f"-{worker}" if worker else "")
            kube.core.create_namespaced_pod(NAMESPACE, {"apiVersion": "v1", "kind": "Pod", "metadata": owned(made, pod, labels), "spec": template["spec"]})


def serve_and_grow(kube, slurm):
    """Two groups of three find four nodes: one waits as a whole until two more join. The first group's leader serves meanwhile."""
    play_leader_worker_set(kube, slurm)
    phases = lambda group: {p.status.phase for p in kube.pods() if p.metadata.name.startswith(group)}  # noqa: E731
    first, second = eventually(lambda: ("vllm-0", "vllm-1") if phases("vllm-0") == {"Running"} else ("vllm-1", "vllm-0") if phases("vllm-1") == {"Running"} else None, "one group runs")
    waiting = eventually(lambda: kube.job_id(kube.pod(second)), "the other has a job")
    assert slurm.state(waiting) == "PENDING" and slurm.job(waiting)["node_count"]["number"] == 3
    assert not any(p.spec.node_name for p in kube.pods() if p.metadata.name.startswith(second)), "nobody of it starts on the one free node"
    service = kube.core.read_namespaced_service("vllm-leader", NAMESPACE).spec.cluster_ip
    eventually(lambda: said_at(f"http://{service}:8080/") == f"I am {first}", "the Service leads to the leader")
    run(DEVCLUSTER, "fakenodes", "2", "--cpu", "2", "--memory", "2Gi", "--labels", f"{LABEL_EXTERNAL}=true")


def said_at(url):
    try:
        return urllib.request.urlopen(url, timeout=5).read().decode().strip()
    except OSError as e:
        raise AssertionError(str(e)) from e


def without_new_nodes(kube, slurm):
    eventually(lambda: not kube.pods(), "their kubelets have ended the pods")
    run(DEVCLUSTER, "fakenodes", "0")
    eventually(lambda: not {"f1", "f2"} & set(slurm.nodes()), "Slurm has them no more")


def claimed(device_class, *nodes):
    """While the pods run: each has the claim of one device of this class, of the node where Slurm put it."""
    def act(kube, slurm):
        def each_has_one():
            pods = {p.metadata.uid: p for p in kube.pods() if p.status.phase == "Running"}
            made = {c["status"]["reservedFor"][0]["uid"]: results(c) for c in claims() if results(c)}
            assert pods and len(pods) == len(kube.pods()) and set(made) == set(pods), f"pods {sorted(pods)}, claims {sorted(made)}"
            return [(p, made[uid]) for uid, p in pods.items()]

        for pod, devices in eventually(each_has_one, "the pods run, each with its claim"):
            (device,) = devices
            assert device["driver"] == device_class and device["pool"] == f"{pod.spec.node_name}-{device_class}-pool"
            assert pod.spec.node_name in nodes
            record = slurm.job(kube.job_id(pod))
            if device_class != CPU:
                assert record["tres_per_node"] == f"gres/gpu:{device_class}=1", record["tres_per_node"]
    return act


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


def two_at_once(kube, _slurm):
    pods = sorted(kube.pods(), key=lambda p: p.metadata.creation_timestamp)
    assert pods[2].metadata.creation_timestamp >= min(p.status.container_statuses[0].state.terminated.finished_at for p in pods[:2])


def for_both_containers(kube, slurm):
    records = [slurm.job(kube.job_id(p)) for p in kube.pods()]
    assert {(r["cpus_per_task"]["number"], r["memory_per_node"]["number"]) for r in records} == {(2, 200)}


def all_know_the_leader(kube, _slurm):
    said = sorted(kube.log(p.metadata.name) for p in kube.pods())
    assert said == ["following train-set-leader-0-0.train-set"] * 4 + ["leading at train-set-leader-0-0.train-set"]


def after_the_first(kube, _slurm):
    (first,) = kube.pods(job="stages-initjob-0")
    ended = first.status.container_statuses[0].state.terminated.finished_at
    assert all(p.metadata.creation_timestamp >= ended for p in kube.pods() if p is not first and p.metadata.name != first.metadata.name)


def group_is_scheduled(_kube, _slurm):
    """In the words that kubectl prints, and by the Workload's annotations."""
    headers, fields = (line.split() for line in kubectl("get", "podgroups.scheduling.k8s.io", "train-workers").splitlines())
    assert fields[headers.index("STATUS")] == "Scheduled", fields


def a_share(kube, slurm):
    (pod,) = kube.pods()
    assert "cpu=1," in slurm.job(kube.job_id(pod))["tres_alloc_str"], "one CPU of the node, not all"


def the_whole_node(kube, slurm):
    (pod,) = kube.pods()
    cpus = kube.core.read_node(pod.spec.node_name).status.allocatable["cpu"]
    assert f"cpu={cpus}," in slurm.job(kube.job_id(pod))["tres_alloc_str"]


EXPECTED = {
    "pod.yaml": Example(1, names=("sleep-pod",), limit=1),
    "job.yaml": Example(1, names=("hello",), limit=5),
    "job-parallel.yaml": Example(3, names=("large-job",), check=two_at_once),
    "job-indexed.yaml": Example(4, names=("sweep",)),
    "job-elastic.yaml": Example(4, names=("elastic",), act=grow),
    "job-beside-native.yaml": Example(2, names=("beside-native",), before=submit_native, act=queue_shows_both, check=both_kept_apart),
    "cronjob.yaml": Example(1, names=("nightly",), limit=10, act=run_now),
    "deployment.yaml": Example(2, ends=False, names=("service",)),
    "statefulset.yaml": Example(2, ends=False, names=("store",), check=was_made_anew),
    "podgroup.yaml": Example(2, names=("pair",), limit=5, jobs=1),
    "podgroup-pods.yaml": Example(2, names=("duo",), jobs=1),
    "workload.yaml": Example(2, names=("train",), limit=5, jobs=1, check=group_is_scheduled),
    "jobset.yaml": Example(1, names=("study",), limit=5, act=play_job_set),
    "jobset-large.yaml": Example(16, names=("survey",), limit=5, act=play_job_set, check=for_both_containers),
    "jobset-coordinator.yaml": Example(5, names=("train-set",), limit=5, act=play_job_set, check=all_know_the_leader),
    "jobset-depends.yaml": Example(5, names=("stages",), limit=5, act=play_job_set, check=after_the_first),
    "leaderworkerset.yaml": Example(4, ends=False, names=("llm-0", "llm-1"), limit=60, jobs=2, act=play_leader_worker_set),
    "leaderworkerset-leader.yaml": Example(6, ends=False, names=("vllm-0", "vllm-1"), jobs=2, act=serve_and_grow, after=without_new_nodes),
    "dra-job.yaml": Example(1, names=("gpu",), act=claimed(GPU, "n3", "n4")),
    "dra-podgroup.yaml": Example(2, names=("gpu-pair",), jobs=1, act=claimed(GPU, "n3", "n4")),
    "dra-nvidia-job.yaml": Example(1, names=("nvidia",), act=claimed(NVIDIA, "n3")),
    "dra-nvidia-pod.yaml": Example(1, names=("nvidia-pod",), act=claimed(NVIDIA, "n3")),
    "dra-cpu.yaml": Example(1, ends=False, names=("pinned",), act=claimed(CPU, "n2"), check=a_share),
    "dra-gpu-beside-cpu.yaml": Example(1, ends=False, names=("whole-node",), act=claimed(GPU, "n3", "n4"), check=the_whole_node),
}


# W64: what the documentation shows is run.
def test_every_example_is_tried():
    assert {f.name for f in EXAMPLES.glob("*.yaml")} == set(EXPECTED)


@pytest.fixture
def devices(bascule, cluster, kube, slurm):
    """Workers with devices of each class, drivers for them, and Slurm that knows. They stay: fewer devices count only after ten minutes."""
    n2, n3, n4 = cluster.workers[1:]
    count = int(kube.core.read_node(n2).status.allocatable["cpu"])
    publish([resource_slice(CPU, n2, cpus(count)), resource_slice(GPU, n3, example_gpus(range(2))), resource_slice(NVIDIA, n3, nvidia_gpus(range(2))),
             *(resource_slice(GPU, n4, example_gpus(range(2 * part, 2 * part + 2)), part, 2) for part in range(2))])  # n4's are those of test_dra.py
    cluster.command("dradrivers", GPU, NVIDIA, CPU)

    def counted():
        nodes = slurm.nodes()
        assert {n2, n3, n4} <= set(nodes), sorted(nodes)
        assert nodes[n2]["cores"] == count, f"{n2} has {nodes[n2]['sockets']} sockets of {nodes[n2]['cores']} cores"
        assert f"gpu:{GPU}:2" in gres(slurm, n3) and f"gpu:{NVIDIA}:2" in gres(slurm, n3) and f"gpu:{GPU}:4" in gres(slurm, n4), gres(slurm, n3)
        return all("IDLE" in nodes[n]["state"] and "DRAIN" not in nodes[n]["state"] for n in (n2, n3, n4))

    eventually(counted, "Slurm counts all devices", every=0.3)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(bascule, kinds, kube, slurm, request, name):  # noqa: F811
    example = EXPECTED[name]
    if VERSION_24 and example.before:
        pytest.skip("Slurm 24.11 has no external jobs")
    if name.startswith("dra-"):
        if HYBRID:
            pytest.skip("the bridge registers devices of external nodes")
        request.getfixturevalue("devices")
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
        if example.act in (play_job_set, play_leader_worker_set, serve_and_grow):
            kube.delete_all()  # the garbage collector may not know the kind yet
        if example.after:
            example.after(kube, slurm)
    eventually(lambda: not kube.pods(), "the pods are gone")
    eventually(lambda: not [i for i, s in slurm.states().items() if i > before and s in ACTIVE], "so are the Slurm jobs")
