"""The operator on the real cluster: a Slurm cluster as custom resources, real Slurm daemons in pods, on the node that is
not the bridge's. No job is lost, whatever is done to its workers."""

import json
import signal
import ssl
import time
import urllib.error
import urllib.request

import pytest
import yaml
from kubernetes import client
from kubernetes.client.rest import ApiException

from conftest import DEVCLUSTER, ROOT, run
from external_metrics import ExternalMetrics
from hpc import BATCH, CPU, GROUP, NS, all_ready
from kube import absent_is_none
from slurm import VERSION_24
from waiting import always, eventually

OPERATOR_REASON = "slurm-operator:"


def test_the_cluster_is_ready_and_accounted_for(hpc):
    parts = (("Controller", "slurm"), ("RestApi", "slurm"), ("Accounting", "slurm"), ("LoginSet", "slurm-login-slinky"))
    eventually(lambda: all(hpc.is_ready(*part) for part in parts), "each part is Ready", every=0.5)
    assert "slurm_slurm" in hpc.on_login("sacctmgr", "-n", "-P", "show", "cluster")
    partitions = hpc.on_login("sinfo", "-h", "-t", "idle", "-o", "%R %D").split("\n")
    assert {"cpu 2", "batch 1", "all 3"} <= set(partitions), partitions


def test_a_job_of_the_login_node_runs_on_every_worker(hpc):
    job = hpc.sbatch("srun -l hostname; sleep 1", "-p", "all", "-N3")
    eventually(lambda: hpc.state(job) == "COMPLETED", f"job {job} is done", every=0.5)
    eventually(lambda: "COMPLETED" in hpc.on_login("sacct", "-n", "-X", "-j", str(job), "-o", "State"), "slurmdbd knows the job", every=0.5)


def test_users_log_in_by_ssh(hpc):
    assert "cpu-" in hpc.over_ssh("srun", "-p", "cpu", "-n1", "-t", "1", "hostname")


def test_scale_out_and_in_under_load(hpc):
    """The third worker serves; then two of three have to go: those that work keep their jobs until these end."""
    hpc.scale(CPU, 3)
    eventually(lambda: hpc.settled(cpu=3), "three workers cpu serve", every=0.5)
    array = hpc.array(3, "sleep 60", "-p", "cpu", "-N1", "--exclusive")
    eventually(lambda: hpc.task_states(array) == ["RUNNING"] * 3, "each worker has a job", every=0.5)
    hpc.scale(CPU, 1)
    eventually(lambda: sum("DRAIN" in n["state"] for n in hpc.nodes().values()) == 2, "two workers are drained", every=0.3)
    always(lambda: len(hpc.workers(CPU)) == 3, 3, "no worker goes while its job runs", every=0.5)
    for n in hpc.nodes().values():
        assert "DRAIN" not in n["state"] or n["reason"].startswith(OPERATOR_REASON), n["reason"]
    eventually(lambda: hpc.settled(cpu=1), "one worker cpu is left", within=180, every=0.5)
    tasks = hpc.tasks(array)
    assert len(tasks) == 3
    for t in tasks:
        assert t["job_state"] == ["COMPLETED"], f"job {t['job_id']}: {t['job_state']} on {t['nodes']}"
        assert t["restart_cnt"] == 0, f"job {t['job_id']} was started {t['restart_cnt'] + 1} times"


def test_explain_says_which_worker_waits_for_which_job(hpc):
    jobs = [hpc.sbatch("sleep 250", "-p", "cpu", "-N1", "--exclusive") for _ in range(2)]
    eventually(lambda: set(hpc.states(jobs)) == {"RUNNING"}, "each worker has a job", every=0.5)
    hpc.scale(CPU, 1)

    def explained():
        said = hpc.explain(f"nodeset/{CPU}")
        draining = [p["slurmNode"] for p in said["pods"] if p["state"] == "draining" and p["since"]]
        assert len(draining) == 1, said
        assert any(f"jobs run on Slurm node {draining[0]} (" in wait for wait in said["waits"]), said
        return True

    eventually(explained, "one worker drains, and its job is named", every=0.5)
    ready = eventually(lambda: hpc.explain("controller/slurm"), "the Controller is explained")
    assert {"NodeSet " + CPU, "RestApi slurm"} <= {n["object"] for n in ready["neighbours"]}, ready


def test_rolling_update_under_load(hpc):
    """The template changes while jobs flow: every worker is replaced, no job is lost or started twice."""
    array = hpc.array(6, "sleep 12", "-p", "cpu", "-N1", "--exclusive")
    before = {n: p.metadata.uid for n, p in hpc.workers(CPU).items()}
    eventually(lambda: hpc.task_states(array).count("RUNNING") == 2, "both workers have a job", every=0.5)
    hpc.patch(CPU, {"spec": {"slurmd": {"env": [{"name": "GENERATION", "value": str(time.time())}]}}})
    eventually(lambda: len(new := {p.metadata.uid for p in hpc.workers(CPU).values()}) == 2 and new.isdisjoint(before.values()), "every worker is new", within=150, every=0.5)
    eventually(lambda: hpc.task_states(array) == ["COMPLETED"] * 6, "all jobs are done", every=0.5)
    assert all(t["restart_cnt"] == 0 for t in hpc.tasks(array))


def test_the_operator_is_killed_while_workers_come_and_go(hpc):
    job = hpc.sbatch("sleep 12", "-p", "cpu", "-N2", "--exclusive")
    eventually(lambda: hpc.state(job) == "RUNNING", "the job runs", every=0.5)
    killed = 0
    for replicas in (4, 1, 3):
        hpc.scale(CPU, replicas)
        time.sleep(1)
        killed += hpc.kill_operator()
        time.sleep(1)
    assert killed, "no operator was there to be killed"
    eventually(lambda: hpc.settled(cpu=3), "three workers cpu serve", within=150, every=0.5)
    eventually(lambda: hpc.state(job) == "COMPLETED", "the job is done", every=0.5)
    assert hpc.jobs()[job]["restart_cnt"] == 0


def test_another_operator_takes_over_when_the_leader_is_killed(hpc):
    """Two replicas: the one that leads dies while workers come and go, the other does its work; no job is lost."""

    def replicas(count):
        hpc.kube.apps.patch_namespaced_deployment_scale("slurm-operator", "slinky", {"spec": {"replicas": count}})
        eventually(lambda: [all_ready(p) for p in hpc.operators()] == [True] * count, f"{count} operators are ready", every=0.5)

    job = hpc.sbatch("sleep 60", "-p", "cpu", "-N2", "--exclusive")
    eventually(lambda: hpc.state(job) == "RUNNING", "the job runs", every=0.5)
    replicas(2)
    try:
        leader = eventually(hpc.leader, "somebody leads", every=0.5)
        assert leader in [p.metadata.name for p in hpc.operators()], leader
        hpc.scale(CPU, 3)
        assert hpc.state(job) == "RUNNING"
        assert hpc.kill_operator(leader) == 1, "the leader was not there to be killed"
        hpc.kube.core.delete_namespaced_pod(leader, "slinky", grace_period_seconds=0)
        eventually(lambda: hpc.leader() != leader, "another operator leads", every=0.5)
        eventually(lambda: hpc.settled(cpu=3), "the third worker serves", every=0.5)
        hpc.scale(CPU, 1)
        eventually(lambda: hpc.settled(cpu=1), "one worker cpu is left", every=0.5)
        eventually(lambda: hpc.state(job) == "COMPLETED", "the job is done", every=0.5)
        assert hpc.jobs()[job]["restart_cnt"] == 0
    finally:
        replicas(1)


def test_kubectl_scales_a_nodeset(hpc):
    """What autoscalers use: the scale subresource, with the selector of the pods."""
    run(DEVCLUSTER, "run", "kubectl", "-n", NS, "scale", "nodeset", CPU, "--replicas=3")
    eventually(lambda: hpc.settled(cpu=3), "three workers cpu serve", every=0.5)
    scale = hpc.custom.get_namespaced_custom_object_scale(*GROUP, "nodesets", CPU)
    assert scale["spec"]["replicas"] == scale["status"]["replicas"] == 3, scale
    selected = hpc.kube.core.list_namespaced_pod(NS, label_selector=scale["status"]["selector"]).items
    assert len(selected) == 3, scale


@pytest.mark.skipif(VERSION_24, reason="the slurmctld of 24.11 counts for nobody")
def test_a_horizontal_pod_autoscaler_follows_the_jobs(hpc, tmp_path):
    """The example's autoscaler on what slurmctld counts: pending jobs bring workers, idle workers go, a job that runs
    keeps its worker."""

    def kubectl(verb, objects):
        file = tmp_path / "objects.json"
        file.write_text(json.dumps(objects))
        run(DEVCLUSTER, "run", "kubectl", verb, "-f", file)

    autoscaler = yaml.safe_load((ROOT / "docs/examples/operator/hpa.yaml").read_text())
    autoscaler["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"] = 0
    slurmctld = f"http://{hpc.kube.core.read_namespaced_service('slurm-controller', NS).spec.cluster_ip}:6817"
    jobs = [hpc.sbatch("sleep 250", "-p", "cpu", "-N1", "--exclusive") for _ in range(4)]
    with ExternalMetrics(kubectl, slurmctld, tmp_path):
        kubectl("apply", autoscaler)
        try:
            eventually(lambda: set(hpc.states(jobs)) == {"RUNNING"}, "a worker has come for each job", every=0.5)
            hpc.on_login("scancel", *map(str, jobs[:3]))
            eventually(lambda: list(hpc.workers(CPU)) == [f"{CPU}-{hpc.jobs()[jobs[3]]['nodes'].rsplit('-', 1)[1]}"], "the worker with the job is left alone", every=0.5)
            assert hpc.state(jobs[3]) == "RUNNING" and hpc.jobs()[jobs[3]]["restart_cnt"] == 0
        finally:
            kubectl("delete", autoscaler)


def test_a_slurmd_that_crashes_or_refuses_a_configuration_costs_no_job(hpc):
    """SIGSEGV to slurmd; then a plugin of its configuration is missing. The container and its job go on."""
    job = hpc.sbatch("sleep 250", "-p", "cpu", "-N1", "--exclusive")
    eventually(lambda: hpc.state(job) == "RUNNING", "the job runs", every=0.5)
    node = hpc.jobs()[job]["nodes"]
    worker, plugin = f"slurm-worker-{node}", "/usr/lib/*/slurm*/proctrack_linuxproc.so"

    def goes_on():
        assert hpc.state(job) == "RUNNING" and hpc.jobs()[job]["restart_cnt"] == 0
        pod = hpc.workers()[worker]
        assert {c.restart_count for c in pod.status.container_statuses} == {0}, f"{worker} was started again"
        assert node in hpc.serving(), f"{node}: {hpc.nodes()[node]['state']}"
        return True

    def reconfigured(word):
        hpc.on_login("scontrol", "reconfigure")
        eventually(lambda: word in hpc.log(worker, "slurmd"), f"slurmd says: {word}", every=0.5)
        eventually(goes_on, "the job goes on", every=0.5)

    assert hpc.signal([hpc.workers()[worker]], ("slurmd", "slurmd-wlm"), signal.SIGSEGV) == 1
    eventually(lambda: hpc.log(worker, "slurmd").count("slurmd started on") >= 2, "slurmd is started again", every=0.5)
    eventually(goes_on, "the job goes on", every=0.5)
    hpc.on_worker(worker, f"for p in {plugin}; do mv $p $p.away; done")
    reconfigured("Resuming operation, reconfigure failed.")
    hpc.on_worker(worker, f"for p in {plugin}.away; do mv $p ${{p%.away}}; done")
    reconfigured("Relinquishing control to new slurmd process")


def test_a_killed_worker_comes_back(hpc):
    victim = next(iter(hpc.workers(BATCH).values()))
    hpc.kube.core.delete_namespaced_pod(victim.metadata.name, NS, grace_period_seconds=0)

    def back():
        pod = absent_is_none(lambda: hpc.kube.core.read_namespaced_pod(victim.metadata.name, NS))
        return pod and pod.metadata.uid != victim.metadata.uid

    eventually(back, "a new pod of the same name", every=0.5)
    eventually(hpc.settled, "it serves", every=0.5)


def test_a_mistake_is_refused_with_a_sentence(hpc):
    with pytest.raises(ApiException) as refused:
        hpc.patch(CPU, {"spec": {"controllerRef": {"name": "another"}}})
    said = json.loads(refused.value.body)["message"]
    assert "controllerRef" in said, said


def test_metrics_are_for_those_who_may_get_them(hpc):
    """operator.metricsSecure: TLS, a bearer token that Kubernetes knows, and the right to get /metrics."""
    rbac = client.RbacAuthorizationV1Api()
    address = hpc.operators()[0].status.pod_ip
    no_one_vouches = ssl.create_default_context()
    no_one_vouches.check_hostname, no_one_vouches.verify_mode = False, ssl.CERT_NONE

    def scrape(token=None):
        ask = urllib.request.Request(f"https://{address}:8080/metrics", headers={"Authorization": f"Bearer {token}"} if token else {})
        try:
            with urllib.request.urlopen(ask, context=no_one_vouches, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, ""

    def new_token():
        body = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
        return hpc.kube.core.create_namespaced_service_account_token("default", NS, body).status.token

    assert scrape()[0] == 401
    assert scrape(new_token())[0] == 403
    binding = {"metadata": {"name": "e2e-metrics"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "slurm-operator-metrics-reader"},
               "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": NS}]}
    rbac.create_cluster_role_binding(binding)
    try:
        # another token each time: what was refused stays refused for a minute
        status, text = eventually(lambda: (got := scrape(new_token()))[0] == 200 and got, "whoever may is let in", every=0.5)
        assert 'controller_runtime_reconcile_total{controller="nodeset-controller"' in text, text[:500]
    finally:
        rbac.delete_cluster_role_binding("e2e-metrics")


def test_nothing_is_written_at_rest(hpc):
    def versions():
        found = {f"{p.metadata.name}": p.metadata.resource_version for p in hpc.kube.core.list_namespaced_pod(NS).items}
        for kind in ("controllers", "restapis", "accountings", "loginsets", "nodesets"):
            for item in hpc.custom.list_namespaced_custom_object(*GROUP, kind)["items"]:
                found[f"{kind}/{item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
        for read in (hpc.kube.core.list_namespaced_config_map, hpc.kube.core.list_namespaced_secret, hpc.kube.core.list_namespaced_service,
                     hpc.kube.apps.list_namespaced_stateful_set, hpc.kube.apps.list_namespaced_deployment, hpc.kube.apps.list_namespaced_controller_revision):
            for item in read(NS).items:
                found[f"{read.__name__}/{item.metadata.name}"] = item.metadata.resource_version
        return found

    def nothing_changed():
        """For longer than Slurm's nodes are left unread. What went before may still have to settle: slurmctld notices on its own time that a worker which was killed answers again."""
        before = versions()
        time.sleep(25)
        now = versions()
        assert now == before, f"written: {sorted(name for name in now.keys() | before.keys() if now.get(name) != before.get(name))}"
        return True

    eventually(nothing_changed, "nothing is written at rest")
