"""The operator's objects in their less usual shapes, on the real cluster: parts that are outside, scripts and files of Slurm, updates that are not rolled out or do not come to an end, claims."""

import datetime
import pathlib
import re
import shutil
import time

import pytest

from conftest import DEVCLUSTER, ROOT, STATE, run
from elsewhere import CTLD, HERE, HOST, KEYS, Elsewhere, image, pods
from hpc import NS, SlurmCluster, all_ready
from kube import absent_is_none
from waiting import always, eventually


@pytest.fixture(scope="module")
def elsewhere(installed_operator, cluster, kube):
    if "bascule" in run(DEVCLUSTER, "run", "helm", "list", "-n", "slinky", "-q"):
        pytest.skip("the bridge is installed for other tests of this run, and has the node")
    made = Elsewhere(kube)
    try:
        made.bring_up()
        yield made
    finally:
        made.take_down()


@pytest.fixture
def disk(elsewhere):
    """NodeSet disk as it was made: one worker, which serves."""

    def clean():
        elsewhere.on_login("scancel", "-u", "slurm", check=False)
        elsewhere.patch("disk", {"spec": {"replicas": 1, "pinToNode": False, "updateStrategy": None, "persistentVolumeClaimRetentionPolicy": None,
                                          "slurmd": {"env": None, **image("slurmd")}}})
        eventually(lambda: elsewhere.serves("disk", 1), "one worker serves", every=0.5)

    clean()
    yield elsewhere
    clean()


def done(cluster, job):
    def completed():
        state = cluster.state(job)
        assert state == "COMPLETED", state
        return True

    eventually(completed, f"job {job} is done", every=0.5)


# --- parts that are outside -----------------------------------------------------------------------------------------


def test_workers_of_a_slurmctld_that_is_outside(hpc, elsewhere):
    """Controller external: its slurmctld is the other cluster's. A worker is that one's, and is drained before it goes."""
    elsewhere.make("Controller", "away", **KEYS, external=True, externalConfig={"host": f"slurm-controller.{NS}", "port": 6817})
    elsewhere.make("RestApi", "away", controllerRef={"name": "away"}, slurmrestd=image("slurmrestd"), template=pods(HOST))
    elsewhere.make_nodeset("away", controller="away")
    try:
        eventually(lambda: elsewhere.is_ready("RestApi", "away") and elsewhere.is_ready("Controller", "away"), "Controller and RestApi are ready", every=0.5)
        assert "NodeSet=away Feature=away" in elsewhere.condition("Controller", "away")[1]
        eventually(lambda: "away-0" in hpc.serving(), "the worker serves the slurmctld outside", every=0.5)
        job = hpc.sbatch("sleep 250", "-p", "all", "-w", "away-0")
        eventually(lambda: hpc.state(job) == "RUNNING", "it is given a job", every=0.5)
        eventually(lambda: elsewhere.nodeset("away")["status"].get("slurmAllocated") == 1, "the operator knows of the job", every=0.5)
        elsewhere.scale("away", 0)
        eventually(lambda: "DRAIN" in hpc.nodes()["away-0"]["state"], "it is drained", every=0.5)
        always(lambda: len(elsewhere.workers("away")) == 1, 2, "it stays while its job runs", every=0.5)
        assert hpc.state(job) == "RUNNING"
        hpc.on_login("scancel", str(job))
        eventually(lambda: not elsewhere.workers("away"), "then it goes", every=0.5)
        made = elsewhere.kube.apps.list_namespaced_stateful_set(HERE, label_selector="app.kubernetes.io/instance=away").items
        assert not made, "a slurmctld was made here"
    finally:
        for kind in ("NodeSet", "RestApi", "Controller"):
            elsewhere.remove(kind, "away")
            eventually(lambda: not elsewhere.get(kind, "away"), f"{kind} away is gone", every=0.5)  # noqa: B023
    eventually(lambda: "away-0" not in hpc.nodes(), "Slurm has no node of it any more", every=0.5)


def test_the_books_are_kept_by_a_slurmdbd_outside(elsewhere, hpc):
    job = elsewhere.sbatch("true", "-w", "gpu-0")
    done(elsewhere, job)
    kept = lambda: hpc.on_login("sacct", "-M", "elsewhere_full", "-n", "-X", "-j", str(job), "-o", "State")  # noqa: E731
    eventually(lambda: "COMPLETED" in kept(), "slurmdbd knows the job, by its cluster's name", every=0.5)
    made = elsewhere.kube.apps.list_namespaced_stateful_set(HERE, label_selector="app.kubernetes.io/name=slurmdbd").items
    assert not made, "a slurmdbd was made here"


# --- scripts and files of Slurm ---------------------------------------------------------------------------------------


def printed(cluster, job, worker="gpu-0"):
    return cluster.on_worker(worker, f"cat /tmp/{job}.out")


def test_prolog_and_epilog_run_around_each_job(elsewhere):
    job = elsewhere.sbatch("cat /tmp/marks-$SLURM_JOB_ID", "-w", "gpu-0")
    done(elsewhere, job)
    assert printed(elsewhere, job).split() == ["prolog-1", "prolog-2"]
    eventually(lambda: "epilog-1" in elsewhere.on_worker("gpu-0", f"cat /tmp/marks-{job}"), "the epilog has run", every=0.5)
    marks = lambda: elsewhere.on_login("cat", f"/tmp/marks-{job}").split()  # noqa: E731
    eventually(lambda: marks() == ["prolog-slurmctld-1", "epilog-slurmctld-1"], "and so have those of slurmctld", every=0.5)


def test_job_submit_lua_decides(elsewhere):
    with pytest.raises(AssertionError, match="no job of that name here"):
        elsewhere.sbatch("true", "-J", "unwelcome")
    job = elsewhere.sbatch("true", "-J", "welcome")
    assert elsewhere.jobs()[job]["comment"] == "seen by lua"
    done(elsewhere, job)


def test_a_job_gets_the_gpu_of_gres_conf_alone(elsewhere):
    assert elsewhere.nodes()["gpu-0"]["gres"].startswith("gpu:1")
    first = elsewhere.sbatch("echo device $CUDA_VISIBLE_DEVICES; sleep 250", "-w", "gpu-0", "--mem=100", "--gres=gpu:1")
    second = elsewhere.sbatch("true", "-w", "gpu-0", "--mem=100", "--gres=gpu:1")
    eventually(lambda: elsewhere.states([first, second]) == ["RUNNING", "PENDING"], "there is one for one job", every=0.5)
    assert printed(elsewhere, first).strip() == "device 0"
    elsewhere.on_login("scancel", str(first))
    done(elsewhere, second)
    with pytest.raises(AssertionError, match="configuration is not available"):
        elsewhere.sbatch("true", "--gres=gpu:2")


def test_a_node_s_annotation_is_its_place_in_the_topology(elsewhere):
    """A job has nodes that switches connect: the two on the node that names one, but not these and one that is behind none."""

    def placed():
        said = elsewhere.on_login("scontrol", "show", "topology")
        assert re.search(r"SwitchName=s2 .*Nodes=gpu-\[0-1\]", said), said
        return True

    eventually(placed, "slurmctld has been told", every=0.5)
    done(elsewhere, elsewhere.sbatch("true", "-N2", "-w", "gpu-[0-1]"))
    with pytest.raises(AssertionError, match="configuration is not available"):
        elsewhere.sbatch("true", "-N2", "-w", "gpu-0,disk-0")


# --- updates --------------------------------------------------------------------------------------------------------------


def generation(number):
    return {"slurmd": {"env": [{"name": "GENERATION", "value": str(number)}]}}


def revisions(cluster):
    """Hash to number, of NodeSet disk."""
    found = cluster.kube.apps.list_namespaced_controller_revision(HERE, label_selector="app.kubernetes.io/instance=disk").items
    return {r.metadata.labels["controller.kubernetes.io/hash"]: r.revision for r in found}


def test_on_delete_waits_for_the_user_and_a_template_set_back_finds_its_pods(disk):
    disk.patch("disk", {"spec": {"replicas": 2, "updateStrategy": {"type": "OnDelete"}}})
    eventually(lambda: disk.serves("disk", 2), "two workers serve", every=0.5)
    before, (first,) = disk.uids("disk"), revisions(disk)
    disk.patch("disk", {"spec": generation(2)})
    eventually(lambda: disk.nodeset("disk")["status"]["updatedReplicas"] == 0, "both are of the former template", every=0.2)
    always(lambda: disk.uids("disk") == before, 3, "nobody is replaced", every=0.5)
    disk.kube.core.delete_namespaced_pod("disk-1", HERE)
    eventually(lambda: disk.nodeset("disk")["status"]["updatedReplicas"] == 1 and all_ready(disk.workers()["disk-1"]), "whom the user deletes comes as the template says", every=0.5)
    assert disk.uids("disk")["disk-0"] == before["disk-0"] and "GENERATION" in str(disk.workers()["disk-1"].spec.containers)
    newer = disk.uids("disk")["disk-1"]
    disk.patch("disk", {"spec": {"slurmd": {"env": None}, "updateStrategy": None}})
    eventually(lambda: disk.serves("disk", 2), "the template is as it was", every=0.5)
    now = disk.uids("disk")
    assert now["disk-0"] == before["disk-0"], "a pod of that template was replaced"
    assert now["disk-1"] != newer
    known = revisions(disk)
    assert len(known) == 2 and known[first] == max(known.values()), f"{first} is not the newest of {known}"


def test_a_bad_image_stops_a_roll_out_which_goes_on_with_a_good_one(disk):
    disk.patch("disk", {"spec": {"replicas": 2, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}})
    eventually(lambda: disk.serves("disk", 2), "two workers serve", every=0.5)
    before, fewest = disk.uids("disk"), 2

    def ready():
        nonlocal fewest
        count = sum(all_ready(p) for p in disk.workers("disk").values())
        fewest = min(fewest, count)
        return count

    def says():
        ready()
        said = disk.explain("nodeset/disk")
        stuck = [p for p in said["pods"] if p["state"] in ("ErrImagePull", "ImagePullBackOff")]
        assert len(stuck) == 1 and "nowhere" in stuck[0]["why"], said
        return stuck[0]["pod"]

    disk.patch("disk", {"spec": {"slurmd": {"image": "ghcr.io/bascule/slurmd:nowhere"}}})
    stuck = eventually(says, "one worker lacks its image, and that is said", every=0.3)
    (other,) = set(before) - {stuck}
    always(lambda: ready() == 1 and disk.uids("disk")[other] == before[other], 5, "the roll-out stops there", every=0.5)
    assert other in disk.serving()
    disk.patch("disk", {"spec": {"slurmd": generation(3)["slurmd"] | image("slurmd")}})
    eventually(lambda: ready() == 2 and disk.serves("disk", 2), "both have the good one", within=240, every=0.2)
    assert set(disk.uids("disk").values()).isdisjoint(before.values())
    assert fewest == 1, "nobody served for a while"


def test_an_update_at_the_hour_that_was_set_aside_for_it(disk):
    """updateStrategy ScheduledUpdate: Slurm keeps the nodes free for it, and nothing happens before."""
    before = disk.uids("disk")
    start = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + datetime.timedelta(seconds=30)
    scheduled = {"startTime": start.isoformat().replace("+00:00", "Z"), "duration": "5m"}
    disk.patch("disk", {"spec": {"updateStrategy": {"type": "ScheduledUpdate", "scheduledUpdate": scheduled}} | generation(4)})
    eventually(lambda: "disk-0" in disk.on_login("scontrol", "-o", "show", "reservation", "SlurmOperatorMaint-disk", check=False), "Slurm has the reservation", every=0.5)
    always(lambda: disk.uids("disk") == before, start.timestamp() - time.time() - 1, "it is not time yet", every=0.5)
    eventually(lambda: disk.uids("disk") not in ({}, before) and disk.serves("disk", 1), "the worker is of the new template", every=0.5)
    disk.patch("disk", {"spec": {"updateStrategy": None}})
    eventually(lambda: "disk-0" not in disk.on_login("scontrol", "-o", "show", "reservation", check=False), "the reservation goes with the strategy", every=0.5)


# --- claims and places --------------------------------------------------------------------------------------------------


def policy(disk, **when):
    disk.patch("disk", {"spec": {"persistentVolumeClaimRetentionPolicy": when}})


def scaled(disk, count):
    disk.scale("disk", count)
    eventually(lambda: disk.serves("disk", count) and len(disk.workers("disk")) == count, f"{count} workers serve", every=0.5)


def test_each_worker_has_its_claims_and_they_go_as_the_policy_says(disk):
    scaled(disk, 2)
    assert disk.claims().items() >= {"data-disk-0": [], "data-disk-1": []}.items()
    for i in range(2):
        disk.on_worker(f"disk-{i}", "hostname > /data/whose")
    scaled(disk, 1)
    assert "data-disk-1" in disk.claims(), "whenScaled is Retain"
    scaled(disk, 2)
    assert disk.on_worker("disk-1", "cat /data/whose").strip() == "disk-1", "the worker of that number finds its data"
    policy(disk, whenScaled="Delete")
    scaled(disk, 1)
    eventually(lambda: "data-disk-1" not in disk.claims(), "the claim goes with its worker", every=0.5)
    assert disk.claims()["data-disk-0"] == []


def test_claims_stay_or_go_with_their_nodeset(disk):
    """whenDeleted: Retain keeps them for the next NodeSet of that name, Delete does not."""

    def delete():
        disk.remove("NodeSet", "disk")
        eventually(lambda: not disk.get("NodeSet", "disk"), "the NodeSet is gone", every=0.5)
        assert not disk.workers("disk")

    disk.on_worker("disk-0", "echo kept > /data/whose")
    delete()
    assert disk.claims()["data-disk-0"] == []
    disk.make_disk(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"})
    try:
        eventually(lambda: disk.serves("disk", 1), "it is there again", every=0.5)
        assert disk.on_worker("disk-0", "cat /data/whose").strip() == "kept"
        eventually(lambda: disk.claims()["data-disk-0"] == ["NodeSet"], "its claim is now its own", every=0.5)
        delete()
        eventually(lambda: "data-disk-0" not in disk.claims(), "the claim goes with it", every=0.5)
    finally:
        if not disk.get("NodeSet", "disk"):
            disk.make_disk()


def taint(kube, node, on):
    kube.core.patch_node(node, {"spec": {"taints": [{"key": "e2e.bascule/closed", "effect": "NoSchedule"}] if on else None}})


def test_a_pinned_worker_waits_for_its_node(disk):
    """pinToNode: its next pod goes nowhere else, though another node would take it."""
    kube = disk.kube
    here = disk.workers()["disk-0"].spec.node_name
    disk.patch("disk", {"spec": {"pinToNode": True}})
    eventually(lambda: disk.nodeset("disk")["status"].get("ordinalToNode") == {"0": here}, "its place is remembered", every=0.2)
    taint(kube, here, True)
    try:
        before = disk.uids("disk")
        kube.core.delete_namespaced_pod("disk-0", HERE)
        eventually(lambda: disk.uids("disk") not in ({}, before), "a new pod comes", every=0.3)
        always(lambda: absent_is_none(lambda: kube.core.read_namespaced_pod("disk-0", HERE)).spec.node_name is None, 3, "it waits", every=0.5)
        said = disk.explain("nodeset/disk")["pods"][0]
        assert said["state"] == "unschedulable", said
    finally:
        taint(kube, here, False)
    eventually(lambda: disk.workers()["disk-0"].spec.node_name == here and disk.serves("disk", 1), "then it serves there", every=0.5)


# --- the chart ------------------------------------------------------------------------------------------------------------

ALPINE, PLAIN = "docker.io/library/alpine:3.22", "plain"
NODES = ["--set", "nodesets.cpu.replicas=1,partitions.all.enabled=true"]


def chart(verb, *more):
    return run(DEVCLUSTER, "run", "helm", *verb.split(), "slurm", ROOT / "deploy/charts/slurm", "-n", PLAIN, *more)


def what_lacks_here(kube, node):
    """Values in place of defaults that cannot be on this machine, and of no others: with a registry within reach and cgroup v2 there are none."""
    values = []
    known = {name for image in kube.core.read_node(node).status.images for name in image.names}
    if lacking := set(re.findall(r"image: (\S+)", chart("template", *NODES))) - known:
        assert lacking == {ALPINE}, f"the chart's images are {ALPINE} and those that `make images` makes: {lacking}"
        values += [f"{part}.logfile.image=ghcr.io/bascule/slurmd:26.05" for part in ("controller", "nodesetDefaults")]
    if not pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
        values += ["configFiles.cgroup\\.conf=CgroupPlugin=disabled", "controller.extraConfMap.ProctrackType=proctrack/linuxproc", "controller.extraConfMap.TaskPlugin=task/none"]
    return [word for value in values for word in ("--set", value)]


@pytest.fixture
def plain(installed_operator, cluster, kube):
    """A namespace where the chart finds what it asks of a Kubernetes: a default StorageClass, and Slurm's images on each node that takes pods."""
    volume = {"storageClassName": "local", "capacity": {"storage": "4Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str((STATE / PLAIN).resolve())}}
    shutil.rmtree(STATE / PLAIN, ignore_errors=True)  # of a run before
    (STATE / PLAIN).mkdir()
    (STATE / PLAIN).chmod(0o777)
    kube.core.create_persistent_volume({"metadata": {"name": PLAIN}, "spec": volume})
    for node in cluster.workers:
        kube.cordon(node)
    try:
        kube.core.create_namespace({"metadata": {"name": PLAIN}})
        yield SlurmCluster(kube, PLAIN, ("slurm-controller-0", "slurmctld"))
    finally:
        run(DEVCLUSTER, "run", "helm", "uninstall", "--ignore-not-found", "-n", PLAIN, "slurm")
        absent_is_none(lambda: kube.core.delete_namespace(PLAIN))
        kube.core.delete_persistent_volume(PLAIN)
        for node in cluster.workers:
            kube.cordon(node, False)


def test_the_chart_with_its_default_values_makes_a_cluster(plain, cluster):
    """And with nodes and a partition, which only the user can name, one that runs jobs."""
    chart("install", *(here := what_lacks_here(plain.kube, cluster.system_node)))

    def ready():
        return plain.is_ready("Controller") and plain.is_ready("RestApi")

    eventually(ready, "Controller and RestApi are ready", every=0.5)
    assert "UP" in plain.on_login("scontrol", "ping")
    chart("upgrade", *here, *NODES)
    # In this order: the new partition makes slurmctld anew, and the one before already serves the worker.
    eventually(lambda: plain.serving() == ["cpu-0"] and ready(), "a worker serves", every=0.5)
    done(plain, plain.sbatch("true"))
