"""What happened to every pod and every Slurm job, written down while it happens; and the promises that must hold over it.

Slurm forgets an ended job after a minute and Kubernetes a deleted pod at once, so both are followed by threads of their own.
"""

import json
import threading
import time

from kubernetes import watch
from kubernetes.client.rest import ApiException
from urllib3.exceptions import HTTPError

from kube import Kube
from objects import LABEL_JOB_ID, NAMESPACE
from slurm import RestError, Slurm


class Ledger:
    def __init__(self, kubeconfig, devcluster, since):
        self.kube, self.slurm = Kube(kubeconfig), Slurm(devcluster)
        self.since = since               # the highest Slurm job id before
        self.pods, self.jobs = {}, {}    # uid: last seen pod; job id: last seen record
        self.deleted_running = []        # pods whose deletion began, or that were gone, before they were over
        self.job_of_pod = {}             # uid: ids of all Slurm jobs whose record names it
        self.stopped = threading.Event()
        self.watch = watch.Watch()
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self._follow_pods, self._follow_jobs)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.watch.stop()

    def _follow_pods(self):
        while not self.stopped.is_set():
            try:
                for event in self.watch.stream(self.kube.core.list_namespaced_pod, NAMESPACE, timeout_seconds=20, _request_timeout=30):
                    if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                        self._note_pod(event["type"], event["object"])
            except (HTTPError, ApiException, OSError):  # cut: the next one begins with a list
                self.stopped.wait(0.2)

    def _note_pod(self, kind, pod):
        self.pods[pod.metadata.uid] = pod
        over = pod.status.phase in ("Succeeded", "Failed")
        if pod.spec.node_name and not over and (kind == "DELETED" or pod.metadata.deletion_timestamp):
            self.deleted_running.append(pod.metadata.name)

    def _follow_jobs(self):
        while not self.stopped.is_set():
            self.look()
            self.stopped.wait(0.7)

    def look(self):
        try:
            records = self.slurm.jobs()
        except (OSError, RestError, ValueError):
            self.slurm.close()
            return
        for record in records:
            if record["job_id"] <= self.since:
                continue
            if record["nodes"] or record["job_id"] not in self.jobs:
                self.jobs[record["job_id"]] = record  # a killed slurmctld may forget that a job ever had a node
            try:
                uids = json.loads(record["admin_comment"])["bascule"]["uids"]
            except (ValueError, KeyError, TypeError):
                continue
            for uid in uids:
                self.job_of_pod.setdefault(uid, set()).add(record["job_id"])

    # --- promises -------------------------------------------------------------------------------------------

    def check(self, names, forgetful=False, clocks=True):
        """Every Job of one pod named ran exactly one pod to its end, with one Slurm job, on a node that job held all the while.

        `forgetful`: slurmctld was killed and lost its last seconds, so it may itself have given up what a job held.
        Without `clocks` Slurm's was another than Kubernetes', so their times cannot be compared."""
        self.look()
        assert not self.deleted_running, f"pods were killed while they ran: {self.deleted_running}"
        of_job = {}
        for uid, pod in self.pods.items():
            of_job.setdefault((pod.metadata.labels or {}).get("job-name"), []).append((uid, pod))
        for name in names:
            pods = of_job.get(name, [])
            assert len(pods) == 1, f"Job {name} had {len(pods)} pods: {[p.metadata.name for _, p in pods]}"
            assert pods[0][1].status.phase == "Succeeded", f"{pods[0][1].metadata.name} is {pods[0][1].status.phase}"
            if not forgetful:
                self.check_pod(*pods[0], clocks)

    def check_pod(self, uid, pod, clocks):
        name, jobs = pod.metadata.name, sorted(self.job_of_pod.get(uid, ()))
        assert len(jobs) == 1, f"pod {name} had {len(jobs)} Slurm jobs: {jobs}"
        assert (pod.metadata.labels or {}).get(LABEL_JOB_ID) == str(jobs[0]), f"pod {name} says job {pod.metadata.labels.get(LABEL_JOB_ID)}, Slurm says {jobs}"
        self.check_allocation(name, pod, self.jobs[jobs[0]], clocks)

    @staticmethod
    def check_allocation(name, pod, job, clocks):
        """Slurm and Kubernetes both say whole seconds."""
        said = f"pod {name}, job {job['job_id']} {job['job_state']}"
        assert job["nodes"] == pod.spec.node_name, f"{said}: on {pod.spec.node_name}, the job holds {job['nodes']!r}"
        if not clocks:
            return
        bound = next(c.last_transition_time for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "True").timestamp()
        began, ended = job["start_time"]["number"], job["end_time"]["number"]
        assert began and began <= bound + 1, f"{said}: bound at {bound}, the allocation began at {began}"
        for c in pod.status.container_statuses or []:
            if c.state.terminated and c.state.terminated.finished_at:
                finished = c.state.terminated.finished_at.timestamp()
                assert "RUNNING" in job["job_state"] or ended + 1 >= finished, f"{said}: finished at {finished}, the allocation ended at {ended}"


def wait_quiet(seconds=1.5):
    """Long enough for a wrong deletion, or a second job, to show itself."""
    time.sleep(seconds)
