"""What Slurm and its administrators do to jobs that run: preemption both ways, requeue, hold, a node that fails. No Job of Kubernetes fails by it, and
each pod runs in the end."""

import pytest

from conftest import DEVCLUSTER, run
from objects import job
from slurm import ACTIVE, HYBRID, VERSION_24
from waiting import always, eventually

# A replacement for each pod that was disturbed, and no failure for it: what users of preemptible partitions write.
TOLERANT = {"backoffLimit": 0, "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}}


def tolerant(name, command, parallelism=1, **slurm):
    made = job(name, command, parallelism, **slurm)
    made["spec"] |= TOLERANT
    return made


def running(kube, name, count=1):
    """The pods of a Job, once so many of them run."""
    def found():
        pods = [p for p in kube.pods(job=name) if p.status.phase == "Running" and not p.metadata.deletion_timestamp]
        return pods if len(pods) == count else None
    return eventually(found, f"{count} pods of {name} run")


UNTIL_TOLD = "until [ -e /tmp/done ]; do sleep 0.2; done"  # what is done to a job meets its pod at work, however slow the machine is


def finish(kube, name):
    """The Job is complete once its pods are told that their work is done."""
    def complete():
        for pod in kube.pods(job=name):
            if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp:
                run(DEVCLUSTER, "run", "kubectl", "-n", pod.metadata.namespace, "exec", pod.metadata.name, "--", "touch", "/tmp/done", check=False)
        return kube.succeeded(name)
    eventually(complete, f"Job {name} is complete", every=0.5)


def not_failed(kube, name):
    return not kube.job(name).status.failed


@pytest.fixture(params=["REQUEUE", "CANCEL"])
def urgent(bascule, slurm, request):
    """A partition whose jobs take the nodes of the others', by this mode."""
    slurm.scontrol("create", "PartitionName=urgent", "Nodes=ALL", "PriorityTier=10", "State=UP", "MaxTime=INFINITE")
    slurm.scontrol("update", "PartitionName=slurm-bridge", f"PreemptMode={request.param}")
    yield request.param
    slurm.cancel_all()
    eventually(lambda: not [s for s in slurm.states().values() if s in ACTIVE], "no job is left")
    slurm.scontrol("update", "PartitionName=slurm-bridge", "PreemptMode=REQUEUE")
    slurm.scontrol("delete", "PartitionName=urgent")


def test_pods_give_way_to_native_jobs_and_come_back(urgent, kube, slurm, cluster):
    kube.apply(tolerant("low", UNTIL_TOLD, 4))
    first = {p.metadata.name: kube.job_id(p) for p in running(kube, "low", 4)}
    native = slurm.submit("native-urgent", nodes=4, required_nodes=cluster.workers, partition="urgent")
    eventually(lambda: slurm.state(native) == "RUNNING", "the native job has the nodes")
    assert {slurm.state(i) for i in first.values()} == {"PREEMPTED"}
    eventually(lambda: not [n for n in first if kube.pod(n) and not kube.pod(n).metadata.deletion_timestamp and kube.pod(n).status.phase == "Running"], "the pods are gone")
    always(lambda: not [p for p in kube.pods(job="low") if p.spec.node_name and not p.metadata.deletion_timestamp], 2, "nobody is bound beside the native job")
    slurm.cancel(native)
    finish(kube, "low")
    assert not_failed(kube, "low")
    eventually(lambda: not [s for s in slurm.states().values() if s in ACTIVE], "all allocations are free again")


def test_native_jobs_and_other_pods_give_way_to_urgent_pods(urgent, kube, slurm, cluster):
    native = slurm.submit("native-low", nodes=2, required_nodes=cluster.workers[:2])
    eventually(lambda: slurm.state(native) == "RUNNING", "the native job runs")
    kube.apply(tolerant("low", UNTIL_TOLD, 2))
    low = running(kube, "low", 2)
    kube.apply(job("high", UNTIL_TOLD, 4, partition="urgent"))
    high = running(kube, "high", 4)
    assert sorted(p.spec.node_name for p in high) == cluster.workers
    assert slurm.state(native) != "RUNNING"
    assert not {p.metadata.name for p in low} & {p.metadata.name for p in kube.pods(job="low") if p.status.phase == "Running"}
    finish(kube, "high")
    finish(kube, "low")
    assert not_failed(kube, "high") and not_failed(kube, "low")


batch_only = pytest.mark.skipif(not VERSION_24, reason="scontrol requeue takes batch jobs alone: external ones it refuses")


@batch_only
def test_a_job_that_an_administrator_requeues_runs_again(bascule, kube, slurm):
    kube.apply(tolerant("again", UNTIL_TOLD))
    (placed,) = running(kube, "again")
    slurm.scontrol("update", f"JobId={kube.job_id(placed)}", "Requeue=1")  # over REST a job is made without, unless a job_submit plug-in says so
    slurm.scontrol("requeue", str(kube.job_id(placed)))
    eventually(lambda: (p := kube.pod_of("again")) and p.metadata.name != placed.metadata.name and kube.job_id(p), "the pod is gone, another waits")
    slurm.scontrol("update", f"JobId={kube.job_id(placed)}", "StartTime=now")  # Slurm itself lets a requeued job wait for two minutes
    finish(kube, "again")
    assert not_failed(kube, "again")


@batch_only
def test_a_job_that_is_requeued_and_held_waits_for_its_release(bascule, kube, slurm):
    kube.apply(tolerant("held", UNTIL_TOLD))
    (placed,) = running(kube, "held")
    held = kube.job_id(placed)
    slurm.scontrol("update", f"JobId={held}", "Requeue=1")
    slurm.scontrol("requeuehold", str(held))
    eventually(lambda: (p := kube.pod_of("held")) and p.metadata.name != placed.metadata.name and not p.spec.node_name, "another pod waits")
    always(lambda: not kube.succeeded("held") and kube.pod_of("held").spec.node_name is None, 4, "it is held")
    eventually(lambda: any("JobHeld" in said for said in kube.said_about(kube.pod_of("held"))), "the pod says why it waits")
    slurm.scontrol("release", str(held))
    slurm.scontrol("update", f"JobId={held}", "StartTime=now")
    finish(kube, "held")
    assert not_failed(kube, "held")


def test_a_node_that_fails_in_slurm_costs_its_pod_its_place(bascule, kube, slurm, cluster):
    kube.apply(tolerant("moved", UNTIL_TOLD))
    (placed,) = running(kube, "moved")
    node = placed.spec.node_name
    slurm.scontrol("update", f"NodeName={node}", "State=DOWN", "Reason=test")

    def moved():
        """A slurmd that runs takes its node back at once (ReturnToService=2); an external node stays down."""
        pods = [p for p in kube.pods(job="moved") if p.metadata.uid != placed.metadata.uid and p.status.phase == "Running"]
        return pods and (HYBRID or pods[0].spec.node_name != node)
    try:
        eventually(moved, "another pod runs")
        finish(kube, "moved")
        assert not_failed(kube, "moved")
    finally:
        if "DOWN" in slurm.nodes()[node]["state"]:
            slurm.scontrol("update", f"NodeName={node}", "State=RESUME")
    eventually(lambda: "IDLE" in slurm.nodes()[node]["state"] and "DRAIN" not in slurm.nodes()[node]["state"], "the node is back")
