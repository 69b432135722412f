"""Fixtures of the end-to-end suite: the real cluster, the official client, a Slurm client, the installed bridge.

The test process moves into the cluster's network namespace, so 127.0.0.1 is the cluster's. A cluster that was up
before stays up; one that the suite brought up goes down at the end, unless KEEP_CLUSTER=1.
"""

import ctypes
import logging
import os
import pathlib
import re
import subprocess

import pytest

from kube import Kube, absent_is_none
from objects import LABEL_EXTERNAL, NAMESPACE, TAINT
from slurm import ACTIVE, HYBRID, VERSION_24, Slurm
from waiting import eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEVCLUSTER = str(ROOT / "tools/devcluster/devcluster")
NAME = os.environ.get("DEVCLUSTER_NAME", "devcluster")
STATE = pathlib.Path(os.environ.get("DEVCLUSTER_STATE", f"/var/tmp/{NAME}"))
NETNS = os.environ.get("DEVCLUSTER_NETNS", NAME)
LOGS = ROOT / "build/e2e-logs" / NAME
# 24.11 has no external nodes: a slurmd for each, as hybrid nodes have. Partitions with a higher PriorityTier take the nodes of the others (there are none but in test_preemption).
SLURM_ARGS = [*(["--version", "24"] if VERSION_24 else []), *(["--slurmd", "4"] if HYBRID else []), "PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"]
WORKERS = 4  # nodes n1 to n4 are Slurm's; n5 carries the bridge's own pods


def pytest_configure(config):
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # an apiserver that is away on purpose is no news
    config.addinivalue_line("markers", "slow: takes a minute or more; `make test-slow` runs it, `make test` does not")
    config.addinivalue_line("markers", "alone: with E2E_ALONE=1 it asserts what is promised for an idle machine; `make test-slow` runs it so")


def run(*command, check=True):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def enter_network():
    with open(f"/run/netns/{NETNS}") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0x40000000):  # CLONE_NEWNET
            raise OSError(ctypes.get_errno(), f"cannot enter the network of {NETNS}")


class Cluster:
    workers = [f"n{i}" for i in range(1, WORKERS + 1)]
    system_node = f"n{WORKERS + 1}"

    def command(self, *args):
        return run(DEVCLUSTER, *args)

    def fault(self, *args):
        return run(DEVCLUSTER, "fault", *args)


def run_aloud(request, *command, **more):
    """Runs a long step of the set-up with its progress on the terminal; its failure ends the whole run."""
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        if subprocess.run([str(c) for c in command], **more).returncode:
            pytest.exit(f"{' '.join(map(str, command))} failed", returncode=3)


@pytest.fixture(scope="session")
def cluster(request):
    was_up = subprocess.run([DEVCLUSTER, "status"], capture_output=True).returncode == 0
    run_aloud(request, DEVCLUSTER, "up", WORKERS + 1)
    run_aloud(request, DEVCLUSTER, "slurm", *SLURM_ARGS)
    enter_network()
    yield Cluster()
    if not was_up and os.environ.get("KEEP_CLUSTER") != "1":
        run_aloud(request, DEVCLUSTER, "down")


@pytest.fixture(scope="session")
def kube(cluster):
    return Kube(str(STATE / "admin.kubeconfig"))


@pytest.fixture(scope="session")
def slurm(cluster):
    return Slurm(DEVCLUSTER)


@pytest.fixture(scope="session")
def installed(request, cluster, kube, slurm):
    """The bridge's chart with this tree's image, all its pods ready and n1 to n4 known to Slurm, idle and tainted."""
    run_aloud(request, ROOT / "tools/demo", "install", env=os.environ | {"DEMO_WORKERS": str(WORKERS)})

    def ready():
        nodes = slurm.nodes()
        for n in cluster.workers:
            assert n in nodes, f"{n} is not in Slurm"
            assert any(t.key == TAINT for t in kube.core.read_node(n).spec.taints or []), f"{n} has no taint"
            assert ("EXTERNAL" in nodes[n]["state"]) != HYBRID, f"{n} is {nodes[n]['state']} in Slurm"
        return True

    eventually(ready, "the labelled nodes are external nodes of Slurm", every=0.5)


@pytest.fixture
def bascule(installed, cluster, kube, slurm):
    """A clean start for each test: no workloads, no jobs, no cordon; and none left behind."""

    def clean():
        kube.delete_all()
        slurm.cancel_all()
        for n in cluster.workers:
            if kube.core.read_node(n).spec.unschedulable:
                kube.cordon(n, False)

        def idle():
            pods = [p.metadata.name for p in kube.pods()]
            assert not pods, f"pods are left: {pods}"
            active = {i: s for i, s in slurm.states().items() if s in ACTIVE}
            assert not active, f"Slurm jobs are left: {active}"
            nodes = slurm.nodes()
            missing = set(cluster.workers) - set(nodes)  # a node whose devices change is made anew
            assert not missing, f"nodes are not in Slurm: {missing}"
            states = {n: nodes[n]["state"] for n in cluster.workers}
            busy = {n: s for n, s in states.items() if "IDLE" not in s or "DRAIN" in s}
            assert not busy, f"nodes are not idle: {busy}"
            return True

        eventually(idle, "the cluster is idle", every=0.3)

    clean()
    yield
    clean()


# --- the operator -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def installed_operator(request, cluster, kube):
    """The charts slurm-operator-crds, slurm-operator and slurm with this tree's images, all ready."""
    from hpc import NS, SlurmCluster  # which imports this file
    release = {"DEMO_SLURM": "24"} if VERSION_24 else {}
    run_aloud(request, ROOT / "tools/demo-operator", "install", env=os.environ | {"DEMO_NODE": cluster.system_node} | release)
    yield SlurmCluster(kube)
    run(DEVCLUSTER, "run", "helm", "uninstall", "--ignore-not-found", "-n", NS, "slurm")
    run(DEVCLUSTER, "run", "helm", "uninstall", "--ignore-not-found", "-n", "slinky", "slurm-operator")
    absent_is_none(lambda: kube.core.delete_namespace(NS))


@pytest.fixture
def hpc(installed_operator):
    """Each test begins with two workers cpu and one batch, all idle, and no job."""

    from hpc import CPU

    def clean():
        installed_operator.on_login("scancel", "-u", "root", check=False)
        installed_operator.scale(CPU, 2)
        eventually(installed_operator.settled, "two workers cpu and one batch serve", every=0.5)

    clean()
    yield installed_operator
    clean()


# --- what is kept of a failure ------------------------------------------------------------------------------


def dump(folder):
    folder.mkdir(parents=True, exist_ok=True)
    kubectl = [DEVCLUSTER, "run", "kubectl"]
    bascule_pods = run(*kubectl, "get", "pods", "-n", "slinky", "-o", "name", check=False).split()
    commands = {
        "pods.txt": [*kubectl, "get", "pods", "-A", "-o", "wide"],
        "pods.yaml": [*kubectl, "get", "pods,jobs", "-n", NAMESPACE, "-o", "yaml"],
        "nodes.yaml": [*kubectl, "get", "nodes", "-o", "yaml"],
        "events.txt": [*kubectl, "get", "events", "-A", "--sort-by=.lastTimestamp"],
        "squeue.txt": [DEVCLUSTER, "slurmexec", "squeue", "-a", "-t", "all"],
        "jobs.txt": [DEVCLUSTER, "slurmexec", "scontrol", "show", "job"],
        "slurm-nodes.txt": [DEVCLUSTER, "slurmexec", "scontrol", "show", "node"],
        "status.txt": [DEVCLUSTER, "status"],
        "operator.yaml": [*kubectl, "get", "controllers,restapis,accountings,loginsets,nodesets", "-A", "-o", "yaml"],
    }
    for pod in bascule_pods:
        name = pod.removeprefix("pod/")
        commands[f"{name}.log"] = [*kubectl, "logs", "-n", "slinky", name, "--all-containers"]
        commands[f"{name}.previous.log"] = [*kubectl, "logs", "-n", "slinky", name, "--all-containers", "--previous"]
    for file, command in commands.items():
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        if done.returncode == 0 or not file.endswith(".previous.log"):
            (folder / file).write_text(done.stdout + done.stderr)
    for log in ("slurmctld.log", "slurmrestd.log"):
        path = STATE / "slurm/log" / log
        if path.exists():
            (folder / log).write_text("".join(path.open(errors="replace").readlines()[-500:]))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed and "cluster" in item.fixturenames:
        folder = LOGS / re.sub(r"[^\w.-]+", "-", item.name)
        try:
            dump(folder)
            report.sections.append(("kept", f"state of the cluster at the failure: {folder}"))
        except Exception as e:  # the test's own failure matters more
            report.sections.append(("kept", f"the state could not be kept: {e}"))


def pytest_terminal_summary(terminalreporter):
    for line in MEASURED:
        terminalreporter.write_line(line)


MEASURED = []


@pytest.fixture(scope="session")
def measured():
    """Lines appended here are printed at the end of the run."""
    return MEASURED
