"""What an administrator changes of a Slurm cluster that runs, on the real cluster: its configuration, its keys, who shares its hosts. No job is lost."""

import base64
import os

import pytest

from conftest import DEVCLUSTER, ROOT, run
from hpc import CPU, GROUP, NS, all_ready
from kube import absent_is_none
from objects import TAINT, job
from waiting import always, eventually

CTLD = "slurm-controller-0"


def change(hpc, spec):
    hpc.custom.patch_namespaced_custom_object(*GROUP, "controllers", "slurm", {"spec": spec})


def ctld(hpc):
    """UID of slurmctld's pod, once it is ready."""
    pod = eventually(lambda: (p := absent_is_none(lambda: hpc.kube.core.read_namespaced_pod(CTLD, NS))) and all_ready(p) and p, "slurmctld is ready", every=0.5)
    return pod.metadata.uid


def busy(hpc, seconds):
    """A job on each worker of NodeSet cpu, once they run."""
    array = hpc.array(2, f"sleep {seconds}", "-p", "cpu", "-N1", "--exclusive")
    eventually(lambda: hpc.task_states(array) == ["RUNNING"] * 2, "each worker has a job", every=0.5)
    return array


def unharmed(hpc, array):
    eventually(lambda: hpc.task_states(array) == ["COMPLETED"] * 2, "the jobs are done", every=0.5)
    assert all(t["restart_cnt"] == 0 for t in hpc.tasks(array))


def rotate(hpc, secret, key):
    hpc.kube.core.patch_namespaced_secret(secret, NS, {"data": {key: base64.b64encode(os.urandom(64)).decode()}})


def test_a_configuration_is_taken_in_place(hpc):
    """spec.inplaceReconfigure: slurmctld's pod stays, and so do the jobs."""
    before = hpc.custom.get_namespaced_custom_object(*GROUP, "controllers", "slurm")["spec"]
    change(hpc, {"inplaceReconfigure": True})
    try:
        eventually(lambda: hpc.is_ready("Controller") and "reconfigure" in str(hpc.kube.core.read_namespaced_pod(CTLD, NS).spec.init_containers), "the sidecar is there", every=0.5)
        pod, array = ctld(hpc), busy(hpc, 30)
        change(hpc, {"extraConf": before["extraConf"] + "\nKillWait=31"})

        def taken():
            assert "KillWait                = 31" in hpc.on_login("scontrol", "show", "config"), hpc.log(CTLD, "reconfigure")[-800:]
            return True
        eventually(taken, "slurmctld runs it", within=180, every=1)
        eventually(lambda: hpc.is_ready("Controller") and hpc.condition("Controller", type="Degraded")[0] == "False", "the operator says so", every=0.5)
        assert ctld(hpc) == pod, "slurmctld was made anew"
        unharmed(hpc, array)
    finally:
        change(hpc, {"inplaceReconfigure": before.get("inplaceReconfigure", False), "extraConf": before["extraConf"]})
        eventually(lambda: hpc.is_ready("Controller") and "KillWait                = 30" in hpc.on_login("scontrol", "show", "config", check=False), "all is as it was", every=1)


def test_another_jwt_key(hpc):
    """slurmctld and slurmrestd are made anew with it, the operator's tokens are signed with it, and jobs go on."""
    pod, array = ctld(hpc), busy(hpc, 30)
    rotate(hpc, "slurm-auth-jwt", "jwt.key")
    eventually(lambda: ctld(hpc) != pod and hpc.is_ready("Controller"), "slurmctld has the new key", every=0.5)
    hpc.scale(CPU, 3)
    eventually(lambda: hpc.settled(cpu=3), "the operator is heard: the third worker serves", every=0.5)
    unharmed(hpc, array)


def test_another_key_of_slurm_waits_for_jobs_and_for_drained_nodes(hpc):
    pod, array = ctld(hpc), busy(hpc, 45)
    workers = {p.metadata.uid for p in hpc.workers().values()}
    rotate(hpc, "slurm-auth-slurm", "slurm.key")
    eventually(lambda: "the key in Secret slurm-auth-slurm has changed" in hpc.condition("Controller")[1], "the Controller says what it waits for", every=0.5)
    unharmed(hpc, array)
    always(lambda: ctld(hpc) == pod and {p.metadata.uid for p in hpc.workers().values()} == workers, 5, "the next job may start any moment", every=1)
    nodes = ",".join(hpc.serving())
    hpc.on_login("scontrol", "update", f"nodename={nodes}", "state=drain", "reason=another key")
    eventually(lambda: ctld(hpc) != pod, "slurmctld has the new key", every=0.5)

    def all_serve():
        hpc.on_login("scontrol", "update", f"nodename={nodes}", "state=resume", check=False)  # as each comes back; the login pod is made anew, too
        return hpc.settled() and workers.isdisjoint(p.metadata.uid for p in hpc.workers().values())
    eventually(all_serve, "every worker is new and serves", within=240, every=2)
    job = hpc.sbatch("srun hostname", "-p", "all", "-N3")
    eventually(lambda: hpc.state(job) == "COMPLETED", "a job runs on all", every=0.5)


def test_a_host_for_slurm_and_kubernetes(hpc, cluster):
    """The demonstration's parts: the bridge on this Slurm, then a NodeSet in DaemonSet mode on a host whose Kubernetes pods Slurm places as well."""
    if "bascule" in run(DEVCLUSTER, "run", "helm", "list", "-n", "slinky", "-q"):
        pytest.skip("the bridge is installed for other tests of this run")
    demo = os.environ | {"DEMO_WORKERS": "2", "DEMO_NODE": cluster.system_node}
    shared, host = "n3", "n4"
    taints = lambda node: {t.key for t in hpc.kube.core.read_node(node).spec.taints or []}  # noqa: E731
    try:
        for part in ("bridge", "hybrid"):
            run("env", *(f"{k}={demo[k]}" for k in ("DEMO_WORKERS", "DEMO_NODE")), ROOT / "tools/demo-operator", part)
        assert TAINT in taints(host)
        (worker,) = hpc.workers("slurm-worker-hybrid").values()
        assert worker.spec.node_name == host
        kube = hpc.kube
        made = job("both", "sleep 8")
        made["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": host}
        kube.apply(made)
        eventually(lambda: (p := kube.pod_of("both")) and p.status.phase == "Running", "the pod runs there", every=0.3)
        native = hpc.sbatch("hostname", "-p", "slurm-bridge", "-w", host, "--exclusive")
        assert hpc.state(native) == "PENDING", "the pod has the host"
        eventually(lambda: kube.succeeded("both") and hpc.state(native) == "COMPLETED", "then it is the native job's", every=0.5)
        kube.cordon(host)
        eventually(lambda: "DRAIN" in hpc.nodes()[host]["state"], "a cordon drains it", every=0.5)
        kube.cordon(host, False)
        eventually(lambda: host in hpc.serving(), "and it is back", every=0.5)
        assert {p.metadata.uid for p in hpc.workers("slurm-worker-hybrid").values()} == {worker.metadata.uid}
    finally:
        absent_is_none(lambda: hpc.custom.delete_namespaced_custom_object(*GROUP, "nodesets", "slurm-worker-hybrid"))
        run(DEVCLUSTER, "run", "kubectl", "label", "node", shared, "scheduler.slinky.slurm.net/external-node-", check=False)
        eventually(lambda: TAINT not in taints(shared), "the bridge's node is given back", every=0.5)
        run(DEVCLUSTER, "run", "helm", "uninstall", "--ignore-not-found", "-n", NS, "bascule")
        run(DEVCLUSTER, "run", "kubectl", "taint", "node", host, f"{TAINT}-", check=False)
