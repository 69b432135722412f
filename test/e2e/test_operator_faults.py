"""Kubernetes' own disturbances of a Slurm cluster under the operator: an API server that goes, a node that is drained. No job is lost."""

import subprocess
import time

from conftest import DEVCLUSTER
from hpc import CPU, NS
from waiting import always, eventually


def test_the_apiserver_is_restarted_while_workers_go(hpc, cluster):
    """One of two busy workers has to go when the API server is killed; its job ends first."""
    array = hpc.array(2, "sleep 50", "-p", "cpu", "-N1", "--exclusive")
    eventually(lambda: hpc.task_states(array) == ["RUNNING"] * 2, "each worker has a job", every=0.5)
    hpc.scale(CPU, 1)
    cluster.fault("apiserver", "kill")
    try:
        time.sleep(3)
        cluster.fault("etcd", "compact")  # no watch can go on where it was
    finally:
        cluster.fault("apiserver", "start")

    def drained():  # those that went before are still in Slurm
        nodes = hpc.nodes()
        return [w for w in hpc.workers(CPU) if "DRAIN" in nodes[w.removeprefix("slurm-worker-")]["state"]]

    eventually(lambda: len(drained()) == 1, "one worker is drained", every=0.5)
    assert len(hpc.workers(CPU)) == 2 or "COMPLETED" in hpc.task_states(array), "no worker goes while its job runs"
    eventually(lambda: hpc.settled(cpu=1), "one worker cpu is left", within=180, every=0.5)
    for t in hpc.tasks(array):
        assert t["job_state"] == ["COMPLETED"] and t["restart_cnt"] == 0, f"job {t['job_id']}: {t['job_state']}, started {t['restart_cnt'] + 1} times"


def test_kubectl_drain_waits_for_the_jobs_of_a_worker(hpc, cluster, tmp_path):
    """The disruption budget of busy workers refuses the eviction (429), kubectl says so, and goes on when the job has ended."""
    job = hpc.sbatch("sleep 40", "-p", "cpu", "-N1", "--exclusive")
    eventually(lambda: hpc.state(job) == "RUNNING", "the job runs", every=0.5)
    worker = f"slurm-worker-{hpc.jobs()[job]['nodes']}"
    pod = eventually(lambda: (p := hpc.workers(CPU)[worker]).metadata.labels.get("nodeset.slinky.slurm.net/pod-protect") == "true" and p, "its worker is protected", every=0.3)
    said = tmp_path / "drain.log"
    command = [DEVCLUSTER, "run", "kubectl", "drain", cluster.system_node, f"--pod-selector=app.kubernetes.io/instance={CPU}", "--delete-emptydir-data", "--force",
               "--ignore-daemonsets", "--timeout=240s"]
    with said.open("w") as log:
        drain = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: f'evicting pods/"{worker}"' in said.read_text() and "disruption budget" in said.read_text(), "kubectl says what it waits for", every=0.3)

        def waits():
            return drain.poll() is None and hpc.kube.pod(worker, NS).metadata.uid == pod.metadata.uid and not hpc.kube.pod(worker, NS).metadata.deletion_timestamp

        always(lambda: waits() or hpc.state(job) != "RUNNING", 8, "the worker stays while its job runs", every=0.5)
        eventually(lambda: hpc.state(job) == "COMPLETED", "the job is done", every=0.5)
        eventually(lambda: drain.poll() is not None, "the drain goes on", every=0.3)
        assert drain.returncode == 0, said.read_text()
        assert hpc.jobs()[job]["restart_cnt"] == 0
    finally:
        if drain.poll() is None:
            drain.terminate()
        hpc.kube.cordon(cluster.system_node, False)
    eventually(hpc.settled, "the workers are back", within=180, every=0.5)
