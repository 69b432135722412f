"""The custom resources on a real API server: what is accepted, what is refused and in which words, what is filled in."""
import copy
import json
import pathlib
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[3]
CRDS = sorted((ROOT / "deploy/crds").glob("*.yaml"))
KEY = {"name": "auth", "key": "slurm.key"}
META = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
SERVICE = {**META, "spec": {"type": "NodePort", "externalTrafficPolicy": "Local"}, "port": 7000, "nodePort": 32500}
TEMPLATE = {**META, "spec": {"hostname": "gpu-", "tolerations": [{"operator": "Exists"}], "anyFutureField": {"x": [1]}}}
CONTAINER = {"image": "registry/slurm:1", "resources": {"limits": {"cpu": 1}}, "anyFutureField": True}
KEYS = {"slurmKeyRef": KEY, "jwtKeyRef": {**KEY, "optional": True}, "jwtHs256KeyRef": KEY, "jwksKeyRef": KEY}

# Every field of every kind.
FULL = {
    "Controller": {
        "clusterName": "c1", **KEYS, "accountingRef": {"name": "a"}, "external": False, "externalConfig": {"host": "h", "port": 6817},
        "ha": {"enabled": True, "backups": 2}, "slurmctld": CONTAINER, "inplaceReconfigure": True, "reconfigure": CONTAINER, "logfile": CONTAINER,
        "template": TEMPLATE, "extraConf": "MinJobAge=2\n", "service": SERVICE,
        **{name: [{"name": "x"}] for name in ("configFileRefs", "prologScriptRefs", "epilogScriptRefs", "prologSlurmctldScriptRefs",
                                              "epilogSlurmctldScriptRefs")},
        "persistence": {"enabled": True, "existingClaim": "state", "accessModes": ["ReadWriteMany"], "storageClassName": "nfs", "volumeMode": "Filesystem",
                        "resources": {"requests": {"storage": "4Gi"}, "limits": {"storage": 5}}, "volumeName": "v", "volumeAttributesClassName": "w",
                        "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
                        "dataSource": {"apiGroup": "g", "kind": "K", "name": "n"}, "dataSourceRef": {"apiGroup": "g", "kind": "K", "name": "n", "namespace": "o"}},
        "metrics": {"enabled": True, "serviceMonitor": {"enabled": True, "labels": {"a": "b"}, "annotations": {"c": "d"}, "interval": "1m30s",
                                                        "scrapeTimeout": "500ms", "endpoints": [{"path": "/metrics/jobs", "interval": "0", "scrapeTimeout": "1h"}]}}},
    "Accounting": {
        **KEYS, "external": False, "externalConfig": {"host": "h", "port": 6819}, "slurmdbd": CONTAINER, "template": TEMPLATE, "extraConf": "x", "service": SERVICE,
        "storageConfig": {"host": "db", "port": 3307, "database": "d", "username": "u", "passwordKeyRef": KEY}},
    "RestApi": {"controllerRef": {"name": "c"}, "replicas": 2, "slurmrestd": CONTAINER, "template": TEMPLATE, "service": SERVICE},
    "LoginSet": {
        "controllerRef": {"name": "c"}, "replicas": 2, "login": CONTAINER, "initconf": CONTAINER, "template": TEMPLATE, "rootSshAuthorizedKeys": "ssh-ed25519 A",
        "extraSshdConfig": "X yes", "sssdConfRef": KEY, "service": SERVICE,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}}},
    "NodeSet": {
        "controllerRef": {"name": "c"}, "replicas": 3, "scalingMode": "DaemonSet", "slurmd": CONTAINER, "logfile": CONTAINER, "template": TEMPLATE,
        "ssh": {"enabled": True, "extraSshdConfig": "X yes", "sssdConfRef": KEY}, "extraConf": "Weight=10 Gres=gpu:4",
        "partition": {"enabled": True, "config": "State=UP MaxTime=UNLIMITED"},
        "volumeClaimTemplates": [{"metadata": {"name": "scratch"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
        "updateStrategy": {"type": "ScheduledUpdate", "rollingUpdate": {"maxUnavailable": 2},
                           "scheduledUpdate": {"startTime": "2030-01-01T00:00:00Z", "duration": "2h", "flags": ["FLEX"]}},
        "revisionHistoryLimit": 3, "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}, "minReadySeconds": 5,
        "ordinalPadding": 3, "pinToNode": True, "workloadDisruptionProtection": False, "pruneSlurmNodeRecords": "NodeNotFound", "oversubscribeNode": True},
    "Token": {"jwtKeyRef": KEY, "jwtHs256KeyRef": KEY, "username": "ada", "lifetime": "8h", "refresh": False, "secretRef": KEY},
}
# The least a kind needs.
SMALL = {
    "Controller": {"slurmKeyRef": KEY, "jwtKeyRef": KEY},
    "Accounting": {"slurmKeyRef": KEY, "jwtHs256KeyRef": KEY},
    "RestApi": {"controllerRef": {"name": "c"}},
    "LoginSet": {"controllerRef": {"name": "c"}, "sssdConfRef": KEY},
    "NodeSet": {"controllerRef": {"name": "c"}},
    "Token": {"jwtKeyRef": KEY, "username": "ada"},
}
EXTERNAL = {"external": True, "externalConfig": {"host": "h", "port": 1}}


def resource(kind, spec, name="x"):
    return {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def changed(spec, changes):
    """`changes`: dotted path to value; ... removes."""
    spec = copy.deepcopy(spec)
    for path, value in changes.items():
        *way, last = path.split(".")
        at = spec
        for step in way:
            at = at.setdefault(step, {})
        if value is ...:
            at.pop(last, None)
        else:
            at[last] = value
    return spec


@pytest.fixture(scope="module")
def api(cluster):
    assert cluster.apply("\n---\n".join(path.read_text() for path in CRDS)) is None
    done = cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *(f"crd/{path.stem.split('_')[1]}.slinky.slurm.net" for path in CRDS))
    assert done.returncode == 0, done.stderr
    return cluster


@pytest.fixture
def tried(api):
    """Whether it would be accepted: None, or the sentence."""
    return lambda kind, spec: api.create(resource(kind, spec), f"{kind.lower()}s", dry_run=True)[1]


def test_files_are_what_the_tool_writes():
    done = subprocess.run([sys.executable, ROOT / "tools/crds", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", FULL)
def test_every_field_is_accepted_and_kept(api, kind):
    assert api.apply(json.dumps(resource(kind, FULL[kind], "full"))) is None
    got = json.loads(api.kubectl("get", kind.lower(), "full", "-o", "json").stdout)
    assert got["spec"] == FULL[kind]


@pytest.mark.parametrize("kind", SMALL)
def test_little_is_enough(tried, kind):
    assert tried(kind, SMALL[kind]) is None


@pytest.mark.parametrize("kind,changes", [
    ("Controller", {"slurmKeyRef": ..., "jwtKeyRef": ..., **EXTERNAL}),
    ("Controller", {"jwtKeyRef": ..., "jwtHs256KeyRef": KEY}),
    ("Controller", {"slurmKeyRef": {"key": "k"}}),
    ("Controller", {"ha": {"enabled": False}, "persistence": {"enabled": False}}),
    ("Controller", {"ha": {"enabled": True}, "persistence": {"existingClaim": "c"}}),
    ("Controller", {"configFileRefs": None, "prologScriptRefs": None, "metrics": {"serviceMonitor": None}}),
    ("Controller", {"template": {"metadata": {"labels": None}}}),
    ("Controller", {"metrics.serviceMonitor": {"interval": "", "endpoints": None}}),
    ("Controller", {"persistence": {"resources": {"requests": {"storage": 1000}}}}),
    ("Accounting", {"slurmKeyRef": ..., "jwtHs256KeyRef": ..., **EXTERNAL}),
    ("RestApi", {"replicas": 0, "controllerRef": {}}),
    ("LoginSet", {"strategy": {"rollingUpdate": {"maxSurge": "50%"}}}),
    ("NodeSet", {"updateStrategy": {"type": "ScheduledUpdate", "scheduledUpdate": {"startTime": "2030-01-01T00:00:00+01:00"}}}),
    ("NodeSet", {"ssh": {"sssdConfRef": KEY}, "volumeClaimTemplates": None, "partition": {"config": " "}}),
])
def test_accepted(tried, kind, changes):
    assert tried(kind, changed(SMALL[kind], changes)) is None


@pytest.mark.parametrize("kind,changes,words", [
    ("Controller", {"slurmKeyRef": ...}, "spec.slurmKeyRef: Required value: slurmKeyRef is needed unless external is true"),
    ("Controller", {"jwtKeyRef": ...}, "spec.jwtKeyRef: Required value: jwtKeyRef is needed unless external is true"),
    ("Controller", {"external": True}, "spec.externalConfig: Required value: externalConfig with host and port is needed when external is true"),
    ("Controller", {**EXTERNAL, "externalConfig.port": None}, "spec.externalConfig.port"),  # A58
    ("Controller", {"externalConfig": {"port": 1}}, "spec.externalConfig.host: Required value"),
    ("Controller", {"ha": {"enabled": True}}, "spec.persistence.existingClaim: Required value: persistence.existingClaim, a claim that many nodes may write"),
    ("Controller", {"ha": {"enabled": True}, "persistence": {"existingClaim": ""}}, "spec.persistence.existingClaim: Required value"),
    ("Controller", {"ha": {"enabled": True}, "persistence": {"enabled": False, "existingClaim": "c"}}, "spec.persistence.existingClaim: Required value"),
    ("Controller", {"ha": {"backups": 0}}, "spec.ha.backups: Invalid value: 0: spec.ha.backups in body should be greater than or equal to 1"),
    ("Controller", {"slurmKeyRef": {"name": "auth"}}, "spec.slurmKeyRef.key: Required value"),
    ("Controller", {"metrics.serviceMonitor": {"interval": "30"}}, "spec.metrics.serviceMonitor.interval"),
    ("Controller", {"metrics.serviceMonitor": {"endpoints": [{"interval": "1s"}]}}, "spec.metrics.serviceMonitor.endpoints[0].path: Required value"),
    ("Controller", {"persistence": {"resources": {"requests": {"storage": "4GiB"}}}}, "spec.persistence.resources.requests.storage"),
    ("Controller", {"persistance": {}}, 'unknown field "spec.persistance"'),
    ("Controller", {"template": {"metadata": {"label": {}}}}, 'unknown field "spec.template.metadata.label"'),
    ("Controller", {"slurmctld": "image"}, "spec.slurmctld: Invalid value"),
    ("Accounting", {"jwtHs256KeyRef": ...}, "spec.jwtKeyRef: Required value"),
    ("Accounting", {"storageConfig": {"passwordKeyRef": KEY}}, "spec.storageConfig.host: Required value"),
    ("Accounting", {"storageConfig": {"host": "h"}}, "spec.storageConfig.passwordKeyRef: Required value"),
    ("RestApi", {"controllerRef": ...}, "spec.controllerRef: Required value"),
    ("LoginSet", {"sssdConfRef": ...}, "spec.sssdConfRef: Required value"),
    ("LoginSet", {"controllerRef": ...}, "spec.controllerRef: Required value"),
    ("NodeSet", {"controllerRef": ...}, "spec.controllerRef: Required value"),
    ("NodeSet", {"scalingMode": "Daemonset"}, 'spec.scalingMode: Unsupported value: "Daemonset": supported values: "DaemonSet", "StatefulSet"'),
    ("NodeSet", {"ssh": {"enabled": True}}, "spec.ssh.sssdConfRef: Required value"),
    ("NodeSet", {"partition": {"config": "State=UP\nSlurmUser=root"}}, "spec.partition.config: Invalid value"),
    ("NodeSet", {"partition": {"config": ""}}, "spec.partition.config: Invalid value"),
    ("NodeSet", {"updateStrategy": {"type": "ScheduledUpdate"}}, "spec.updateStrategy.scheduledUpdate: Required value"),
    ("NodeSet", {"updateStrategy": {"type": "ScheduledUpdate", "scheduledUpdate": {"duration": "1h"}}}, "spec.updateStrategy.scheduledUpdate: Required value"),
    ("NodeSet", {"updateStrategy": {"scheduledUpdate": {"startTime": "tomorrow"}}}, "spec.updateStrategy.scheduledUpdate.startTime"),
    ("NodeSet", {"updateStrategy": {"type": "Recreate"}}, "spec.updateStrategy.type: Unsupported value"),
    ("NodeSet", {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Keep"}}, "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value"),
    ("NodeSet", {"pruneSlurmNodeRecords": "Always"}, "spec.pruneSlurmNodeRecords: Unsupported value"),
    ("NodeSet", {"ordinalPadding": -1}, "spec.ordinalPadding: Invalid value: -1"),
    ("NodeSet", {"replicas": 3000000000}, "spec.replicas: Invalid value"),
    ("Token", {"jwtKeyRef": ...}, "spec.jwtKeyRef: Required value: jwtKeyRef is needed"),
    ("Token", {"username": ...}, "spec.username: Required value"),
])
def test_refused(tried, kind, changes, words):
    assert words in (tried(kind, changed(SMALL[kind], changes)) or "accepted")


@pytest.mark.parametrize("kind,given,defaults", [
    ("Controller", {"ha": {}, "persistence": {}, "metrics": {"serviceMonitor": {}}}, {
        "external": False, "inplaceReconfigure": False, "ha": {"enabled": False, "backups": 1}, "persistence": {"enabled": True},
        "metrics": {"enabled": False, "serviceMonitor": {"enabled": False}}}),
    ("Controller", {"slurmKeyRef": {"key": "k"}}, {"slurmKeyRef": {"name": "", "key": "k"}, "external": False, "inplaceReconfigure": False}),
    ("Accounting", {"storageConfig": {"host": "h", "passwordKeyRef": KEY}}, {
        "external": False, "storageConfig": {"host": "h", "port": 3306, "database": "slurm_acct_db", "passwordKeyRef": KEY}}),
    ("RestApi", {}, {"replicas": 1}),
    ("LoginSet", {}, {"replicas": 1}),
    ("NodeSet", {"ssh": {"sssdConfRef": KEY}, "partition": {}, "updateStrategy": {"rollingUpdate": {}, "scheduledUpdate": {}},
                 "persistentVolumeClaimRetentionPolicy": {}}, {
        "replicas": 1, "scalingMode": "StatefulSet", "ssh": {"enabled": False, "sssdConfRef": KEY}, "partition": {"enabled": False},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}, "scheduledUpdate": {"duration": "30m"}},
        "revisionHistoryLimit": 0, "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}, "minReadySeconds": 0,
        "ordinalPadding": 0, "pinToNode": False, "workloadDisruptionProtection": True, "pruneSlurmNodeRecords": "Never", "oversubscribeNode": False}),
    ("Token", {}, {"refresh": True}),
])
def test_defaults(api, kind, given, defaults):
    spec = {**SMALL[kind], **given}
    made, fault = api.create(resource(kind, spec), f"{kind.lower()}s", dry_run=True)
    assert fault is None
    assert made["spec"] == {**spec, **defaults}


@pytest.mark.parametrize("kind", ["RestApi", "LoginSet", "NodeSet"])
def test_scale(api, kind):  # A47 for RestApi
    assert api.apply(json.dumps(resource(kind, SMALL[kind], "scaled"))) is None
    status = {"replicas": 1, "selector": "a=b", **({"nodeSetHash": "h"} if kind == "NodeSet" else {})}
    done = api.kubectl("patch", kind.lower(), "scaled", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    assert done.returncode == 0, done.stderr
    assert api.kubectl("scale", kind.lower(), "scaled", "--replicas=4").returncode == 0
    path = f"/apis/slinky.slurm.net/v1beta1/namespaces/default/{kind.lower()}s/scaled/scale"
    scale = json.loads(api.kubectl("get", "--raw", path).stdout)
    assert scale["spec"] == {"replicas": 4} and scale["status"] == {"replicas": 1, "selector": "a=b"}
    assert json.loads(api.kubectl("get", kind.lower(), "scaled", "-o", "json").stdout)["spec"]["replicas"] == 4


STATUS = {
    "Controller": {}, "Accounting": {}, "RestApi": {"replicas": 1, "selector": "a=b"}, "LoginSet": {"replicas": 1, "selector": "a=b"},
    "NodeSet": {**dict.fromkeys(["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "desired", "slurmIdle",
                                 "slurmAllocated", "slurmDown", "slurmDrain", "observedGeneration", "collisionCount"], 1),
                "nodeSetHash": "h", "selector": "a=b", "ordinalToNode": {"0": "n1"}},
    "Token": {"issuedAt": "2030-01-01T00:00:00Z"},
}


@pytest.mark.parametrize("kind", STATUS)
def test_status_is_a_subresource(api, kind):
    condition = {"type": "Ready", "status": "False", "reason": "Waiting", "message": "for a pod", "lastTransitionTime": "2030-01-01T00:00:00Z",
                 "observedGeneration": 1}
    status = {**STATUS[kind], "conditions": [condition]}
    assert api.apply(json.dumps({**resource(kind, SMALL[kind], "status"), "status": status})) is None
    assert "status" not in json.loads(api.kubectl("get", kind.lower(), "status", "-o", "json").stdout)
    patch = ["patch", kind.lower(), "status", "--subresource=status", "--type=merge", "-p"]
    assert api.kubectl(*patch, json.dumps({"status": status})).returncode == 0
    assert json.loads(api.kubectl("get", kind.lower(), "status", "-o", "json").stdout)["status"] == status
    refused = api.kubectl(*patch, json.dumps({"status": {"conditions": [{**condition, "status": "Maybe"}]}}))
    assert "status.conditions[0].status: Unsupported value" in refused.stderr


@pytest.mark.parametrize("name,head", [
    ("slurmctld", "NAME READY AGE"), ("slurmdbd", "NAME READY AGE"), ("slurmrestd", "NAME READY AGE"), ("lss", "NAME REPLICAS READY AGE"),
    ("nss", "NAME DESIRED REPLICAS UPDATED READY AGE"), ("jwt", "NAME USER IAT READY AGE"),
])
def test_short_names_and_columns(api, name, head):
    kinds = {"slurmctld": "Controller", "slurmdbd": "Accounting", "slurmrestd": "RestApi", "lss": "LoginSet", "nss": "NodeSet", "jwt": "Token"}
    assert api.apply(json.dumps(resource(kinds[name], SMALL[kinds[name]], "columns"))) is None
    assert api.kubectl("get", name, "columns").stdout.splitlines()[0].split() == head.split()


@pytest.mark.parametrize("kind", sorted(FULL))
def test_wide_columns_say_why(api, kind):
    """The message of the condition Ready."""
    more = "DESIRED REPLICAS UPDATED READY IDLE ALLOCATED DOWN DRAIN" if kind == "NodeSet" else {"LoginSet": "REPLICAS READY", "Token": "USER IAT READY"}.get(kind, "READY")
    assert api.apply(json.dumps(resource(kind, SMALL[kind], "wide"))) is None
    head = api.kubectl("get", kind.lower(), "wide", "-o", "wide").stdout.splitlines()[0].split()
    assert head == f"NAME {more} WHY AGE".split()
    condition = {"type": "Ready", "status": "False", "reason": "Waiting", "message": "a-job-ends", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"conditions": [condition], **({"nodeSetHash": "h", "selector": "s"} if kind == "NodeSet" else {"replicas": 1, "selector": "s"} if kind == "LoginSet" else {})}
    patched = api.kubectl("patch", kind.lower(), "wide", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
    assert patched.returncode == 0, patched.stderr
    assert "a-job-ends" in api.kubectl("get", kind.lower(), "wide", "-o", "wide").stdout


def test_all_kinds_at_once_and_explained(api):
    assert api.apply(json.dumps(resource("Token", SMALL["Token"], "all"))) is None
    assert "token.slinky.slurm.net/all" in api.kubectl("get", "slinky", "-o", "name").stdout
    for path in CRDS:
        plural = yaml.safe_load(path.read_text())["spec"]["names"]["plural"]
        said = api.kubectl("explain", f"{plural}.spec", "--api-version=slinky.slurm.net/v1beta1").stdout
        assert "What is wanted." in said, plural
