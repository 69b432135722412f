"""Charts as text: `helm template` and what comes out of it."""
import base64
import datetime
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

HERE = pathlib.Path(__file__).parent
CACHE = pathlib.Path.home() / ".cache/devcluster/bin/helm"
HELM = shutil.which("helm") or (str(CACHE) if CACHE.exists() else None)
needs_helm = pytest.mark.skipif(HELM is None, reason="no helm (tools/devcluster build makes one)")


def helm(*args):
    return subprocess.run([HELM, *args], capture_output=True, text=True)


def objects(text):
    return [one for one in yaml.safe_load_all(text) if one]


def find(text, kind, name):
    found = [o for o in objects(text) if o["kind"] == kind and o["metadata"]["name"] == name]
    assert len(found) == 1, f"{kind} {name}: {len(found)}"
    return found[0]


def container(text, name):
    return find(text, "Deployment", name)["spec"]["template"]["spec"]["containers"][0]


class Chart:
    def __init__(self, name, release="test-release", namespace="test-namespace"):
        self.name, self.folder = name, HERE.parent / name
        self.release, self.namespace = release, namespace
        self.rendered = {}

    def helm(self, sets, files, more):
        args = ["template", self.release, str(self.folder), "-n", self.namespace, "--kube-version", "1.34.0", *more]
        for one in sets:
            args += ["--set-json", one]
        for one in files:
            args += ["-f", str(one)]
        return helm(*args)

    def render(self, *sets, files=(), more=()):
        key = (sets, tuple(files), tuple(more))
        if key not in self.rendered:
            done = self.helm(*key)
            assert done.returncode == 0, done.stderr
            self.rendered[key] = done.stdout
        return self.rendered[key]

    def refused(self, *sets):
        done = self.helm(sets, (), ())
        assert done.returncode != 0, "was accepted: " + " ".join(sets)
        return done.stderr

    def lints(self):
        done = helm("lint", "--strict", str(self.folder))
        assert done.returncode == 0, done.stdout + done.stderr

    def matches_golden(self, values, stable=lambda text: text):
        """`values`: a file of tests/values/CHART/. UPDATE_GOLDEN=1 writes the golden file anew."""
        golden = HERE / "golden" / self.name / values.name
        got = stable(self.render(files=[values]))
        if os.environ.get("UPDATE_GOLDEN"):
            golden.parent.mkdir(exist_ok=True, parents=True)
            golden.write_text(got)
        assert got == golden.read_text(), f"differs from {golden}; UPDATE_GOLDEN=1 if that is meant"


def value_files(chart):
    return pytest.mark.parametrize("values", sorted((HERE / "values" / chart).glob("*.yaml")), ids=lambda p: p.stem)


def without_certificates(text):
    """Certificates are new in every rendering without a cluster."""
    return re.sub(r"(ca\.crt|tls\.crt|tls\.key|caBundle): \S+", r"\1: (generated)", text)


def days_of(pem):
    """How long a certificate, as a Secret's data has it, is good from its beginning."""
    said = subprocess.run(["openssl", "x509", "-noout", "-startdate", "-enddate"], input=base64.b64decode(pem), capture_output=True, check=True).stdout.decode()
    begin, end = (datetime.datetime.strptime(line.partition("=")[2], "%b %d %H:%M:%S %Y GMT") for line in said.splitlines())
    return (end - begin).days
