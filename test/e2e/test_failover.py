"""Two slurmctlds on one state directory: whatever becomes of the pod of the one that serves, no job is lost. Takes six
minutes. (A slurmctld that is killed on the spot loses the jobs of its last seconds, with a standby or without: docs/facts.md.)"""

import json
import os
import time

import pytest
import yaml

from conftest import DEVCLUSTER, ROOT, STATE, run, run_aloud
from hpc import NS, SlurmCluster
from waiting import eventually

STATE_DIR = STATE / "slurmctld-state"
SLURM_UID = 401  # of the images
VALUES = {
    "controller": {
        "ha": {"enabled": True},
        "persistence": {"enabled": True, "existingClaim": "slurmctld-state"},
        "extraConfMap": {"SlurmctldTimeout": 10, "OverTimeLimit": 3},
    },
    "nodesets": {"cpu": {"replicas": 3}},
}
ACTIVE = "controller.slinky.slurm.net/active"
pytestmark = pytest.mark.slow


def state_claim(kube):
    """A claim that pods on every node may write: all nodes are this machine."""
    STATE_DIR.mkdir(parents=True, exist_ok=True)
    os.chown(STATE_DIR, SLURM_UID, SLURM_UID)
    size = {"storage": "1Gi"}
    kube.core.create_namespace({"metadata": {"name": NS}})
    kube.core.create_persistent_volume(
        {"metadata": {"name": "slurmctld-state"}, "spec": {"capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": "none",
                                                          "hostPath": {"path": str(STATE_DIR)}, "persistentVolumeReclaimPolicy": "Retain"}})
    kube.core.create_namespaced_persistent_volume_claim(
        NS, {"metadata": {"name": "slurmctld-state"}, "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "none", "volumeName": "slurmctld-state",
                                                               "resources": {"requests": size}}})


@pytest.fixture(scope="module")
def pair(request, cluster, kube, tmp_path_factory):
    values = tmp_path_factory.mktemp("values") / "ha.yaml"
    values.write_text(yaml.safe_dump(VALUES))
    state_claim(kube)
    run_aloud(request, ROOT / "tools/demo-operator", "install", env=os.environ | {"DEMO_VALUES": str(values)})
    yield Pair(kube)
    run(DEVCLUSTER, "run", "helm", "uninstall", "--ignore-not-found", "-n", NS, "slurm")
    run(DEVCLUSTER, "run", "helm", "uninstall", "-n", "slinky", "slurm-operator")
    kube.core.delete_namespace(NS)
    kube.core.delete_persistent_volume("slurmctld-state")


class Pair(SlurmCluster):
    def ctlds(self):
        return self.kube.core.list_namespaced_pod(NS, label_selector="app.kubernetes.io/name=slurmctld").items

    def active(self):
        """The pod to which the Service leads."""
        (pod,) = [p for p in self.ctlds() if (p.metadata.labels or {}).get(ACTIVE) == "true" and not p.metadata.deletion_timestamp]
        return pod

    def both_ready(self):
        ready = [p for p in self.ctlds() if any(c.type == "Ready" and c.status == "True" for c in p.status.conditions or [])]
        assert len(ready) == 2, f"ready: {[p.metadata.name for p in ready]}"
        return self.active()

    def first_serves(self):
        assert self.both_ready().metadata.name.endswith("-0"), "the first has not taken over again"
        return True

    def submit(self, seconds):
        """One job, however long slurmctld is away. Its name is its own, so that a submit whose answer was lost is no second job."""
        return self.on_login("sbatch", "--parsable", "-p", "cpu", "-t", "2", "-n1", "-o", "/dev/null", "--wrap", f"sleep {seconds}", check=False).strip()

    def accounted(self):
        """State -> how many jobs, by slurmdbd."""
        found = {}
        for line in self.on_login("sacct", "-X", "-n", "-P", "-S", "now-2hours", "-o", "JobID,State").split():
            state = line.split("|")[1]
            found[state] = found.get(state, 0) + 1
        return found


def delete(pair, pod):
    pair.kube.core.delete_namespaced_pod(pod.metadata.name, NS)


def force_delete(pair, pod):
    pair.kube.core.delete_namespaced_pod(pod.metadata.name, NS, grace_period_seconds=0)


def restart_all(pair, pod):
    run(DEVCLUSTER, "run", "kubectl", "-n", NS, "rollout", "restart", "statefulset/slurm-controller")


@pytest.mark.parametrize("disturb", [delete, force_delete, restart_all])
def test_no_job_is_lost(pair, disturb, measured):
    eventually(pair.first_serves, "both are ready and the first serves")
    before = pair.accounted().get("COMPLETED", 0)
    submitted = sum(1 for _ in range(6) if pair.submit(5).isdigit())
    began = time.time()
    disturb(pair, pair.active())
    while time.time() - began < 60:  # jobs end and are submitted while nobody, the other, and the first again serves
        submitted += pair.submit(3).isdigit()
        time.sleep(2)
    eventually(pair.first_serves, "both are ready and the first serves again", within=300)
    eventually(lambda: not json.loads(pair.on_login("squeue", "--json"))["jobs"], "the queue is empty", every=1)

    def all_completed():
        states = pair.accounted()
        assert not set(states) - {"COMPLETED"}, f"{states}"
        assert states["COMPLETED"] - before >= submitted, f"{states} of {submitted} submitted"
        return states["COMPLETED"] - before

    done = eventually(all_completed, f"all {submitted} jobs are COMPLETED")
    measured.append(f"{disturb.__name__} of the slurmctld that serves: {done} jobs, all COMPLETED")
