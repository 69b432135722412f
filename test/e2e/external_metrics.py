"""The API external.metrics.k8s.io, as an adapter such as prometheus-adapter serves it, in the test process: one metric,
what slurmctld itself counts of a partition's jobs at the moment of the question."""

import http.server
import json
import re
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
METRIC = "partition_jobs_active"
HOST = "10.88.0.1"  # the pods' gateway: an address of the test process that kube-apiserver reaches


def active_jobs(slurmctld, partition):
    """Pending and running jobs, by slurmctld's own metrics."""
    with urllib.request.urlopen(f"{slurmctld}/metrics/partitions", timeout=10) as answer:
        text = answer.read().decode()
    counts = [re.search(rf'^slurm_partition_jobs_{state}{{partition="{partition}"}} (\d+)', text, re.M) for state in ("pending", "running")]
    assert all(counts), text[:2000]
    return sum(int(c[1]) for c in counts)


class ExternalMetrics:
    """The API is there within the `with`. `kubectl(VERB, OBJECTS)`; `slurmctld`: its URL; `folder` for a certificate."""

    def __init__(self, kubectl, slurmctld, folder):
        self.kubectl, self.slurmctld = kubectl, slurmctld
        certificate = folder / "metrics.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=metrics", "-keyout", certificate, "-out", folder / "cert.pem"],
                       check=True, capture_output=True)
        with certificate.open("a") as both:
            both.write((folder / "cert.pem").read_text())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                try:
                    status, body = 200, api.answer(self.path)
                except Exception as error:
                    status, body = 500, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": str(error)}
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((HOST, 0), Handler)
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)

    def answer(self, path):
        target = urllib.parse.urlsplit(path)
        if not target.path.endswith(f"/{METRIC}"):
            resources = [{"name": METRIC, "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}]
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}", "resources": resources}
        partition = dict(label.split("=") for label in urllib.parse.parse_qs(target.query)["labelSelector"][0].split(","))["partition"]
        value = active_jobs(self.slurmctld, partition)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        item = {"metricName": METRIC, "metricLabels": {"partition": partition}, "timestamp": now, "value": str(value)}
        return {"kind": "ExternalMetricValueList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": [item]}

    def objects(self):
        port = self.server.server_address[1]
        ports = [{"name": "https", "port": port}]
        return {"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "e2e-metrics", "namespace": "default"}, "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]}},
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "e2e-metrics", "namespace": "default", "labels": {"kubernetes.io/service-name": "e2e-metrics"}},
             "addressType": "IPv4", "ports": ports, "endpoints": [{"addresses": [HOST]}]},
            {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": f"{VERSION}.{GROUP}"},
             "spec": {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": True,
                      "service": {"name": "e2e-metrics", "namespace": "default"}}}]}

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.kubectl("apply", self.objects())
        return self

    def __exit__(self, *_):
        self.kubectl("delete", self.objects())
        self.server.shutdown()
        self.server.server_close()
