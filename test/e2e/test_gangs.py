"""Gangs on the real cluster: PodGroups, LeaderWorkerSet groups and JobSets. The test plays their controllers."""

import pathlib

import pytest
import yaml
from kubernetes import client

from kube import absent_is_none
from objects import NAMESPACE, annotations, job, pod
from slurm import ACTIVE, expand
from waiting import always, eventually

GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
PLURALS = {"PodGroup": "podgroups", "Workload": "workloads", "LeaderWorkerSet": "leaderworkersets", "JobSet": "jobsets"}


class Groups:
    """Objects of the group kinds, removed at the end of the test."""

    def __init__(self):
        self.api, self.made = client.CustomObjectsApi(), []

    def make(self, api_version, kind, name, spec, **slurm):
        group, version = api_version.split("/")
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "annotations": annotations(slurm)}, "spec": spec}
        made = self.api.create_namespaced_custom_object(group, version, NAMESPACE, PLURALS[kind], body)
        self.made.append((group, version, PLURALS[kind], name))
        return made

    def pod_group(self, name, minimum, **slurm):
        return self.make("scheduling.x-k8s.io/v1alpha1", "PodGroup", name, {"minMember": minimum}, **slurm)

    def remove_all(self):
        for group, version, plural, name in self.made:
            absent_is_none(lambda: self.api.delete_namespaced_custom_object(group, version, NAMESPACE, plural, name))


@pytest.fixture(scope="session")
def kinds(installed):
    api = client.ApiextensionsV1Api()
    for crd in yaml.safe_load_all((pathlib.Path(__file__).parent / "crds/groups.yaml").read_text()):
        name = crd["metadata"]["name"]
        if absent_is_none(lambda: api.read_custom_resource_definition(name)) is None:
            api.create_custom_resource_definition(crd)

        def established():
            conditions = api.read_custom_resource_definition(name).status.conditions or []
            return any(c.type == "Established" and c.status == "True" for c in conditions)

        eventually(established, f"{name} is served")


@pytest.fixture
def groups(bascule, kinds):
    made = Groups()
    yield made
    made.remove_all()


def member(name, group, command="sleep 3", **slurm):
    manifest = pod(name, command, **slurm)
    manifest["metadata"]["labels"] = {GROUP_LABEL: group}
    return manifest


def gang_job(name, group, parallelism, command="sleep 3"):
    manifest = job(name, command, parallelism=parallelism)
    manifest["spec"]["backoffLimit"] = 10
    manifest["spec"]["template"]["metadata"] = {"labels": {GROUP_LABEL: group}}
    return manifest


def bound(kube, **of):
    return [p for p in kube.pods(**of) if p.spec.node_name]


def live(slurm):
    return [i for i, s in slurm.states().items() if s in ACTIVE]


def test_a_pod_group_is_one_job_on_as_many_nodes(groups, kube, slurm):
    kube.apply(member("a", "pair"))
    eventually(lambda: any("does not exist" in s for s in kube.said_about(kube.pod("a"))), "the pod says that its group is missing")
    groups.pod_group("pair", 2, job_name="a-pair")
    eventually(lambda: any("1 of the 2 pods" in s for s in kube.said_about(kube.pod("a"))), "the pod says how many are missing")
    assert not live(slurm), "an incomplete gang is not submitted"
    kube.apply(member("b", "pair"))
    eventually(lambda: len(bound(kube)) == 2, "both are bound")
    ids = {kube.job_id(p) for p in kube.pods()}
    assert len(ids) == 1, f"one job for both: {ids}"
    record = slurm.job(ids.pop())
    assert record["name"] == "a-pair"
    assert sorted(expand(record["nodes"])) == sorted(p.spec.node_name for p in kube.pods())
    eventually(lambda: all(p.status.phase == "Succeeded" for p in kube.pods()), "both have run")
    eventually(lambda: not live(slurm), "the allocation is free again")


def test_all_or_none(groups, kube, slurm, cluster):
    native = slurm.submit("native-hold", nodes=3, required_nodes=cluster.workers[:3])
    eventually(lambda: slurm.state(native) == "RUNNING", "the native job holds three nodes")
    groups.pod_group("pair", 2)
    kube.apply(gang_job("pair", "pair", 2))
    eventually(lambda: len(live(slurm)) == 2, "the gang is submitted")
    always(lambda: not bound(kube), 3, "nobody of the gang starts on the one free node")
    slurm.cancel(native)
    eventually(lambda: kube.succeeded("pair"), "the gang has run")


def test_an_elastic_gang_starts_small_and_grows(groups, kube, slurm, cluster):
    groups.pod_group("elastic", 2)
    kube.apply(gang_job("elastic", "elastic", 6, "sleep 15"))
    eventually(lambda: len(bound(kube)) >= 4, "all four nodes are used")
    assert len({p.spec.node_name for p in bound(kube)}) == 4, "one pod a node"
    eventually(lambda: kube.succeeded("elastic"), "all six pods have run")
    eventually(lambda: not live(slurm), "all allocations are free again")


def test_a_lost_member_is_replaced_and_the_others_go_on(groups, kube, slurm):
    groups.pod_group("trio", 3)
    kube.apply(gang_job("trio", "trio", 3, "sleep 20"))
    eventually(lambda: len([p for p in bound(kube) if p.status.phase == "Running"]) == 3, "all three run")
    before = {p.metadata.name: p.spec.node_name for p in kube.pods()}
    lost = sorted(before)[1]
    kube.delete("Pod", lost)
    eventually(lambda: lost not in {p.metadata.name for p in kube.pods()} and len(bound(kube)) == 3, "a replacement is bound")
    after = {p.metadata.name: p.spec.node_name for p in kube.pods()}
    assert sum(after.get(name) == node for name, node in before.items()) == 2, f"the others stayed: {before} {after}"
    eventually(lambda: kube.job("trio").status.succeeded == 3, "the Job is complete")
    eventually(lambda: not live(slurm), "all allocations are free again")


def test_a_group_of_a_leader_worker_set_is_one_job(groups, kube, slurm):
    groups.make("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "vllm", {"replicas": 1, "leaderWorkerTemplate": {"size": 3}})
    for name in ("vllm-0", "vllm-0-1", "vllm-0-2"):
        manifest = pod(name, "sleep 2")
        prefix = "leaderworkerset.sigs.k8s.io/"
        manifest["metadata"]["labels"] = {prefix + "name": "vllm", prefix + "group-index": "0", prefix + "group-key": "0f1e2d"}
        kube.apply(manifest)
    eventually(lambda: len(bound(kube)) == 3, "the group is bound")
    ids = {kube.job_id(p) for p in kube.pods()}
    assert len(ids) == 1
    record = slurm.job(ids.pop())
    assert record["name"] == "vllm-0"
    assert [kube.pod(n).spec.node_name for n in ("vllm-0", "vllm-0-1", "vllm-0-2")] == expand(record["nodes"]), "in order of rank"


def test_the_annotations_of_a_job_set_count(groups, kube, slurm):
    made = groups.make("jobset.x-k8s.io/v1alpha2", "JobSet", "set", {}, job_name="from-the-set", timelimit=3)
    manifest = job("set-workers-0", "sleep 2", parallelism=2)
    manifest["metadata"]["ownerReferences"] = [{"apiVersion": made["apiVersion"], "kind": "JobSet", "name": "set", "uid": made["metadata"]["uid"], "controller": True}]
    kube.apply(manifest)
    eventually(lambda: len(bound(kube)) == 2, "both pods are bound")
    for p in kube.pods():
        record = slurm.job(kube.job_id(p))
        assert record["name"] == "from-the-set"
        assert record["time_limit"]["number"] == 3
    assert len({kube.job_id(p) for p in kube.pods()}) == 2, "each pod of a JobSet is a job of its own"
    eventually(lambda: kube.succeeded("set-workers-0"), "the Job is complete")


def test_a_workloads_pod_group_is_one_job(groups, kube, slurm):
    """The cluster's own gangs: PodGroup and Workload of scheduling.k8s.io, the Workload's annotations count."""
    api = "scheduling.k8s.io/v1alpha2"
    gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    groups.make(api, "Workload", "work", {"podGroupTemplates": [{"name": "workers"} | gang]}, job_name="from-the-workload", timelimit=5)
    groups.make(api, "PodGroup", "work-workers", gang | {"podGroupTemplateRef": {"workload": {"workloadName": "work", "podGroupTemplateName": "workers"}}})
    manifest = job("work", "sleep 2", parallelism=2, job_name="from-the-job", account="")
    manifest["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "work-workers"}
    kube.apply(manifest)
    eventually(lambda: len(bound(kube)) == 2, "both are bound")
    ids = {kube.job_id(p) for p in kube.pods()}
    assert len(ids) == 1
    record = slurm.job(ids.pop())
    assert record["name"] == "from-the-workload"
    assert record["time_limit"]["number"] == 5

    def scheduled():
        group = groups.api.get_namespaced_custom_object("scheduling.k8s.io", "v1alpha2", NAMESPACE, "podgroups", "work-workers")
        return [c["status"] for c in group.get("status", {}).get("conditions", []) if c["type"] == "PodGroupScheduled"] == ["True"]

    eventually(scheduled, "the PodGroup says that it is scheduled")
    eventually(lambda: kube.succeeded("work"), "the Job is complete")
