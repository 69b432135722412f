"""The chart slurm. Numbers A.. are weaknesses of the original that are closed."""
import base64
import json
import pathlib
import re
import subprocess

import pytest
import yaml

from helm import HERE, Chart, find, needs_helm, objects, value_files

pytestmark = needs_helm
CHART = Chart("slurm", release="slurm", namespace="slurm")
render, refused = CHART.render, CHART.refused
CRDS = sorted((pathlib.Path(__file__).parents[3] / "deploy/crds").glob("*.yaml"))
DIGEST = "sha256:" + "0" * 64


def spec(text, kind, name="slurm"):
    return find(text, kind, name)["spec"]


def names(text, *kinds):
    return [one["metadata"]["name"] for one in objects(text) if one["kind"] in kinds]


def without_keys(text):
    """Keys are new in every rendering without a cluster."""
    return re.sub(r"((?:slurm|jwt)\.key): \S{100,}", r"\1: (generated)", text)


@value_files("slurm")
def test_golden(values):
    CHART.matches_golden(values, without_keys)


def test_lint():
    CHART.lints()


@pytest.mark.parametrize("values", ["default", "full"])
def test_a_real_api_server_takes_it(cluster, values):
    assert cluster.apply("\n---\n".join(path.read_text() for path in CRDS)) is None
    for path in CRDS:
        assert cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{path.stem.split('_')[1]}.slinky.slurm.net").returncode == 0
    cluster.kubectl("create", "namespace", "slurm")
    assert cluster.apply(render(files=[HERE / "values/slurm" / f"{values}.yaml"]), "--dry-run=server") is None


def test_default_is_a_cluster_without_nodes():
    text = render()
    assert names(text, "Controller", "RestApi", "Accounting", "LoginSet", "NodeSet") == ["slurm", "slurm"]
    assert "accountingRef" not in spec(text, "Controller")


def test_keys():
    text = render()
    for which in ("slurm", "jwt"):
        secret = find(text, "Secret", f"slurm-auth-{which}")
        key = base64.b64decode(secret["data"][f"{which}.key"])
        assert len(key) == 1024 and secret["immutable"] is True  # where there is no lookup a second rendering must not pass
        text_changeable = render(f"{which}Key.immutable=false")
        assert "immutable" not in find(text_changeable, "Secret", f"slurm-auth-{which}")  # A28: can be rotated in place
        assert spec(text, "Controller")[f"{which}KeyRef"] == {"name": f"slurm-auth-{which}", "key": f"{which}.key"}
    assert not names(render("slurmKey.create=false", "jwtKey.create=false"), "Secret")
    text = render('slurmKey={"create":true,"secretRef":{"name":"n","key":"k"},"annotations":{"a":"b"}}')
    assert list(find(text, "Secret", "n")["data"]) == ["k"] and find(text, "Secret", "n")["metadata"]["annotations"] == {"a": "b"}
    text = render("jwksKeys.enabled=true")
    assert spec(text, "Controller")["jwksKeyRef"] == {"name": "slurm-auth-jwks", "key": "jwks.json"}


def test_keys_of_a_cluster_outside_are_brought():  # A58
    assert not names(render("controller.external=true"), "Secret")
    assert len(names(render("accounting.enabled=true", "accounting.external=true"), "Secret")) == 2
    # as in the original, so that neither the swap nor the way back changes the name
    text = render("controller.external=true", "accounting.enabled=true", "accounting.external=true", 'clusterName="prod"')
    assert spec(text, "Controller") == {
        "slurmKeyRef": {"name": "slurm-auth-slurm", "key": "slurm.key"}, "jwtKeyRef": {"name": "slurm-auth-jwt", "key": "jwt.key"},
        "accountingRef": {"name": "slurm"}, "external": True, "externalConfig": {"host": "slurmctld.example.com", "port": 6817}}
    assert spec(text, "Accounting")["externalConfig"] == {"host": "slurmdbd.example.com", "port": 6819}


def test_configuration_lines():  # A60
    def conf(*sets):
        return spec(render(*sets), "Controller").get("extraConf")
    assert conf() is None
    assert conf('controller.extraConf="A=1"', 'controller.extraConfMap={"B":2}') == "A=1\n"
    assert conf('controller.extraConfMap={"C":[1,"x"],"B":0,"Z":null,"Y":true,"X":false,"W":1000000,"V":0.5,"U":"NO"}') == (
        "B=0\nC=1,x\nU=NO\nV=0.5\nW=1000000\nX=NO\nY=YES\n")
    nodes = spec(render('nodesets.gpu={"extraConfMap":{"Weight":10,"Feature":["a","b"]}}'), "NodeSet", "slurm-worker-gpu")
    assert nodes["extraConf"] == "Feature=a,b Weight=10"
    assert spec(render('nodesets.gpu={"extraConf":"Weight=1"}'), "NodeSet", "slurm-worker-gpu")["extraConf"] == "Weight=1"


def test_nothing_is_no_value():
    """Slurm refuses `Key=` alone on a line, and takes the next item of the line for its value."""
    empty = '{"D":[],"A":"","B":[""],"C":[null],"E":" ","F":null%s}'
    def conf(*sets):
        return spec(render(*sets), "Controller").get("extraConf")
    assert conf("controller.extraConfMap=" + empty % "") is None
    assert conf("controller.extraConfMap=" + empty % ',"Z":["",0,null,"x"]') == "Z=0,x\n"
    assert conf('partitions.all={"enabled":true,"configMap":{"AllowAccounts":[]}}') == "PartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED\n"
    assert spec(render("accounting.enabled=true", "accounting.extraConfMap=" + empty % ',"Z":0'), "Accounting")["extraConf"] == "Z=0\n"
    nodes = spec(render("nodesets.a.extraConfMap=" + empty % ',"Z":false', "nodesets.a.partition.configMap=" + empty % ""), "NodeSet", "slurm-worker-a")
    assert nodes["extraConf"] == "Z=NO" and nodes["partition"] == {"enabled": False}


def test_partitions():
    def conf(*sets):
        return spec(render(*sets), "Controller").get("extraConf")
    assert conf("partitions.all.enabled=true") == "PartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED\n"
    assert conf('nodesets={"a":{},"b":{}}', 'partitions.p={"enabled":true,"nodesets":["b","a","b"],"config":"X=1"}', 'controller.extraConf="E=1\\n"') == (
        "E=1\nPartitionName=p Nodes=a,b X=1\n")
    assert conf('partitions.p={"enabled":false,"nodesets":["nowhere"]}') is None
    assert 'partitions.p.nodesets: "c" is not an enabled entry' in refused('partitions.p={"enabled":true,"nodesets":["c"]}')
    assert "is not an enabled entry" in refused('nodesets={"c":{"enabled":false}}', 'partitions.p={"enabled":true,"nodesets":["c"]}')
    for enabled in ("true", "false"):
        assert "partitions.p.nodesets is empty" in refused('partitions.p={"enabled":%s,"nodesets":[]}' % enabled)
    assert "partitions" in refused('partitions.p={"enabled":true,"nodesets":["ALL"],"config":"a\\nb"}')


def test_a_text_may_end_in_a_line_end():
    """As `config: |` gives it."""
    text = render('partitions.all={"enabled":true,"configMap":null,"config":"State=UP\\n"}', 'nodesets.a={"partition":{"enabled":true,"config":"MaxNodes=2\\n"},"extraConf":"Weight=1\\n"}')
    assert spec(text, "Controller")["extraConf"] == "PartitionName=all Nodes=ALL State=UP\n"
    nodes = spec(text, "NodeSet", "slurm-worker-a")
    assert nodes["partition"]["config"] == "MaxNodes=2" and nodes["extraConf"] == "Weight=1"
    assert "config" in refused('nodesets.a.partition.config="A=1\\nB=2\\n"')


@pytest.mark.parametrize("given,wanted", [
    ({}, {"enabled": False}), ({"config": None}, {"enabled": False}), ({"enabled": True, "config": "X=1"}, {"enabled": True, "config": "X=1"}),
    ({"enabled": True, "configMap": {"State": "UP", "MaxNodes": 2}}, {"enabled": True, "config": "MaxNodes=2 State=UP"})])
def test_partition_of_a_nodeset(given, wanted):
    assert spec(render("nodesets.a.partition=" + json.dumps(given)), "NodeSet", "slurm-worker-a")["partition"] == wanted


def test_every_field_of_a_nodeset_can_be_set():  # A61
    given = {"minReadySeconds": 5, "revisionHistoryLimit": 3, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
             "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}], "replicas": 0,
             "workloadDisruptionProtection": False, "scalingMode": "DaemonSet", "pruneSlurmNodeRecords": "NodeNotFound", "pinToNode": True,
             "oversubscribeNode": True, "ordinalPadding": 2, "updateStrategy": {"type": "OnDelete"}}
    got = spec(render("nodesets.a=" + json.dumps(given)), "NodeSet", "slurm-worker-a")
    assert {key: got[key] for key in given if key != "updateStrategy"} == {key: value for key, value in given.items() if key != "updateStrategy"}
    assert got["updateStrategy"]["type"] == "OnDelete"
    assert got["template"]["spec"]["hostname"] == "a-" and got["controllerRef"] == {"name": "slurm"}
    # What the CRD has and the chart does not say is said by the CRD's defaults.
    (crd,) = [yaml.safe_load(path.read_text()) for path in CRDS if "nodesets" in path.name]
    fields = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    full = spec(render("nodesets.a=" + json.dumps({**given, "ssh": {"enabled": True}, "extraConf": "A=1"})), "NodeSet", "slurm-worker-a")
    assert set(full) == set(fields)


def test_entries_differ_from_the_defaults_where_they_say_so():
    text = render('nodesetDefaults.slurmd={"image":{"repository":"r","tag":"1"},"resources":{"limits":{"cpu":1}}}', "nodesetDefaults.replicas=3",
                  'nodesets={"a":{},"b":{"slurmd":{"image":{"tag":"2"}},"replicas":0},"c":{"enabled":false},"d":null}')
    assert names(text, "NodeSet") == ["slurm-worker-a", "slurm-worker-b", "slurm-worker-d"]
    a, b = spec(text, "NodeSet", "slurm-worker-a"), spec(text, "NodeSet", "slurm-worker-b")
    assert (a["slurmd"]["image"], a["replicas"]) == ("r:1", 3) and (b["slurmd"]["image"], b["replicas"]) == ("r:2", 0)
    assert b["slurmd"]["resources"] == {"limits": {"cpu": 1}}


@pytest.mark.parametrize("image,wanted", [("registry/x:7", "registry/x:7"), ({"repository": "r", "tag": 7}, "r:7"),
                                          ({"repository": "r", "tag": "7", "digest": DIGEST}, "r@" + DIGEST)])
def test_images(image, wanted):
    assert spec(render("restapi.slurmrestd.image=" + json.dumps(image)), "RestApi")["slurmrestd"]["image"] == wanted


def test_images_are_required_and_pinned():  # A62
    assert "restapi.slurmrestd.image: an image is required" in refused('restapi.slurmrestd.image=""')
    assert "controller.slurmctld.image.repository: a repository is required" in refused('controller.slurmctld.image.repository=""')
    assert "nodesets.a.slurmd.image.tag: a tag or a digest is required" in refused("nodesets.a.slurmd.image.tag=null")
    text = render('nodesets={"a":{}}', 'loginsets={"a":{}}', "accounting.enabled=true")
    images = set(re.findall(r"image: (\S+)", text))
    assert len(images) == 6 and not [one for one in images if one.endswith(":latest") or ":" not in one]


def test_containers_and_pods_take_any_field():
    text = render('controller.slurmctld={"livenessProbe":{"periodSeconds":3},"imagePullPolicy":"Always"}',
                  'controller.podSpec={"dnsPolicy":"None","imagePullSecrets":[{"name":"own"}]}', 'imagePullSecrets=[{"name":"all"}]',
                  'controller.metadata={"labels":{"a":"b"},"annotations":{"c":"d"}}')
    got = spec(text, "Controller")
    assert got["slurmctld"]["livenessProbe"] == {"periodSeconds": 3} and got["slurmctld"]["imagePullPolicy"] == "Always"
    assert got["template"]["spec"]["dnsPolicy"] == "None"
    assert got["template"]["spec"]["imagePullSecrets"] == [{"name": "own"}, {"name": "all"}]
    assert got["template"]["metadata"] == {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    metadata = find(text, "Controller", "slurm")["metadata"]
    assert metadata["labels"]["a"] == "b" and metadata["annotations"] == {"c": "d"}


def test_no_label_changes_with_the_chart():
    for one in objects(render('nodesets={"a":{}}', 'loginsets={"a":{}}', "accounting.enabled=true")):
        assert "0.1.0" not in json.dumps(one["metadata"].get("labels", {})), one["metadata"]["name"]


@pytest.mark.parametrize("given,wanted", [
    ("null", {"enabled": True, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "4Gi"}}}),
    ('""', {"storageClassName": ""}), ('"-"', {"storageClassName": ""}), ('"fast"', {"storageClassName": "fast"})])
def test_storage_class(given, wanted):
    got = spec(render("controller.persistence.storageClassName=" + given), "Controller")["persistence"]
    assert wanted.items() <= got.items() and ("storageClassName" in got) == (given != "null")


def test_scripts_and_files_come_in_one_order():  # A62
    got = spec(render('prologScripts={"1.sh":"x"}', 'epilogScripts={"1.sh":"x"}', 'prologScriptRefs=[{"name":"p"}]', 'epilogScriptRefs=[{"name":"e"}]',
                      "vendor.nvidia.dcgm.enabled=true", 'configFiles={"gres.conf":"x"}', 'prologSlurmctldScripts={"a":"b"}'), "Controller")
    assert got["prologScriptRefs"] == [{"name": "slurm-prolog-scripts"}, {"name": "p"}, {"name": "slurm-prolog-dcgm"}]
    assert got["epilogScriptRefs"] == [{"name": "slurm-epilog-scripts"}, {"name": "e"}, {"name": "slurm-epilog-dcgm"}]
    assert got["configFileRefs"] == [{"name": "slurm-config-extra"}]
    assert got["prologSlurmctldScriptRefs"] == [{"name": "slurm-prolog-slurmctld-scripts"}] and "epilogSlurmctldScriptRefs" not in got
    text = render('prologSlurmctldScripts={"a.sh":"b"}')
    assert find(text, "ConfigMap", "slurm-prolog-slurmctld-scripts")["data"] == {"prolog-slurmctld-a.sh": "b"}


def test_priority_class():
    assert "priorityClassName" not in json.dumps(spec(render(), "Controller"))
    text = render("priorityClass.enabled=true", 'restapi.podSpec.priorityClassName="own"')
    assert spec(text, "Controller")["template"]["spec"]["priorityClassName"] == "slurm-system-critical"
    assert spec(text, "RestApi")["template"]["spec"]["priorityClassName"] == "own"
    assert not names(text, "PriorityClass")
    assert find(render("priorityClass.enabled=true", "priorityClass.create=true"), "PriorityClass", "slurm-system-critical")["value"] == 1000000000


@pytest.mark.parametrize("pdb,wanted", [({}, {"minAvailable": 1}), ({"maxUnavailable": 0}, {"maxUnavailable": 0}), ({"minAvailable": "50%"}, {"minAvailable": "50%"})])
def test_budget_of_restapi(pdb, wanted):  # A61: one of the two, not both
    got = spec(render("restapi.pdb=" + json.dumps({"enabled": True, **pdb})), "PodDisruptionBudget", "slurm-restapi")
    assert got == {**wanted, "selector": {"matchLabels": {"app.kubernetes.io/name": "slurmrestd", "app.kubernetes.io/instance": "slurm"}}}


def test_numbers_may_be_texts_and_nothing_is_the_default():
    """As the original's templates take them, and as parameters of Argo CD come."""
    text = render('nodesets={"a":{"replicas":"2"},"b":{"replicas":0}}', 'loginsets={"a":{"replicas":"0"}}', 'restapi.replicas="3"', 'imagePullPolicy=""',
                  'priorityClass={"enabled":true,"name":""}')
    assert spec(text, "RestApi")["template"]["spec"]["priorityClassName"] == "slurm-system-critical"
    assert [spec(text, "NodeSet", f"slurm-worker-{name}")["replicas"] for name in "ab"] == [2, 0]
    assert spec(text, "LoginSet", "slurm-login-a")["replicas"] == 0 and spec(text, "RestApi")["replicas"] == 3
    assert spec(text, "RestApi")["slurmrestd"]["imagePullPolicy"] == "IfNotPresent"
    assert "replicas" in refused('nodesets.a.replicas="two"')


def test_sssd():
    assert "slurm-sssd-conf" not in names(render(), "Secret")
    assert "slurm-sssd-conf" not in names(render('loginsets={"a":{"enabled":false}}', 'nodesets={"a":{}}'), "Secret")
    text = render('nodesets={"a":{"ssh":{"enabled":true,"extraSshdConfig":"X yes"}}}')
    assert "sssd.conf" in find(text, "Secret", "slurm-sssd-conf")["stringData"]
    assert spec(text, "NodeSet", "slurm-worker-a")["ssh"] == {
        "enabled": True, "extraSshdConfig": "X yes", "sssdConfRef": {"name": "slurm-sssd-conf", "key": "sssd.conf"}}
    text = render('loginsets={"a":{}}', 'sssd.secretRef={"name":"mine"}')
    assert "slurm-sssd-conf" not in names(text, "Secret")
    assert spec(text, "LoginSet", "slurm-login-a")["sssdConfRef"] == {"name": "mine", "key": "sssd.conf"}


def test_dcgm_only_where_there_are_gpus(tmp_path):
    text = render('nodesets={"gpu":{"slurmd":{"resources":{"limits":{"nvidia.com/gpu":1}},"volumeMounts":[{"name":"x","mountPath":"/x"}]}},"cpu":{}}',
                  "vendor.nvidia.dcgm.enabled=true", "vendor.nvidia.dcgm.jobMappingDir=" + json.dumps(str(tmp_path / "map")))
    gpu = spec(text, "NodeSet", "slurm-worker-gpu")
    assert [one["name"] for one in gpu["slurmd"]["volumeMounts"]] == ["x", "dcgm-job-mapping"]
    assert gpu["template"]["spec"]["volumes"][0]["hostPath"] == {"path": str(tmp_path / "map"), "type": "DirectoryOrCreate"}
    assert "dcgm" not in json.dumps(spec(text, "NodeSet", "slurm-worker-cpu"))
    (prolog,) = find(text, "ConfigMap", "slurm-prolog-dcgm")["data"].items()
    (epilog,) = find(text, "ConfigMap", "slurm-epilog-dcgm")["data"].items()
    assert (prolog[0], epilog[0]) == ("prolog-90-dcgm.sh", "epilog-90-dcgm.sh")
    run = lambda script, gpus: subprocess.run(["sh", "-eu", "-c", script], env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "7", **gpus}, check=True)
    run(prolog[1], {})
    assert not (tmp_path / "map").exists()
    run(prolog[1], {"SLURM_JOB_GPUS": "0,3"})
    assert {one.name: one.read_text() for one in (tmp_path / "map").iterdir()} == {"0": "7\n", "3": "7\n"}
    run(epilog[1], {"SLURM_JOB_GPUS": "0,3"})
    assert not list((tmp_path / "map").iterdir())


@pytest.mark.parametrize("kind,interfaces,gres", [("a3mega", range(9), "gpu:nvidia_h100_80gb_hbm3:8"), ("a3ultra", [0, *range(2, 10)], "gpu:nvidia_h200:8")])
def test_google(kind, interfaces, gres):
    entry = {"targetNodeSet": "a", "nodePool": "pool", "networks": [f"n{i}" for i in range(9)]}
    sets = ('nodesets={"a":{},"b":{}}', f"vendor.google.{kind}=" + json.dumps([entry]))
    text = render(*sets)
    a = spec(text, "NodeSet", "slurm-worker-a")
    assert a["slurmd"]["resources"] == {"limits": {"nvidia.com/gpu": 8}, "requests": {"nvidia.com/gpu": 8}} and a["extraConf"] == "Gres=" + gres
    assert a["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-nodepool"] == "pool"
    networks = json.loads(a["template"]["metadata"]["annotations"]["networking.gke.io/interfaces"])
    assert networks == [{"interfaceName": f"eth{i}", "network": f"n{j}"} for j, i in enumerate(interfaces)]
    assert ("tcpxo-daemon" in json.dumps(a)) == (kind == "a3mega")
    assert "gke" not in json.dumps(spec(text, "NodeSet", "slurm-worker-b"))
    assert find(text, "ConfigMap", f"slurm-config-{kind}")["data"] == {"gres.conf": "AutoDetect=nvidia\n"}
    assert spec(text, "Controller")["configFileRefs"] == [{"name": f"slurm-config-{kind}"}]
    own = render(*sets, 'configFiles={"gres.conf":"x"}')
    assert spec(own, "Controller")["configFileRefs"] == [{"name": "slurm-config-extra"}]
    assert "needs exactly 9 networks, not 8" in refused(sets[0], f"vendor.google.{kind}=" + json.dumps([{**entry, "networks": entry["networks"][1:]}]))


@pytest.mark.parametrize("kind,wanted", [("a3mega", {"libraries": "/home/kubernetes/bin/nvidia/lib64", "sys": "/sys", "proc-sys": "/proc/sys", "aperture-devices": "/dev/aperture_devices"}),
                                         ("a3ultra", {"library-dir-host": "/home/kubernetes/bin/nvidia", "gib": "/home/kubernetes/bin/gib", "sys": "/sys", "proc-sys": "/proc/sys"})])
def test_volumes_of_google_are_named_as_the_originals(kind, wanted):
    """Containers of a site's podSpec mount them."""
    entry = {"targetNodeSet": "a", "nodePool": "pool", "networks": [f"n{i}" for i in range(9)]}
    made = spec(render('nodesets={"a":{}}', f"vendor.google.{kind}=" + json.dumps([entry])), "NodeSet", "slurm-worker-a")
    volumes = {one["name"]: one["hostPath"]["path"] for one in made["template"]["spec"]["volumes"]}
    assert wanted.items() <= volumes.items()
    mounts = [one for container in (made["slurmd"], *made["template"]["spec"].get("initContainers", [])) for one in container["volumeMounts"]]
    assert {one["name"] for one in mounts} <= set(volumes)


def test_what_a_site_says_of_googles_daemon_reaches_it():
    """It is an init container here, among the containers in the original: an entry there alone would be one without an image."""
    entry = {"targetNodeSet": "a", "nodePool": "pool", "networks": [f"n{i}" for i in range(9)]}
    containers = [{"name": "tcpxo-daemon", "resources": {"limits": {"cpu": 1}}}, {"name": "mine", "image": "x:1"}]
    for more, left in ((containers, ["mine"]), (containers[:1], None)):
        made = spec(render("nodesets.a.podSpec.containers=" + json.dumps(more), "vendor.google.a3mega=" + json.dumps([entry])), "NodeSet", "slurm-worker-a")
        (daemon,) = made["template"]["spec"]["initContainers"]
        assert daemon["name"] == "tcpxo-daemon" and daemon["image"] and daemon["resources"] == {"limits": {"cpu": 1}} and daemon["restartPolicy"] == "Always"
        assert [one["name"] for one in made["template"]["spec"].get("containers", [])] == (left or [])


def test_names_and_namespace():
    text = Chart("slurm", release="r").render('loginsets={"a":{}}', 'nodesets={"b":{}}', 'namespaceOverride="other"')
    assert {one["metadata"]["name"] for one in objects(text) if one["apiVersion"].startswith("slinky")} == {"r-slurm", "r-slurm-login-a", "r-slurm-worker-b"}
    assert {one["metadata"]["namespace"] for one in objects(text)} == {"other"}


def test_extra_objects():
    text = render('extraObjects=["apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: \\"{{ .Release.Name }}-x\\"}",'
                  '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"y"}}]')
    assert names(text, "ConfigMap", "Namespace") == ["y", "slurm-x"]


def test_mistakes_are_named():
    for value, word in [("nodesets.a.replcas=1", "replcas"), ("controler.external=true", "controler"), ('nodesets={"A_b":{}}', "A_b"),
                        ("controller.externalConfig.port=0", "port"), ("controller.ha.backups=0", "backups"), ('clusterName="' + "a" * 41 + '"', "clusterName")]:
        assert word in refused(value)
