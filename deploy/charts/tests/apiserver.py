"""A real kube-apiserver with its etcd on free ports of the loopback, in a temporary folder: no kubelets, no controllers.
What it says about an object is what any cluster says. The programs are those that tools/devcluster builds."""
import json
import pathlib
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

BIN = pathlib.Path.home() / ".cache/devcluster/bin"


def program(name):
    """Its path, or None."""
    return str(BIN / name) if (BIN / name).exists() else shutil.which(name)


MISSING = [name for name in ("etcd", "kube-apiserver", "kubectl", "openssl") if program(name) is None]


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class ApiServer:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = []

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.kill()
            process.wait()

    def run(self, name, *args):
        log = (self.folder / f"{name}.log").open("w")
        self.processes.append(subprocess.Popen([program(name), *args], stdout=log, stderr=subprocess.STDOUT, cwd=self.folder))

    def start(self):
        client, peer, secure = free_ports(3)
        etcd, token, key = f"http://127.0.0.1:{client}", "test-token", self.folder / "sa.key"
        self.run("etcd", "--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync", "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
                 "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--log-level", "warn")
        subprocess.run([program("openssl"), "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        (self.folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
        self.run("kube-apiserver", f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", f"--secure-port={secure}", "--advertise-address=127.0.0.1",
                 f"--cert-dir={self.folder}", f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
                 "--service-account-issuer=https://kubernetes.default.svc", f"--token-auth-file={self.folder / 'tokens.csv'}",
                 "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount",
                 "--allow-privileged=true")
        self.url, self.token = f"https://127.0.0.1:{secure}", token
        self.config = ["--kubeconfig=/dev/null", f"--server={self.url}", f"--token={token}", "--insecure-skip-tls-verify"]
        until = time.monotonic() + 60
        while self.kubectl("get", "--raw", "/readyz").returncode or self.kubectl("get", "namespace", "default").returncode:
            if time.monotonic() > until or any(process.poll() is not None for process in self.processes):
                raise RuntimeError("kube-apiserver does not start:\n" + (self.folder / "kube-apiserver.log").read_text()[-3000:])
            time.sleep(0.2)

    def kubectl(self, *args, given=None):
        return subprocess.run([program("kubectl"), *self.config, *args], input=given, capture_output=True, text=True, timeout=60)

    @property
    def helm_config(self):
        return ["--kube-apiserver", self.url, "--kube-token", self.token, "--kube-insecure-skip-tls-verify"]

    def apply(self, manifest, *args):
        """As `kubectl apply` by a user: unknown fields are refused. None, or what the API server says."""
        done = self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", *args, given=manifest)
        return done.stderr.strip() if done.returncode else None

    def create(self, thing, plural, dry_run=False):
        """Without kubectl, 20 times faster. Unknown fields are refused. (object, None), or (None, what the API server says)."""
        group, version = thing["apiVersion"].split("/")
        path = f"/apis/{group}/{version}/namespaces/{thing['metadata']['namespace']}/{plural}?fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        request = urllib.request.Request(self.url + path, json.dumps(thing).encode(),
                                         {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=30) as answer:
                return json.load(answer), None
        except urllib.error.HTTPError as error:
            return None, json.load(error)["message"]
