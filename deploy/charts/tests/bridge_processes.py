"""The program of the bridge as processes on a real API server, without a Slurm."""
import contextlib
import os
import pathlib
import subprocess

import yaml

from apiserver import free_ports, program

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = pathlib.Path(os.environ.get("BASCULE_BINARY", ROOT / "build/release/bascule"))


def make_certificate(folder, name):
    """tls.crt and tls.key in the folder, as kubelet puts a changed Secret there: new files in place of the old."""
    subprocess.run([program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", f"/CN={name}",
                    "-keyout", folder / "new.key", "-out", folder / "new.crt"], check=True, capture_output=True)
    (folder / "new.key").rename(folder / "tls.key")
    (folder / "new.crt").rename(folder / "tls.crt")


class Processes:
    """Scheduler, controllers and admission, each with its ports."""

    def __init__(self, cluster, folder):
        self.folder, self.running = folder, {}
        config, token, kubeconfig = folder / "config.yaml", folder / "token", folder / "kubeconfig"
        config.write_text("slurmRestApi: http://127.0.0.1:1\nmanagedNamespaces: [a]\n")
        token.write_text("none")
        kubeconfig.write_text(yaml.safe_dump({
            "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {"token": cluster.token}}],
            "clusters": [{"name": "x", "cluster": {"server": cluster.url, "insecure-skip-tls-verify": True}}]}))
        make_certificate(folder, "first")
        *metrics, self.webhook = free_ports(4)
        self.metrics = {}
        for component, port in zip(("scheduler", "controllers", "admission"), metrics):
            self.metrics[component] = f"http://127.0.0.1:{port}/metrics"
            more = [f"--webhook-bind-address=127.0.0.1:{self.webhook}", f"--cert-dir={folder}"] if component == "admission" else ["--leader-elect"]
            command = [BINARY, component, f"--config={config}", f"--kubeconfig={kubeconfig}", f"--metrics-bind-address=127.0.0.1:{port}", "--health-probe-bind-address=0", *more]
            with (folder / f"{component}.log").open("w") as log:
                environment = {"SLURM_JWT_FILE": str(token), "POD_NAMESPACE": "default", "POD_NAME": component}
                self.running[component] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def logs(self):
        return "\n".join(f"{log.name}: {log.read_text()[-800:]}" for log in self.folder.glob("*.log"))

    def stop(self):
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(20)


@contextlib.contextmanager
def processes(cluster, folder):
    started = Processes(cluster, folder)
    try:
        yield started
    finally:
        started.stop()
