"""People of a directory on a Slurm cluster that the operator made: a real LDAP server, sssd in login nodes and workers."""

import os
import subprocess
import typing

import pytest
import yaml

from conftest import ROOT, run
from hpc import BATCH, GROUP, NS, all_ready
from kube import absent_is_none
from waiting import eventually

EXAMPLE = yaml.safe_load((ROOT / "docs/examples/operator/ldap.yaml").read_text())
LOGIN, WORKER = "slurm-login-people", "slurm-worker-people"
PASSWORD = "countess of lovelace"
PEOPLE = """
dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
o: example

dn: cn=analysts,dc=example,dc=org
objectClass: posixGroup
gidNumber: 5000

dn: uid=ada,dc=example,dc=org
objectClass: account
objectClass: posixAccount
objectClass: ldapPublicKey
cn: Ada
uidNumber: 5001
gidNumber: 5000
homeDirectory: /tmp
loginShell: /bin/bash
userPassword: PASSWORD
sshPublicKey: KEY

dn: uid=grace,dc=example,dc=org
objectClass: account
objectClass: posixAccount
objectClass: ldapPublicKey
cn: Grace
uidNumber: 5002
gidNumber: 5000
homeDirectory: /tmp
loginShell: /bin/bash
sshPublicKey: KEY
"""


class Said(typing.NamedTuple):
    status: int
    out: str
    error: str


@pytest.fixture(scope="module")
def directory(installed_operator, cluster, tmp_path_factory):
    """An LDAP server `ldap` with ada (password and key) and grace (key); the folder with that key."""
    folder, core, apps = tmp_path_factory.mktemp("ldap"), installed_operator.kube.core, installed_operator.kube.apps
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key")
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=ldap", "-addext", "subjectAltName=DNS:ldap", "-keyout", folder / "tls.key", "-out", folder / "tls.crt")
    certificate, key = ((folder / name).read_text() for name in ("tls.crt", "tls.key"))
    people = PEOPLE.replace("PASSWORD", PASSWORD).replace("KEY", (folder / "key.pub").read_text().strip())
    conf = EXAMPLE["sssd"]["conf"].replace("ldaps://ldap.example.org", "ldaps://ldap")
    secrets = {"ldap-tls": {"tls.crt": certificate, "tls.key": key}, "ldap-ca": {"ca.crt": certificate}, "ldap-people": {"people.ldif": people}, "ldap-sssd": {"sssd.conf": conf}}
    labels = {"app": "ldap"}
    mounts = {"ldap-tls": "/etc/ldap-tls", "ldap-people": "/etc/ldap-people"}
    container = {"name": "ldap", "image": "localhost/ldap:dev", "imagePullPolicy": "Never", "readinessProbe": {"tcpSocket": {"port": 636}, "periodSeconds": 1},
                 "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()]}
    pod = {"nodeSelector": {"kubernetes.io/hostname": cluster.system_node}, "containers": [container], "volumes": [{"name": name, "secret": {"secretName": name}} for name in mounts]}
    for name, data in secrets.items():
        core.create_namespaced_secret(NS, {"metadata": {"name": name}, "stringData": data})
    core.create_namespaced_service(NS, {"metadata": {"name": "ldap"}, "spec": {"selector": labels, "ports": [{"port": 636}]}})
    apps.create_namespaced_deployment(NS, {"metadata": {"name": "ldap"}, "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}})
    eventually(lambda: apps.read_namespaced_deployment("ldap", NS).status.ready_replicas == 1, "the directory serves", every=0.5)
    yield folder
    apps.delete_namespaced_deployment("ldap", NS)
    core.delete_namespaced_service("ldap", NS)
    for name in secrets:
        core.delete_namespaced_secret(name, NS)


def ssh(folder, user, address, *command, password=None):
    """With the key of the directory, or with a password alone."""
    environment, options = dict(os.environ), ["-i", folder / "key", "-o", "BatchMode=yes"]
    if password is not None:
        asks = folder / "askpass"
        asks.write_text(f"#!/bin/sh\necho '{password}'\n")
        asks.chmod(0o700)
        environment |= {"SSH_ASKPASS": str(asks), "SSH_ASKPASS_REQUIRE": "force"}
        options = ["-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1"]
    done = subprocess.run(["ssh", *map(str, options), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=5",
                           f"{user}@{address}", *command], capture_output=True, text=True, env=environment, timeout=60)
    return Said(done.returncode, done.stdout.strip(), done.stderr)


def with_directory(spec, container, values):
    """The pods of this object get what the example mounts."""
    spec[container].setdefault("volumeMounts", []).extend(values[container]["volumeMounts"])
    spec["template"].setdefault("spec", {}).setdefault("volumes", []).extend(values["podSpec"]["volumes"])
    return spec


def made(hpc, plural, name, spec, kind):
    body = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    hpc.custom.create_namespaced_custom_object(*GROUP, plural, body)


def spec_of(hpc, plural, name):
    return hpc.custom.get_namespaced_custom_object(*GROUP, plural, name)["spec"]


@pytest.fixture
def people_login(hpc, directory):
    """Address of a login node whose people are the directory's."""
    values = EXAMPLE["loginsetDefaults"]
    spec = spec_of(hpc, "loginsets", "slurm-login-slinky") | {"sssdConfRef": {"name": "ldap-sssd", "key": "sssd.conf"}, "extraSshdConfig": values["extraSshdConfig"]}
    made(hpc, "loginsets", LOGIN, with_directory(spec, "login", values), "LoginSet")
    try:
        eventually(lambda: any(all_ready(p) for p in hpc.kube.core.list_namespaced_pod(NS, label_selector=f"app.kubernetes.io/instance={LOGIN}").items), "the login node is ready", every=0.5)
        yield hpc.kube.core.read_namespaced_service(LOGIN, NS).spec.cluster_ip
    finally:
        hpc.custom.delete_namespaced_custom_object(*GROUP, "loginsets", LOGIN)


def test_people_of_a_directory_log_in_and_submit(hpc, directory, people_login):
    """With key and password, not with another password; their jobs run as them on workers that do not know them."""
    def comes_in():
        said = ssh(directory, "ada", people_login, "id")
        assert said.status == 0 and "uid=5001(ada) gid=5000(analysts)" in said.out, said
        return True

    eventually(comes_in, "ada is let in with her key", every=0.5)
    said = ssh(directory, "ada", people_login, "id", "-un", password=PASSWORD)
    assert said.out == "ada", said
    said = ssh(directory, "ada", people_login, "id", password="something else")
    assert said.status == 255 and "Permission denied" in said.error, said
    said = ssh(directory, "ada", people_login, "srun", "-p", "cpu", "-t", "1", "id", "-u")
    assert said.out == "5001", said
    said = ssh(directory, "ada", people_login, "sbatch", "--parsable", "-p", "cpu", "-t", "1", "-o", "/tmp/%j.out", "--wrap", "id", password=PASSWORD)
    assert said.status == 0, said
    job = int(said.out)
    eventually(lambda: hpc.state(job) == "COMPLETED", f"job {job} is done", every=0.5)
    assert hpc.jobs()[job]["user_id"] == 5001


@pytest.mark.slow
def test_a_worker_lets_in_who_has_a_job_there(hpc, directory, people_login):
    """spec.ssh of a NodeSet with pam_slurm_adopt: ada has a job on the worker, grace has none; then ada has none either."""
    values = EXAMPLE["nodesetDefaults"]
    before = spec_of(hpc, "controllers", "slurm")["extraConf"]

    def change(extra):
        hpc.custom.patch_namespaced_custom_object(*GROUP, "controllers", "slurm", {"spec": {"extraConf": extra}})

    spec = spec_of(hpc, "nodesets", BATCH) | {"replicas": 1, "ssh": {"enabled": True, "extraSshdConfig": values["ssh"]["extraSshdConfig"], "sssdConfRef": {"name": "ldap-sssd", "key": "sssd.conf"}}}
    spec["template"]["spec"]["hostname"] = "people-"
    change(before + "\n" + "\n".join(f"{k}={v}" for k, v in EXAMPLE["controller"]["extraConfMap"].items()))
    try:
        eventually(lambda: "Contain" in hpc.on_login("scontrol", "show", "config", check=False), "slurmctld runs it", every=1)
        made(hpc, "nodesets", WORKER, with_directory(spec, "slurmd", values), "NodeSet")
        eventually(lambda: "people-0" in hpc.serving(), "the worker serves", every=0.5)
        (pod,) = hpc.workers(WORKER).values()
        job = int(eventually(lambda: (said := ssh(directory, "ada", people_login, "sbatch", "--parsable", "-p", "people", "-t", "5", "-o", "/tmp/%j.out", "--wrap", "'sleep 240'")).status == 0 and said.out,
                             "ada submits", every=1))
        eventually(lambda: hpc.state(job) == "RUNNING", "her job runs", every=0.5)

        def comes_in():
            said = ssh(directory, "ada", pod.status.pod_ip, "hostname")
            assert said.out == "people-0", said
            return True

        eventually(comes_in, "ada is let in", every=1)
        said = ssh(directory, "ada", pod.status.pod_ip, "id", "-un", password=PASSWORD)
        assert said.out == "ada", said
        said = ssh(directory, "grace", pod.status.pod_ip, "hostname")
        assert said.status == 255 and "you have no active jobs on this node" in said.error, said
        hpc.on_login("scancel", str(job))
        eventually(lambda: "you have no active jobs on this node" in ssh(directory, "ada", pod.status.pod_ip, "hostname").error, "without her job she is not let in", every=1)
    finally:
        hpc.on_login("scancel", "-p", "people", check=False)
        absent_is_none(lambda: hpc.custom.delete_namespaced_custom_object(*GROUP, "nodesets", WORKER))
        change(before)
        eventually(lambda: not hpc.workers(WORKER), "its worker has gone", every=0.5)
        eventually(lambda: "Contain" not in hpc.on_login("scontrol", "show", "config"), "slurmctld runs as before", every=1)
