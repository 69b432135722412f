"""The official Kubernetes client, with the few questions that the tests ask."""

import os
import threading
import time

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from urllib3.exceptions import HTTPError

from objects import LABEL_JOB_ID, NAMESPACE


class Kube:
    def __init__(self, kubeconfig):
        os.environ["KUBECONFIG"] = kubeconfig
        config.load_kube_config(kubeconfig)
        self.core, self.batch, self.apps, self.coordination = client.CoreV1Api(), client.BatchV1Api(), client.AppsV1Api(), client.CoordinationV1Api()

    def apply(self, manifest):
        api = {"Pod": self.core.create_namespaced_pod, "Job": self.batch.create_namespaced_job}[manifest["kind"]]
        return api(manifest["metadata"]["namespace"], manifest)

    def pod(self, name, namespace=NAMESPACE):
        return absent_is_none(lambda: self.core.read_namespaced_pod(name, namespace))

    def job(self, name, namespace=NAMESPACE):
        return absent_is_none(lambda: self.batch.read_namespaced_job(name, namespace))

    def pods(self, namespace=NAMESPACE, job=None):
        return self.core.list_namespaced_pod(namespace, label_selector=f"job-name={job}" if job else None).items

    def pod_of(self, job, namespace=NAMESPACE):
        """The one pod of a Job of one pod, None while it is not there."""
        return next(iter(self.pods(namespace, job)), None)

    def job_id(self, pod):
        """Slurm job id on the pod as an int, 0 while it has none."""
        return int((pod.metadata.labels or {}).get(LABEL_JOB_ID, "0")) if pod else 0

    def log(self, pod, namespace=NAMESPACE):
        # the client's own decoding gives the text of a bytes literal
        return self.core.read_namespaced_pod_log(pod, namespace, _preload_content=False).data.decode().strip()

    def succeeded(self, job, namespace=NAMESPACE):
        read = self.job(job, namespace)
        assert read is not None, f"job {job} is gone"
        assert not read.status.failed, f"{read.status.failed} pod(s) of job {job} failed"
        return read.status.succeeded == read.spec.completions

    def delete(self, kind, name, namespace=NAMESPACE):
        call = {"Pod": self.core.delete_namespaced_pod, "Job": self.batch.delete_namespaced_job}[kind]
        absent_is_none(lambda: call(name, namespace, propagation_policy="Background"))

    def delete_all(self, namespace=NAMESPACE):
        self.batch.delete_collection_namespaced_job(namespace, propagation_policy="Background")
        self.core.delete_collection_namespaced_pod(namespace)

    def said_about(self, pod):
        """All that a user is told about a pod: messages of its events, and of its PodScheduled condition."""
        events = self.core.list_namespaced_event(pod.metadata.namespace, field_selector=f"involvedObject.uid={pod.metadata.uid}").items
        said = [f"{e.reason}: {e.message}" for e in events]
        said += [f"{c.reason}: {c.message}" for c in (pod.status.conditions or []) if c.type == "PodScheduled" and c.message]
        return said

    def says_of_node(self, node, reason, words):
        """An event of the node has this reason and these words; events come a moment after what they are about."""
        selector = f"involvedObject.kind=Node,involvedObject.name={node},reason={reason}"
        said = [e.message for e in self.core.list_event_for_all_namespaces(field_selector=selector).items]
        assert any(words in message for message in said), said
        return True

    def cordon(self, node, on=True):
        self.core.patch_node(node, {"spec": {"unschedulable": on}})


def condition(of, kind):
    return next((c for c in of.status.conditions or [] if c.type == kind), None)


def absent_is_none(call):
    try:
        return call()
    except ApiException as e:
        if e.status == 404:
            return None
        raise


class PodWatch:
    """Records when each pod of a namespace was first seen and was bound (time.monotonic()), and its Slurm job id."""

    def __init__(self, core, namespace=NAMESPACE):
        self.core, self.namespace = core, namespace
        self.seen, self.bound, self.job_ids = {}, {}, {}
        self.watch, self.stopped = watch.Watch(), False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopped = True
        self.watch.stop()

    def _run(self):
        while not self.stopped:
            try:
                for event in self.watch.stream(self.core.list_namespaced_pod, self.namespace, timeout_seconds=60):
                    self._note(event["object"], time.monotonic())
            except (HTTPError, ApiException):  # cut: the next one begins with a list
                pass

    def _note(self, pod, now):
        name = pod.metadata.name
        self.seen.setdefault(name, now)
        if job_id := (pod.metadata.labels or {}).get(LABEL_JOB_ID):
            self.job_ids[name] = int(job_id)
        if pod.spec.node_name:
            self.bound.setdefault(name, now)
