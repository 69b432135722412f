"""The bridge as processes of this machine in place of the chart's pods: so they can be killed, paused and fed at any moment.

They act with the service accounts of the chart, so its RBAC and the webhook's protection hold for them too.
"""

import os
import pathlib
import signal
import subprocess

import yaml

from waiting import eventually

RELEASE = "slinky"  # namespace of the chart
ROLES = {"scheduler": "slurm-bridge-scheduler", "controllers": "slurm-bridge-controllers"}  # Deployment and service account
LEASES = {"scheduler": "slurm-bridge-scheduler", "controllers": "69d5fe47.my.slinky.slurm.net"}


class Process:
    """One process of the bridge; its log is kept over restarts."""

    def __init__(self, binary, role, folder, name, flags=(), environment=None):
        self.role, self.name, self.log_file = role, name, folder / f"{name}.log"
        self.command = [str(binary), role, f"--config={folder}/config.yaml", f"--kubeconfig={folder}/{role}.kubeconfig", "--health-probe-bind-address=0",
                        *(flags if any(f.startswith("--metrics") for f in flags) else ["--metrics-bind-address=0", *flags])]
        self.environment = {"PATH": os.environ["PATH"], "POD_NAME": name, "POD_NAMESPACE": RELEASE, "SLURM_JWT_FILE": f"{folder}/token"} | (environment or {})
        self.process = None

    def start(self):
        with self.log_file.open("a") as log:
            self.process = subprocess.Popen(self.command, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def send(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        if self.alive():
            self.process.kill()
        self.process.wait()
        for left in ("sem.faketime_sem_", "faketime_shm_"):
            pathlib.Path(f"/dev/shm/{left}{self.process.pid}").unlink(missing_ok=True)

    def stop(self):
        if self.process is None:
            return
        if self.alive():
            self.send(signal.SIGCONT)
            self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end within 10 s of SIGTERM") from None

    def log(self):
        return self.log_file.read_text(errors="replace")


# libfaketime would shift the absolute times of timers too, those of the monotonic clock as well.
TIMERS = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
int timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *from) { return (int)syscall(SYS_timerfd_settime, fd, flags, to, from); }
"""


class Clock:
    """Civil time for some processes, which may step while they run: libfaketime reads at each look how many seconds it is ahead."""

    def __init__(self, folder):
        (library,) = pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
        timers = folder / "timers.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(timers)], input=TIMERS, text=True, check=True)
        self.file = folder / "clock"
        self.environment = {"LD_PRELOAD": f"{timers}:{library}", "FAKETIME_TIMESTAMP_FILE": str(self.file), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                            "NO_FAKE_STAT": "1"}
        self.set(0)

    def set(self, ahead):
        fresh = self.file.with_suffix(".new")
        fresh.write_text(f"{ahead:+d}\n")
        fresh.rename(self.file)


class HostBridge:
    """Folder with configuration, token and kubeconfigs, and the processes made from it."""

    def __init__(self, folder, binary, kube, token, url):
        self.folder, self.binary = pathlib.Path(folder), binary
        self.folder.mkdir(parents=True, exist_ok=True)
        for log in self.folder.glob("*.log"):  # of an earlier run: what it said is not said now
            log.unlink()
        config = yaml.safe_load(kube.core.read_namespaced_config_map("slurm-bridge-config", RELEASE).data["config.yaml"])
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config | {"slurmRestApi": url}))
        self.write_token(token)
        admin = yaml.safe_load(pathlib.Path(os.environ["KUBECONFIG"]).read_text())
        for role, account in ROLES.items():
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
            bearer = kube.core.create_namespaced_service_account_token(account, RELEASE, body).status.token
            user = admin["contexts"][0]["context"]["user"]
            (self.folder / f"{role}.kubeconfig").write_text(yaml.safe_dump(admin | {"users": [{"name": user, "user": {"token": bearer}}]}))
        self.processes = {}

    def write_token(self, token):
        """As the kubelet does it for a Secret: a new file takes the place of the old."""
        fresh = self.folder / "token.new"
        fresh.write_text(token)
        fresh.rename(self.folder / "token")

    def add(self, role, name=None, *flags, environment=None):
        self.processes[name or role] = Process(self.binary, role, self.folder, name or role, flags, environment)
        return self.processes[name or role].start()

    def only(self, *names):
        """Exactly these run, without leader election; what else there is ends."""
        for name in [n for n in self.processes if n not in names]:
            self.processes.pop(name).stop()
        for name in names:
            if name not in self.processes:
                self.add(name)
            elif not self.processes[name].alive():
                self.processes[name].start()

    def stop(self):
        self.only()


def scale(kube, replicas):
    """The chart's own scheduler and controllers: gone (0) or back (1)."""
    for deployment in ROLES.values():
        kube.apps.patch_namespaced_deployment_scale(deployment, RELEASE, {"spec": {"replicas": replicas}})

    def settled():
        pods = [p for p in kube.core.list_namespaced_pod(RELEASE).items if any(p.metadata.name.startswith(d) for d in ROLES.values())]
        ready = [p for p in pods if any(c.type == "Ready" and c.status == "True" for c in p.status.conditions or [])]
        assert len(pods) == len(ready) == len(ROLES) * replicas, f"pods: {[p.metadata.name for p in pods]}, ready: {len(ready)}"
        return True

    eventually(settled, f"the bridge's Deployments have {replicas} pods each", within=180, every=0.3)
