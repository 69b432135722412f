"""The ground itself, without the bridge: the real cluster runs a pod, the real Slurm runs a native external job."""

import os
import pathlib
import subprocess

import pytest

from objects import pod
from slurm import Slurm, expand
from waiting import always, eventually


def test_a_pod_of_the_default_scheduler_runs(kube):
    kube.delete("Pod", "smoke", "default")
    eventually(lambda: kube.pod("smoke", "default") is None, "an old pod is gone")
    kube.apply(pod("smoke", "echo hello from $(hostname)", namespace="default"))
    try:
        eventually(lambda: kube.pod("smoke", "default").status.phase == "Succeeded", "the pod succeeded")
        assert kube.log("smoke", "default") == "hello from smoke"
    finally:
        kube.delete("Pod", "smoke", "default")


@pytest.fixture
def node(slurm):
    """An external node of our own, that no bridge knows."""
    if "x1" not in slurm.nodes():
        slurm.create_node("x1")
    yield "x1"
    eventually(lambda: delete(slurm, "x1"), "the node is deleted")


def delete(slurm, name):
    try:
        slurm.delete_node(name)
        return True
    except Exception as e:
        raise AssertionError(str(e)) from e


def test_a_native_external_job_runs(slurm: Slurm, node):
    job_id = slurm.submit("smoke", required_nodes=[node])
    eventually(lambda: slurm.state(job_id) == "RUNNING", "the job runs")
    assert slurm.job(job_id)["nodes"] == node
    assert slurm.states()[job_id] == "RUNNING"
    assert str(job_id) in slurm.squeue()
    slurm.cancel(job_id)
    eventually(lambda: slurm.state(job_id) == "CANCELLED", "the job is cancelled")


def test_a_second_job_waits_and_priority_decides(slurm, node):
    first = slurm.submit("first", required_nodes=[node])
    eventually(lambda: slurm.state(first) == "RUNNING", "the first job runs")
    low, high = slurm.submit("low", required_nodes=[node]), slurm.submit("high", required_nodes=[node])
    always(lambda: slurm.state(low) == "PENDING", 1.5, "the second job waits")
    eventually(lambda: slurm.job(low)["state_reason"] in ("Resources", "Priority"), "Slurm says why")
    slurm.scontrol("update", f"JobId={high}", "Priority=4000000000")
    slurm.cancel(first)
    eventually(lambda: slurm.state(high) == "RUNNING", "the job of higher priority runs")
    assert slurm.state(low) == "PENDING"
    slurm.cancel(high)
    slurm.cancel(low)


def test_our_own_client_and_slurm_agree(slurm):
    """The unit tests of src/slurm that need a real slurmrestd."""
    program = pathlib.Path(__file__).resolve().parents[2] / "build/release/src/slurm/slurm_test"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    given = {"BASCULE_SLURM_URL": "http://127.0.0.1:6820", "BASCULE_SLURM_TOKEN": slurm.token()}
    done = subprocess.run([program, "--gtest_filter=LiveSlurm.*", "--gtest_brief=1"], env=os.environ | given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "SKIPPED" not in done.stdout, done.stdout[-3000:]


def test_hostlists():
    assert expand("n[1-3,5],x1") == ["n1", "n2", "n3", "n5", "x1"]
    assert expand("c[08-10]") == ["c08", "c09", "c10"]
