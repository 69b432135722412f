"""Faults on the real parts while Jobs flow: whatever breaks, nothing is killed, doubled or lost, and in the end all is done.

The bridge's scheduler and controllers run here as processes of this machine, behind a proxy that can spoil Slurm's answers.
"""

import contextlib
import os
import random
import signal
import time

import pytest
from kubernetes.client.rest import ApiException
from urllib3.exceptions import HTTPError

from conftest import DEVCLUSTER, LOGS, ROOT, STATE
from host_bridge import LEASES, RELEASE, ROLES, Clock, HostBridge, scale
from kube import absent_is_none, condition
from ledger import Ledger, wait_quiet
from objects import NAMESPACE, job
from proxy import Proxy
from slurm import ACTIVE
from waiting import always, eventually

BINARY = os.environ.get("BASCULE_BINARY", str(ROOT / "build/release/bascule"))


@pytest.fixture(scope="module")
def proxy():
    proxy = Proxy(("127.0.0.1", 6820))
    yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def host(installed, kube, slurm, proxy):
    bridge = HostBridge(LOGS / "bridge", BINARY, kube, slurm.token("slurm", 7200), proxy.url)
    scale(kube, 0)
    bridge.only("scheduler", "controllers")
    yield bridge
    bridge.stop()
    scale(kube, 1)


@pytest.fixture
def flow(host, bascule, kube, slurm, cluster, proxy):
    """Jobs, and the promises over them. Whatever the test broke is whole again before the cluster is tidied up."""
    with Ledger(os.environ["KUBECONFIG"], DEVCLUSTER, max(slurm.states(), default=0)) as ledger:
        yield Flow(kube, slurm, ledger)
    proxy.heal()
    for program in ("slurmctld", "slurmrestd", "apiserver"):
        cluster.fault(program, "start")
    host.write_token(slurm.token("slurm", 7200))
    host.only("scheduler", "controllers")


class Flow:
    def __init__(self, kube, slurm, ledger):
        self.kube, self.slurm, self.ledger, self.names = kube, slurm, ledger, []

    def start(self, count, command="sleep 1", prefix="flow", **annotations):
        """Jobs of one pod; two fit on a node."""
        names = [f"{prefix}-{i}" for i in range(len(self.names), len(self.names) + count)]
        for name in names:
            self.kube.apply(job(name, command, **({"exclusive": "false", "timelimit": 10} | annotations)))
        self.names += names
        return names

    def pods(self):
        return self.kube.pods()

    def phases(self):
        return [p.status.phase for p in self.pods()]

    def done(self):
        return sum(1 for j in self.kube.batch.list_namespaced_job(NAMESPACE).items if j.status.succeeded)

    def wait_done(self, count, why, within=120):
        def enough():
            done = self.done()
            assert done >= count, f"{done} of {count} Jobs are complete"
            return True

        try:
            eventually(enough, why, within=within, every=0.3)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.where()}") from None

    def slurm_job_of(self, name):
        """The record of the Slurm job of a Job of one pod, as last seen."""
        return self.ledger.jobs[self.kube.job_id(self.kube.pod_of(name))]

    def where(self):
        """Where the pods stand: the reason of a failure."""
        lines = []
        for p in self.pods():
            if p.status.phase != "Succeeded":
                said = next((f"{c.reason}: {c.message}" for c in p.status.conditions or [] if c.type == "PodScheduled"), "")
                lines.append(f"{p.metadata.name} {p.status.phase} on {p.spec.node_name}, job {self.kube.job_id(p)}, {said}")
        return "\n".join(lines)

    def go_on(self, count, why, **annotations):
        """Jobs that begin now are soon complete."""
        names = self.start(count, **annotations)
        eventually(lambda: all(map(self.kube.succeeded, names)), f"{why}: Jobs flow", within=60, every=0.3)
        return names

    def finish(self, forgetful=False, clocks=True):
        """All Jobs complete, and the promises hold."""
        self.wait_done(len(self.names), "all Jobs are complete after the fault")
        eventually(lambda: not [i for i, s in self.slurm.states().items() if i > self.ledger.since and s in ACTIVE], "all allocations are free again")
        wait_quiet()
        self.ledger.check(self.names, forgetful, clocks)


def bound(pods):
    return [p for p in pods if p.spec.node_name]


# --- Slurm ---------------------------------------------------------------------------------------------------


def test_slurmctld_is_away_for_a_minute(flow, cluster):
    flow.start(4, "sleep 65")                                   # run through the whole fault
    eventually(lambda: flow.phases().count("Running") == 4, "four pods run")
    flow.start(8)                                               # some run, some wait
    cluster.fault("slurmctld", "stop")
    flow.start(4, prefix="during")
    running = {p.metadata.uid for p in flow.pods() if p.status.phase == "Running"}
    always(lambda: not flow.ledger.deleted_running, 60, "no pod is killed while slurmctld is away", every=0.5)
    left = {p.metadata.uid: p.status.phase for p in flow.pods()}
    assert all(left.get(uid) in ("Running", "Succeeded") for uid in running), left
    cluster.fault("slurmctld", "start")
    flow.finish()


def test_slurmctld_is_killed_and_forgets_its_last_seconds(flow, cluster):
    """It saves its state every few seconds: jobs that ran are pending again, or not there, and their ids are given to others."""
    flow.start(6, "sleep 12")
    eventually(lambda: len(bound(flow.pods())) == 6, "six pods are bound", every=0.05)
    cluster.fault("slurmctld", "kill")
    cluster.fault("slurmctld", "start")
    flow.start(6)
    flow.finish(forgetful=True)


def test_a_node_that_slurmctld_left_allocated_to_no_job_is_freed(flow, cluster, slurm, kube):
    """It saves nodes and jobs one after the other: a kill between may leave a node allocated for ever. Made here of the nodes of one moment and the jobs of a later one."""
    saved = STATE / "slurm/state/node_state"
    leaves = slurm.submit("leaves", required_nodes=["n1"])
    stays = slurm.submit("stays", required_nodes=["n2"])
    eventually(lambda: {slurm.state(leaves), slurm.state(stays)} == {"RUNNING"}, "two native jobs run", every=0.3)
    cluster.fault("slurmctld", "stop")
    nodes = saved.read_bytes()
    cluster.fault("slurmctld", "start")
    slurm.cancel(leaves)
    eventually(lambda: "IDLE" in slurm.nodes()["n1"]["state"], "n1 is idle", every=0.3)
    cluster.fault("slurmctld", "stop")
    saved.write_bytes(nodes)
    cluster.fault("slurmctld", "start")
    found = slurm.nodes()["n1"]
    assert "ALLOCATED" in found["state"] and not found["alloc_cpus"], f"the fault is not made: {found['state']}"

    def freed():
        state = slurm.nodes()["n1"]["state"]
        assert set(state) & {"IDLE", "DRAIN"} == {"IDLE"}, f"n1 is {state}"
        return True

    eventually(freed, "n1 is idle again", within=90, every=0.3)
    assert slurm.state(stays) == "RUNNING"
    eventually(lambda: kube.says_of_node("n1", "SlurmNodeStranded", "to no job"), "an event says why it was not")
    eventually(lambda: condition(kube.core.read_node("n1"), "SlurmReady").reason == "InService", "the node says that it is in service", every=0.3)
    slurm.cancel(stays)
    flow.start(4)
    flow.finish()


def test_slurmctld_hangs(flow, cluster):
    flow.start(10)
    flow.wait_done(1, "the first Job is complete")
    cluster.fault("slurmctld", "pause")
    time.sleep(10)
    cluster.fault("slurmctld", "resume")
    flow.finish()


def test_slurmrestd_is_killed_again_and_again(flow, cluster):
    flow.start(16)
    for _ in range(4):
        time.sleep(1.5)
        cluster.fault("slurmrestd", "kill")
        time.sleep(1)
        cluster.fault("slurmrestd", "start")
    flow.finish()


def test_answers_are_lost_and_cut(flow, proxy):
    """The submit was done but nobody heard of it; answers end in their middle."""
    proxy.of, proxy.lose = b"job/submit", 3
    flow.start(8)
    eventually(lambda: proxy.lost == 3, "three answers to submits are lost")
    proxy.cut = 10
    eventually(lambda: proxy.cut == 0, "ten answers are cut")
    flow.finish()


@pytest.mark.slow
def test_answers_come_8_s_late(flow, proxy):
    flow.start(4, "sleep 20")
    eventually(lambda: flow.phases().count("Running") == 4, "four pods run")
    proxy.delay = 8
    flow.start(6)
    flow.wait_done(6, "Jobs complete although every answer takes 8 s", within=150)
    proxy.delay = 0
    flow.finish()


def test_the_token_expires_and_is_replaced(flow, host, slurm):
    flow.start(4, "sleep 40")                                   # run through it all
    eventually(lambda: flow.phases().count("Running") == 4, "four pods run")
    host.write_token(slurm.token("slurm", 2))
    time.sleep(4)                                               # now it is surely over
    flow.start(6)
    always(lambda: not flow.ledger.deleted_running, 8, "no pod is killed because of a token", every=0.5)

    def all_wait_and_say_why():
        waiting = [p for p in flow.pods() if not p.spec.node_name]
        assert len(waiting) == 6, f"nothing is placed without a token, {len(waiting)} of 6 wait"
        said = {m for p in waiting for m in flow.kube.said_about(p)}
        assert any("token" in m for m in said), f"the pods do not say that the token is the matter: {said}"
        return True

    eventually(all_wait_and_say_why, "the pods wait and say why", every=0.3)
    wait_quiet()
    host.write_token(slurm.token("slurm", 7200))
    flow.finish()


# --- Kubernetes -----------------------------------------------------------------------------------------------


def test_the_apiserver_is_restarted(flow, cluster):
    flow.start(14)
    flow.wait_done(2, "the first Jobs are complete")
    cluster.fault("apiserver", "kill")
    time.sleep(3)
    cluster.fault("etcd", "compact")                            # no watch can go on where it was
    cluster.fault("apiserver", "start")
    flow.finish()


# --- the bridge itself ----------------------------------------------------------------------------------------


def test_scheduler_and_controllers_are_killed_at_random(flow, host):
    seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
    print(f"SEED={seed}")
    dice = random.Random(seed)
    flow.start(20)
    kills = 0
    while flow.done() < 20 and kills < 40:
        time.sleep(dice.uniform(0.05, 1.5))
        victim = host.processes[dice.choice(["scheduler", "scheduler", "controllers"])]
        victim.kill()
        kills += 1
        victim.start()
    assert kills > 5, "there was time to kill"
    flow.finish()


def test_two_schedulers_fight_for_the_lease(flow, host):
    host.only("controllers")
    rivals = {name: host.add("scheduler", name, "--leader-elect") for name in ("rival-a", "rival-b")}
    coordination = flow.kube.coordination

    def leader(but=None):
        with contextlib.suppress(ApiException, HTTPError):
            holder = coordination.read_namespaced_lease(LEASES["scheduler"], RELEASE).spec.holder_identity or ""
            name = holder.rpartition("_")[0]
            return name if name in rivals and name != but and rivals[name].alive() and "leading" in rivals[name].log() else None

    first = eventually(leader, "one of them leads")
    flow.start(8)
    flow.wait_done(1, "the leader works")
    rivals[first].send(signal.SIGSTOP)                          # it will believe that it leads when it wakes
    second = eventually(lambda: leader(but=first), "the other takes the lease")
    late = flow.start(8, "sleep 3")                             # of these the first has placed none
    eventually(lambda: sum(map(flow.kube.succeeded, late)) >= 2, "the second leader works", every=0.3)
    rivals[first].send(signal.SIGCONT)
    eventually(lambda: not rivals[first].alive(), "the old leader ends itself")
    assert rivals[first].process.returncode == 1
    rivals[first].start()
    rivals[second].kill()
    flow.start(2)                                               # so there is work that only the first can do
    flow.finish()
    assert rivals[first].alive()
    eventually(lambda: leader() == first, "the first leads again")


# --- clocks ---------------------------------------------------------------------------------------------------

HOUR = 3600
LONG = 600  # minutes: to Slurm an hour that its clock is ahead is an hour that a job has run


@pytest.fixture
def slurm_clock(host, cluster):
    """Sets how many seconds the clock of slurmctld and slurmrestd is ahead."""

    def ahead(seconds):
        cluster.fault("slurm", "clock", str(seconds))

    ahead(0)
    yield ahead
    ahead("true")


def test_slurms_clock_steps_by_an_hour(slurm_clock, flow, cluster):
    """Forward Jobs flow on. Set back, slurmctld starts no job before its clock is where it was, or it is restarted: till then all wait."""
    through = flow.start(2, "sleep 40", timelimit=LONG)
    eventually(lambda: flow.phases().count("Running") == 2, "two pods run")
    before = 0
    for ahead in (HOUR, 0, -HOUR, 0):
        slurm_clock(ahead)
        waiting = flow.start(1, timelimit=LONG)
        if ahead < before:
            always(lambda: not flow.ledger.deleted_running, 5, "no pod is killed by a clock that was set back", every=0.5)
            cluster.fault("slurmctld", "stop")
            cluster.fault("slurmctld", "start")
        before = ahead
        flow.go_on(4, f"Slurm's clock is {ahead} s ahead", timelimit=LONG)
        eventually(lambda: flow.kube.succeeded(waiting[0]), "the one that waited is complete", every=0.3)
        submitted = flow.slurm_job_of(flow.names[-1])["submit_time"]["number"]
        assert abs(submitted - time.time() - ahead) < 300, f"job submitted at {submitted}, now is {time.time()}: Slurm's clock did not step to {ahead} s ahead"
    assert not flow.ledger.deleted_running, flow.ledger.deleted_running
    eventually(lambda: all(map(flow.kube.succeeded, through)), "the pods that ran through it all are done", every=0.3)
    flow.finish(clocks=False)


def test_the_bridges_clock_steps_by_an_hour(flow, host):
    """Nothing ends or comes twice, and who leads goes on leading, though to others its lease is of the past or the future."""
    host.only()
    clock = Clock(host.folder)
    stepping = {role: host.add(role, f"stepping-{role}", "--leader-elect", environment=clock.environment) for role in ROLES}

    def lease():
        return flow.kube.coordination.read_namespaced_lease(LEASES["scheduler"], RELEASE).spec

    def leads(name):
        return (absent_is_none(lambda: lease().holder_identity) or "").startswith(f"{name}_")

    eventually(lambda: leads("stepping-scheduler"), "it leads")
    rival = host.add("scheduler", "rival", "--leader-elect")
    flow.start(2, "sleep 60", timelimit=LONG)
    eventually(lambda: flow.phases().count("Running") == 2, "two pods run")
    for ahead in (HOUR, 0, HOUR):
        clock.set(ahead)
        began = time.monotonic()
        flow.go_on(4, f"the bridge's clock is {ahead} s ahead", timelimit=LONG)
        eventually(lambda: abs(lease().renew_time.timestamp() - time.time() - ahead) < 300, f"its clock is {ahead} s ahead", every=0.3)
        always(lambda: leads("stepping-scheduler"), 17 - (time.monotonic() - began), "the lease is held", every=0.3)  # it would run out in 15 s
    assert all(p.alive() for p in stepping.values())
    assert "leading" not in rival.log()
    stepping["scheduler"].kill()
    eventually(lambda: leads("rival"), "its lease runs out though it is of the future", within=60, every=0.3)
    flow.go_on(2, "another scheduler leads", timelimit=LONG)
    flow.finish()


# --- nodes ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_node_dies_with_its_pod(flow, kube, slurm, cluster):
    """Kubernetes gives the pod up after its toleration, its Job gets another; the allocation is held while the old one may still run."""
    manifest = job("lost", "sleep 600", exclusive="false")
    manifest["spec"]["backoffLimit"] = 3
    manifest["spec"]["template"]["spec"]["tolerations"] = [
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}]
    kube.apply(manifest)
    eventually(lambda: kube.pod_of("lost") and kube.pod_of("lost").status.phase == "Running", "the pod runs")
    old = kube.pod_of("lost")
    node, old_job = old.spec.node_name, kube.job_id(old)
    number = node.removeprefix("n")
    try:
        cluster.fault("kubelet", number, "kill")
        eventually(lambda: "DRAIN" in slurm.nodes()[node]["state"], "Slurm gives no more work to the node", every=1)
        assert slurm.nodes()[node]["reason"].startswith("slurm-bridge:"), slurm.nodes()[node]["reason"]
        eventually(lambda: kube.pod(old.metadata.name).metadata.deletion_timestamp, "Kubernetes gives the pod up", every=0.5)
        fresh = eventually(lambda: next((p for p in kube.pods(job="lost") if p.status.phase == "Running" and p.metadata.uid != old.metadata.uid), None),
                           "another pod runs in its place")
        assert fresh.spec.node_name != node and kube.job_id(fresh) != old_job
        always(lambda: slurm.state(old_job) == "RUNNING", 3, "the allocation is held: nobody knows whether the pod still runs", every=0.5)
        kube.core.patch_node(node, {"spec": {"taints": [*taints(kube, node), {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}]}})
        eventually(lambda: kube.pod(old.metadata.name) is None, "the administrator's word ends the pod", every=0.5)
        eventually(lambda: slurm.state(old_job) not in ACTIVE, "and its allocation")
        assert kube.pod(fresh.metadata.name).status.phase == "Running"
    finally:
        kube.core.patch_node(node, {"spec": {"taints": [t for t in taints(kube, node) if t["key"] != OUT_OF_SERVICE]}})
        cluster.fault("kubelet", number, "start")
    eventually(lambda: "DRAIN" not in slurm.nodes()[node]["state"], "the node is back in service", every=0.5)


OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


def taints(kube, node):
    return [{"key": t.key, "value": t.value, "effect": t.effect} for t in kube.core.read_node(node).spec.taints or []]
