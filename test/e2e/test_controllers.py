"""What Kubernetes' own controllers do, with the bridge beside them: Jobs that are suspended or fail, DaemonSets, nodes that come, and what a node and a
refusal say."""

import pytest
from kubernetes.client.rest import ApiException

from kube import absent_is_none, condition
from objects import FINALIZER, IMAGE, LABEL_EXTERNAL, LABEL_JOB_ID, NAMESPACE, TAINT, job, pod
from slurm import ACTIVE, HYBRID
from test_bridge import hold, waiting_job
from test_preemption import not_failed, running, tolerant, urgent  # noqa: F401 (a fixture)
from waiting import always, eventually


def live(slurm):
    return [i for i, s in slurm.states().items() if s in ACTIVE]


def test_a_suspended_job_has_no_place_in_the_queue(bascule, kube, slurm):
    """Neither before it is resumed nor while it is suspended again."""
    made = job("later", "sleep 4")
    made["spec"]["suspend"] = True
    kube.apply(made)
    always(lambda: not kube.pods(job="later") and not live(slurm), 2, "nothing is submitted")
    suspend(kube, False)
    (first,) = running(kube, "later")
    suspend(kube, True)
    eventually(lambda: not kube.pods(job="later") and not live(slurm), "its pod and its Slurm job have gone")
    assert slurm.state(kube.job_id(first)) == "CANCELLED"
    suspend(kube, False)
    eventually(lambda: kube.succeeded("later"), "the Job is complete")


def suspend(kube, on):
    kube.batch.patch_namespaced_job("later", NAMESPACE, {"spec": {"suspend": on}})


def test_preemption_does_not_count_against_a_job_and_scancel_does(urgent, kube, slurm):  # noqa: F811
    """With podFailurePolicy, and without a single failure to spare."""
    made = tolerant("patient", "sleep 600")
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 3  # to be seen
    kube.apply(made)
    (placed,) = running(kube, "patient")
    native = slurm.submit("native-urgent", required_nodes=[placed.spec.node_name], partition="urgent")
    said = eventually(lambda: (p := kube.pod(placed.metadata.name)) and condition(p, "DisruptionTarget"), "the pod says that it is not to blame", every=0.05)
    assert (said.status, said.reason) == ("True", "PreemptionByScheduler") and str(kube.job_id(placed)) in said.message, said
    eventually(lambda: kube.pod(placed.metadata.name) is None, "it is gone")
    assert not_failed(kube, "patient")
    slurm.cancel(native)
    (placed,) = running(kube, "patient")
    slurm.command("scancel", str(kube.job_id(placed)))
    failed = eventually(lambda: condition(kube.job("patient"), "Failed"), "somebody wanted it to end, and so it does")
    assert failed.reason == "BackoffLimitExceeded" and kube.job("patient").status.failed == 1, failed
    eventually(lambda: not live(slurm), "the allocation is free again")


def test_a_job_is_tried_again_as_often_as_its_backoff_limit_says(bascule, kube, slurm):
    made = job("hopeless", "exit 1")
    made["spec"]["backoffLimit"] = 1
    before = max(slurm.states(), default=0)
    kube.apply(made)
    failed = eventually(lambda: condition(kube.job("hopeless"), "Failed"), "the Job has failed")
    assert failed.reason == "BackoffLimitExceeded" and kube.job("hopeless").status.failed == 2, failed
    eventually(lambda: not live(slurm), "all allocations are free again")
    assert len([i for i in slurm.states() if i > before]) == 2, "a Slurm job for each pod, no more"


def test_daemon_sets_in_a_managed_namespace_are_left_alone(bascule, kube, slurm, cluster):
    """Their pods run on every node, whoever has it in Slurm, and Slurm never hears of them."""
    hold(slurm, cluster)
    before = set(slurm.states())
    kube.apps.create_namespaced_daemon_set(NAMESPACE, {
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {"terminationGracePeriodSeconds": 1, "tolerations": [{"key": TAINT, "operator": "Exists"}],
                     "containers": [{"name": "agent", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "infinity"]}]}}}})
    try:
        everywhere = sorted([*cluster.workers, cluster.system_node])
        eventually(lambda: sorted(p.spec.node_name for p in kube.pods() if p.status.phase == "Running") == everywhere, "one runs on each node")
        for p in kube.pods():
            assert p.spec.scheduler_name == "default-scheduler" and LABEL_JOB_ID not in p.metadata.labels and FINALIZER not in (p.metadata.finalizers or [])
        assert set(slurm.states()) == before, "no Slurm job is made for them"
        slurm.cancel_all()
        kube.apply(job("beside", "sleep 1", 4))
        eventually(lambda: kube.succeeded("beside"), "pods of a Job run beside them")
        assert sorted(p.spec.node_name for p in kube.pods() if p.metadata.labels.get("app") == "agent" and p.status.phase == "Running") == everywhere
    finally:
        absent_is_none(lambda: kube.apps.delete_namespaced_daemon_set("agent", NAMESPACE))


@pytest.mark.skipif(HYBRID, reason="a slurmd that runs takes a node that is down back at once (ReturnToService=2)")
def test_a_node_says_why_slurm_starts_nothing_on_it(bascule, kube, slurm, cluster):
    node = cluster.workers[1]

    def told(status, why, message):
        said = condition(kube.core.read_node(node), "SlurmReady")
        assert said and (said.status, said.reason, said.message) == (status, why, message), said
        return True

    try:
        for state, reason, words in (("DRAIN", "Drained", "fan 3 is loud"), ("DOWN", "Down", "fan 3 is broken")):
            slurm.scontrol("update", f"NodeName={node}", f"State={state}", f"Reason={words}")
            eventually(lambda: told("False", reason, f"{words} (root)"), "reason and who")
            eventually(lambda: kube.says_of_node(node, f"Slurm{reason}", words), "and so does an event")  # noqa: B023
    finally:
        slurm.scontrol("update", f"NodeName={node}", "State=RESUME")
    eventually(lambda: told("True", "InService", "Slurm starts jobs on this node"), "it is back")


@pytest.mark.skipif(HYBRID, reason="a node with a slurmd joins by slurm.conf")
def test_a_node_that_joins_is_used_by_a_job_that_waits(bascule, kube, slurm, cluster):
    node = cluster.workers[3]
    label(kube, node, None)
    try:
        eventually(lambda: node not in slurm.nodes(), "the node has left")
        hold(slurm, cluster, cluster.workers[:3])
        waiting, _ = waiting_job(kube, slurm, "patient")
        label(kube, node, "true")
        eventually(lambda: (p := kube.pod(waiting.metadata.name)) and p.spec.node_name == node, "the pod that waited is bound to it")
        eventually(lambda: kube.succeeded("patient"), "it has run")
    finally:
        label(kube, node, "true")


def label(kube, node, value):
    kube.core.patch_node(node, {"metadata": {"labels": {LABEL_EXTERNAL: value}}})


def spread(manifest):
    spec = manifest["spec"].get("template", manifest)["spec"]
    spec["topologySpreadConstraints"] = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}}}]
    return manifest


def test_a_topology_spread_is_refused_with_a_sentence(bascule, kube, slurm):
    sentence = "spec.topologySpreadConstraints is not supported, since Slurm chooses the nodes; remove it, or use a Slurm topology and constraints"
    with pytest.raises(ApiException) as refused:
        kube.apply(spread(pod("spread")))
    assert f"pod {NAMESPACE}/spread: {sentence}" in refused.value.body
    kube.apply(spread(job("spread")))

    def told():
        events = kube.core.list_namespaced_event(NAMESPACE, field_selector="involvedObject.kind=Job,involvedObject.name=spread,reason=FailedCreate").items
        return any(sentence in e.message for e in events)

    eventually(told, "`kubectl describe job` has the same sentence")
    assert not kube.pods(job="spread") and not live(slurm)


def test_an_annotation_of_an_old_release_has_no_effect_and_is_told(bascule, kube, slurm):
    """As slurm-bridge's own examples of JobSets have them."""
    made = pod("old", "sleep 2")
    made["metadata"]["annotations"] = {"slinky.slurm.net/job-name": "of-old"}
    kube.apply(made)
    eventually(lambda: any("slinky.slurm.net/job-name is of an old release and has no effect" in s for s in kube.said_about(kube.pod("old"))), "the pod says so")
    eventually(lambda: kube.pod("old").status.phase == "Succeeded", "it has run")
    assert slurm.job(kube.job_id(kube.pod("old")))["name"] != "of-old"
