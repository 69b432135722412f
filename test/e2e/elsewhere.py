"""A second Slurm cluster, in a namespace and on a node of its own: objects without a chart, its books at the first cluster's slurmdbd.

    Controller full    scripts, job_submit.lua, gres.conf, topology.yaml; its Accounting is outside
    NodeSet gpu        two workers with a GPU each that is none, behind switch s2
    NodeSet disk       workers with a claim each, behind no switch; tests change it
"""

from conftest import DEVCLUSTER, ROOT, STATE, run
from hpc import NS, SlurmCluster
from kube import absent_is_none
from waiting import eventually

HERE, HOST = "elsewhere", "n4"
CTLD, CLASS = "full-controller-0", "elsewhere"
TOPOLOGY = "topology.slinky.slurm.net/spec"
KEYS = {"slurmKeyRef": {"name": "slurm-auth-slurm", "key": "slurm.key"}, "jwtKeyRef": {"name": "slurm-auth-jwt", "key": "jwt.key"}}
# The first two lines: as slurm-values.yaml has them, for a kernel that has cgroup v1 only.
EXTRA_CONF = """ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerParameters=batch_sched_delay=0,sched_interval=2
GresTypes=gpu
JobSubmitPlugins=lua
PartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED
"""
FILES = {
    "cgroup.conf": "CgroupPlugin=disabled\n",
    "gres.conf": "NodeName=gpu-[0-9] Name=gpu File=/dev/zero\n",
    "topology.yaml": """
- topology: topo-switch
  cluster_default: true
  tree:
    switches:
      - {switch: root, children: "s[1-2]"}
      - {switch: s1}
      - {switch: s2}
""",
    "job_submit.lua": """
function slurm_job_submit(job, partitions, uid)
  if job.name == "unwelcome" then
    slurm.log_user("no job of that name here")
    return slurm.ERROR
  end
  job.comment = "seen by lua"
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
return slurm.SUCCESS
""",
}


def script(place):
    return f'#!/bin/sh\necho {place} >> "/tmp/marks-$SLURM_JOB_ID"\n'


# By field of the Controller. They run in the order of their names.
SCRIPTS = {
    "prologScriptRefs": {"prolog-1.sh": script("prolog-1"), "prolog-2.sh": script("prolog-2")},
    "epilogScriptRefs": {"epilog-1.sh": script("epilog-1")},
    "prologSlurmctldScriptRefs": {"prolog-slurmctld-1.sh": script("prolog-slurmctld-1")},
    "epilogSlurmctldScriptRefs": {"epilog-slurmctld-1.sh": script("epilog-slurmctld-1")},
}


def image(name):
    return {"image": f"ghcr.io/bascule/{name}:26.05"}


def pods(*nodes, **spec):
    """A pod template for these nodes, the first rather than the others."""
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(n)}]} for n in (nodes, nodes[:1])]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms[:1]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": terms[1]}]}
    return {"spec": {"affinity": {"nodeAffinity": affinity}} | spec}


class Elsewhere(SlurmCluster):
    def __init__(self, kube):
        super().__init__(kube, HERE, (CTLD, "slurmctld"))

    def make(self, kind, name, **spec):
        self.custom.create_namespaced_custom_object(*self.group, kind.lower() + "s", {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec})

    def remove(self, kind, name):
        absent_is_none(lambda: self.custom.delete_namespaced_custom_object(*self.group, kind.lower() + "s", name))

    def get(self, kind, name):
        return absent_is_none(lambda: self.custom.get_namespaced_custom_object(*self.group, kind.lower() + "s", name))

    def make_nodeset(self, name, controller="full", nodes=(HOST,), **spec):
        self.make("NodeSet", name, **{"controllerRef": {"name": controller}, "slurmd": image("slurmd"), "oversubscribeNode": True, "template": pods(*nodes, hostname=f"{name}-")} | spec)

    def serves(self, nodeset, count):
        """All workers of the NodeSet are of its template, ready, and Slurm gives them jobs."""
        found = self.get("NodeSet", nodeset)
        status, wanted = found.get("status", {}), [f"{nodeset}-{i}" for i in range(count)]
        assert status.get("observedGeneration") == found["metadata"]["generation"], status
        assert status.get("readyReplicas", 0) == status.get("updatedReplicas", 0) == status.get("replicas", 0) == count, status
        serving = [n for n in self.serving() if n.startswith(f"{nodeset}-")]
        assert serving == wanted, f"serving in Slurm: {serving}"
        return True

    def uids(self, nodeset):
        return {name: pod.metadata.uid for name, pod in self.workers(nodeset).items()}

    def claims(self):
        """Name to its owners' kinds, of the claims of NodeSet disk that are not going."""
        found = self.kube.core.list_namespaced_persistent_volume_claim(HERE).items
        return {c.metadata.name: [o.kind for o in c.metadata.owner_references or []] for c in found if not c.metadata.deletion_timestamp}

    # --- from nothing to a cluster, and back --------------------------------------------------------------------

    def bring_up(self):
        run(DEVCLUSTER, "load", "--to", HOST, ROOT / "build/image/slurm-26.05.tar")
        self.kube.core.create_namespace({"metadata": {"name": HERE}})
        for ref in KEYS.values():
            secret = self.kube.core.read_namespaced_secret(ref["name"], NS)
            self.kube.core.create_namespaced_secret(HERE, {"metadata": {"name": ref["name"]}, "data": secret.data})
        self.make_volumes(5)
        self.kube.core.patch_node(HOST, {"metadata": {"annotations": {TOPOLOGY: "topo-switch:s2"}}})
        self.make_cluster()
        for kind, name in (("Controller", "full"), ("RestApi", "full"), ("Accounting", "books")):
            eventually(lambda: self.is_ready(kind, name), f"{kind} {name} is ready", every=0.5)  # noqa: B023
        eventually(lambda: self.serves("gpu", 2) and self.serves("disk", 1), "its workers serve", every=0.5)

    def make_cluster(self):
        maps = {"files": FILES} | {field.lower(): scripts for field, scripts in SCRIPTS.items()}
        for name, data in maps.items():
            self.kube.core.create_namespaced_config_map(HERE, {"metadata": {"name": name}, "data": data})
        self.make("Accounting", "books", **KEYS, external=True, externalConfig={"host": f"slurm-accounting.{NS}", "port": 6819})
        self.make_nodeset("gpu", replicas=2, extraConf="Gres=gpu:1")
        self.make_disk()
        self.make("Controller", "full", **KEYS, accountingRef={"name": "books"}, slurmctld=image("slurmctld"), template=pods(HOST), persistence={"enabled": False},
                  inplaceReconfigure=True, extraConf=EXTRA_CONF, configFileRefs=[{"name": "files"}], **{field: [{"name": field.lower()}] for field in SCRIPTS})
        self.make("RestApi", "full", controllerRef={"name": "full"}, slurmrestd=image("slurmrestd"), template=pods(HOST))

    def make_disk(self, **spec):
        claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": CLASS, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}
        slurmd = image("slurmd") | {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        self.make_nodeset("disk", nodes=("n5", HOST), slurmd=slurmd, volumeClaimTemplates=[claim], revisionHistoryLimit=1, **spec)

    def make_volumes(self, count):
        for i in range(count):
            path = STATE / f"{CLASS}-{i}"
            path.mkdir(exist_ok=True)
            spec = {"storageClassName": CLASS, "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(path.resolve())}}
            self.kube.core.create_persistent_volume({"metadata": {"name": f"{CLASS}-{i}"}, "spec": spec})

    def take_down(self):
        for name in ("gpu", "disk", "away"):
            self.remove("NodeSet", name)
        eventually(lambda: not self.custom.list_namespaced_custom_object(*self.group, "nodesets")["items"], "its NodeSets are gone", every=0.5)
        absent_is_none(lambda: self.kube.core.delete_namespace(HERE))
        for volume in self.kube.core.list_persistent_volume().items:
            if volume.spec.storage_class_name == CLASS:
                self.kube.core.delete_persistent_volume(volume.metadata.name)
        self.kube.core.patch_node(HOST, {"metadata": {"annotations": {TOPOLOGY: None}}})
