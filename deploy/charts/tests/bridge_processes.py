"""The program of the bridge as processes on a real API server, without a Slurm."""
import base64
import contextlib
import json
import os
import pathlib
import subprocess
import urllib.request

import yaml

from apiserver import free_ports, program

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = pathlib.Path(os.environ.get("BASCULE_BINARY", ROOT / "build/release/bascule"))


def part(claims):
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


TOKEN = f"{part({'alg': 'HS256'})}.{part({'iat': 1700000000, 'exp': 4000000000})}.c2lnbmF0dXJl"  # of nobody, for nobody


def make_certificate(folder, name):
    """tls.crt and tls.key in the folder, as kubelet puts a changed Secret there: new files in place of the old."""
    subprocess.run([program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", f"/CN={name}",
                    "-keyout", folder / "new.key", "-out", folder / "new.crt"], check=True, capture_output=True)
    (folder / "new.key").rename(folder / "tls.key")
    (folder / "new.crt").rename(folder / "tls.crt")


def kubeconfig(cluster, path, token):
    path.write_text(yaml.safe_dump({
        "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {"token": token}}],
        "clusters": [{"name": "x", "cluster": {"server": cluster.url, "insecure-skip-tls-verify": True}}]}))


class Processes:
    """Processes of the bridge by name, each with its metrics; `components`: {name: component}."""

    def __init__(self, cluster, folder, components):
        self.folder, self.running, self.metrics, self.webhook = folder, {}, {}, None
        (folder / "config.yaml").write_text("slurmRestApi: http://127.0.0.1:1\nmanagedNamespaces: [a]\n")
        (folder / "token").write_text(TOKEN)
        kubeconfig(cluster, folder / "kubeconfig", cluster.token)
        make_certificate(folder, "first")
        for name, component in components.items():
            self.start(name, component)

    def start(self, name, component):
        port, webhook = free_ports(2)
        command = [BINARY, component, f"--config={self.folder}/config.yaml", f"--kubeconfig={self.folder}/kubeconfig", f"--metrics-bind-address=127.0.0.1:{port}", "--health-probe-bind-address=0"]
        if component == "admission":
            command += [f"--webhook-bind-address=127.0.0.1:{webhook}", f"--cert-dir={self.folder}"]
            self.webhook = webhook
        else:
            command.append("--leader-elect")
        environment = {"SLURM_JWT_FILE": f"{self.folder}/token", "POD_NAMESPACE": "default", "POD_NAME": name}
        with (self.folder / f"{name}.log").open("w") as log:
            self.running[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self.metrics[name] = f"http://127.0.0.1:{port}/metrics"

    def scrape(self, name):
        """Its metrics, "" while it has none."""
        try:
            with urllib.request.urlopen(self.metrics[name], timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def logs(self):
        return "\n".join(f"{log.name}: {log.read_text()[-800:]}" for log in self.folder.glob("*.log"))

    def stop(self):
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(20)


@contextlib.contextmanager
def processes(cluster, folder, **components):
    started = Processes(cluster, folder, components or {c: c for c in ("scheduler", "controllers", "admission")})
    try:
        yield started
    finally:
        started.stop()
