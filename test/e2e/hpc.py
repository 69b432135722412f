"""A Slurm cluster that the operator made, as its administrator and its users see it."""

import json
import os
import pathlib
import signal

from kubernetes import client

from conftest import DEVCLUSTER, ROOT, STATE, run

NS = "slurm"
GROUP = ("slinky.slurm.net", "v1beta1", NS)
CPU, BATCH = "slurm-worker-cpu", "slurm-worker-batch"
BINARY = os.environ.get("BASCULE_BINARY", str(ROOT / "build/release/bascule"))


class SlurmCluster:
    """A cluster, by default the one that the charts made, seen from its login node and through the API server."""

    def __init__(self, kube, ns=NS, login=("deploy/slurm-login-slinky", "login")):
        self.kube, self.custom = kube, client.CustomObjectsApi()
        self.ns, self.login, self.group = ns, login, (*GROUP[:2], ns)

    def on_login(self, *command, check=True):
        pod, container = self.login
        return run(DEVCLUSTER, "run", "kubectl", "-n", self.ns, "exec", pod, "-c", container, "--", *command, check=check)

    def over_ssh(self, *command):
        """As root of the login node, with the key that the chart was given."""
        address = self.kube.core.read_namespaced_service("slurm-login-slinky", self.ns).spec.cluster_ip
        return run("ssh", "-i", STATE / "login-key", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes",
                   "-o", "ConnectTimeout=5", f"root@{address}", *command)

    def operators(self):
        return self.kube.core.list_namespaced_pod("slinky", label_selector="app.kubernetes.io/name=slurm-operator").items

    def leader(self):
        """Name of the operator's pod that holds the lease."""
        return (self.kube.coordination.read_namespaced_lease("slurm-operator", "slinky").spec.holder_identity or "").rsplit("_", 1)[0]

    def explain(self, what):
        """What `bascule explain` says, as a user outside the cluster."""
        return json.loads(run(BINARY, "explain", what, "-n", self.ns, "-o", "json"))

    def kill_operator(self, name=None):
        """SIGKILL to the process in the operator's pod (of that name); kubelet starts it again."""
        return self.signal([p for p in self.operators() if name in (None, p.metadata.name)], ("bascule",), signal.SIGKILL)

    @staticmethod
    def signal(pods, names, number):
        """To the processes of these names in these pods; to how many."""
        uids, sent = [p.metadata.uid for p in pods], 0
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (process / "comm").read_text().strip() in names and any(u in (process / "cgroup").read_text() for u in uids):
                    os.kill(int(process.name), number)
                    sent += 1
            except (FileNotFoundError, ProcessLookupError):
                pass
        return sent

    def log(self, pod, container):
        return self.kube.core.read_namespaced_pod_log(pod, self.ns, container=container, _preload_content=False).data.decode(errors="replace")

    def on_worker(self, pod, script):
        return run(DEVCLUSTER, "run", "kubectl", "-n", self.ns, "exec", pod, "-c", "slurmd", "--", "sh", "-c", script)

    def sbatch(self, script, *options):
        return int(self.on_login("sbatch", "--parsable", "-t", "5", "-o", "/tmp/%j.out", *options, "--wrap", script).split(";")[0])

    def array(self, tasks, script, *options):
        """One sbatch for all: each takes seconds on a busy machine, and the first job would be over before the last is there."""
        return self.sbatch(script, f"--array=0-{tasks - 1}", *options)

    def tasks(self, array):
        """Records of the array's tasks; those that wait are one record."""
        return [j for j in self.jobs().values() if j["array_job_id"]["number"] == array]

    def task_states(self, array):
        return [j["job_state"][0] for j in self.tasks(array)]

    def jobs(self):
        """Job or array task id -> its record."""
        found = json.loads(self.on_login("squeue", "--json", "-t", "all"))["jobs"]
        return {j["job_id"]: j for j in found}

    def state(self, job_id):
        return self.states([job_id])[0]

    def states(self, jobs):
        """Of one moment: a question takes seconds on a busy machine."""
        found = self.jobs()
        return [found[j]["job_state"][0] if j in found else None for j in jobs]

    def nodes(self):
        return {n["name"]: n for n in json.loads(self.on_login("scontrol", "show", "nodes", "--json"))["nodes"]}

    def serving(self):
        """Names of the workers that Slurm gives jobs to."""
        bad = {"DOWN", "DRAIN", "NOT_RESPONDING", "UNKNOWN", "FAIL", "INVALID_REG"}
        return sorted(n for n, record in self.nodes().items() if not bad & set(record["state"]))

    def workers(self, nodeset=None):
        found = self.kube.core.list_namespaced_pod(self.ns, label_selector="app.kubernetes.io/name=slurmd").items
        return {p.metadata.name: p for p in found if nodeset is None or p.metadata.labels["app.kubernetes.io/instance"] == nodeset}

    def condition(self, kind, name="slurm", type="Ready"):
        """(status, message), once the operator says it of what the object asks for now."""
        found = self.custom.get_namespaced_custom_object(*self.group, kind.lower() + "s", name)
        said = [c for c in found.get("status", {}).get("conditions", []) if c["type"] == type]
        if not said or said[0].get("observedGeneration") != found["metadata"]["generation"]:
            return "Unknown", f"of generation {found['metadata']['generation']} nothing is said yet: {said}"
        return said[0]["status"], said[0].get("message", "")

    def is_ready(self, kind, name="slurm"):
        said = self.condition(kind, name)
        assert said[0] == "True", f"{kind} {name}: {said}"
        return True

    def nodeset(self, name):
        return self.custom.get_namespaced_custom_object(*self.group, "nodesets", name)

    def patch(self, nodeset, body):
        return self.custom.patch_namespaced_custom_object(*self.group, "nodesets", nodeset, body)

    def scale(self, nodeset, replicas):
        self.custom.patch_namespaced_custom_object_scale(*self.group, "nodesets", nodeset, {"spec": {"replicas": replicas}})

    def settled(self, cpu=2, batch=1):
        wanted = sorted([f"cpu-{i}" for i in range(cpu)] + [f"batch-{i}" for i in range(batch)])
        pods = self.workers()
        assert len(pods) == len(wanted), f"worker pods: {sorted(pods)}"
        serving = self.serving()
        assert len(serving) == len(wanted), f"serving in Slurm: {serving}"
        for name, replicas in ((CPU, cpu), (BATCH, batch)):
            status = self.nodeset(name).get("status", {})
            assert status.get("readyReplicas") == replicas, f"{name}: {status}"
            assert status.get("updatedReplicas") == replicas, f"{name}: {status}"
        return True


def all_ready(pod):
    """All its containers; one that kubelet has said nothing of yet is not."""
    statuses = pod.status.container_statuses or []
    return bool(statuses) and all(c.ready for c in statuses)
