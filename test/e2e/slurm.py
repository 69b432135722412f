"""A small client of slurmrestd and of Slurm's own commands, independent of ours."""

import http.client
import json
import os
import re
import subprocess
import time

VERSION_24 = os.environ.get("E2E_SLURM") == "24"  # Slurm 24.11: no external jobs, no external nodes
HYBRID = os.environ.get("E2E_SLURM") in ("24", "hybrid")  # a slurmd for each node
VERSION = "v0.0.42" if VERSION_24 else "v0.0.44"
BASE_STATES = {"PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
ACTIVE = {"PENDING", "RUNNING", "SUSPENDED"}


class RestError(Exception):
    def __init__(self, status, method, path, text):
        super().__init__(f"{method} {path}: {status} {text[:400]}")
        self.status = status


class Slurm:
    def __init__(self, devcluster, host="127.0.0.1", port=6820):
        self.devcluster, self.address = devcluster, (host, port)
        self.connection, self.token_text, self.token_end = None, "", 0.0

    # --- commands -------------------------------------------------------------------------------------------

    def command(self, *args):
        return subprocess.run([self.devcluster, "slurmexec", *args], check=True, capture_output=True, text=True).stdout

    def squeue(self):
        return self.command("squeue", "-a", "-o", "%.6i %.12P %.24j %.10u %.12T %.8M %.6D %.10Q %R")

    def scontrol(self, *args):
        return self.command("scontrol", *args)

    def token(self, user="root", seconds=3600):
        return subprocess.run([self.devcluster, "token", user, str(seconds)], check=True, capture_output=True, text=True).stdout.strip()

    # --- REST -----------------------------------------------------------------------------------------------

    def rest(self, method, path, body=None):
        """Answer of slurmrestd as JSON. Keeps its connection; a closed one is opened again once for reads."""
        if time.time() > self.token_end - 60:
            self.token_text, self.token_end = self.token(seconds=3 * 3600), time.time() + 3600  # also where Slurm's clock is ahead
        headers = {"X-SLURM-USER-TOKEN": self.token_text, "Content-Type": "application/json"}
        text = json.dumps(body) if body is not None else None
        for attempt in (1, 2):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection(*self.address, timeout=20)
                self.connection.request(method, f"/slurm/{VERSION}/{path}", text, headers)
                answer = self.connection.getresponse()
                data = answer.read().decode(errors="replace")  # names of jobs are bytes
                if answer.status >= 300:
                    self.close()
                    raise RestError(answer.status, method, path, data)
                return json.loads(data) if data else {}
            except (http.client.HTTPException, OSError):
                self.close()
                if method != "GET" or attempt == 2:
                    raise

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    # --- jobs -----------------------------------------------------------------------------------------------

    def submit(self, name="native", nodes=1, **fields):
        """Submits a native external job (it holds nodes, starts nothing), on 24.11 one that sleeps, and returns its id."""
        kind = {"script": "#!/bin/sh\nexec sleep infinity\n", "environment": ["PATH=/usr/bin:/bin"]} if VERSION_24 else {"flags": ["EXTERNAL_JOB"]}
        job = {"name": name, "nodes": str(nodes), "tasks": nodes, **kind, "partition": "slurm-bridge", "shared": ["none"],
               "current_working_directory": "/tmp", "memory_per_node": {"set": True, "number": 100}} | fields
        answer = self.rest("POST", "job/submit", {"job": job})
        if not answer.get("job_id"):  # the only proof of a submit; the status code is none
            raise AssertionError(f"Slurm did not take the job: {answer.get('errors')} {answer.get('warnings')}")
        return answer["job_id"]

    def job(self, job_id):
        """The job's record, or None when Slurm has forgotten it."""
        try:
            return self.rest("GET", f"job/{job_id}")["jobs"][0]
        except RestError as e:
            if e.status == 404:
                return None
            raise

    def state(self, job_id):
        """Base state of the job, "" when unknown."""
        job = self.job(job_id)
        return next((s for s in job["job_state"] if s in BASE_STATES), "") if job else ""

    def states(self, ids=()):
        """{job id: base state} of these jobs, or of all: the cheapest question there is. Tasks of an array are named "7_3" there, parts of a heterogeneous job "8+1"."""
        jobs = self.rest("GET", "jobs/state/" + ("?" + "&".join(f"job_id={i}" for i in ids) if ids else ""))["jobs"]
        return {int(re.match(r"\d+", str(j["job_id"]))[0]): next((s for s in j["state"] if s in BASE_STATES), "") for j in jobs}

    def jobs(self):
        return self.rest("GET", "jobs/")["jobs"]

    def cancel(self, job_id):
        self.rest("DELETE", f"job/{job_id}")

    def cancel_all(self):
        for job_id, state in self.states().items():
            if state in ACTIVE:
                self.cancel(job_id)

    # --- nodes ----------------------------------------------------------------------------------------------

    def nodes(self):
        return {n["name"]: n for n in self.rest("GET", "nodes/")["nodes"]}

    def create_node(self, name, cpus=2, memory=1000):
        # always with NodeAddr: without it slurmctld looks the name up with its locks held
        line = f"NodeName={name} NodeAddr=127.0.0.1 State=EXTERNAL CPUs={cpus} RealMemory={memory}"
        self.rest("POST", "new/node/", {"node_conf": line})

    def delete_node(self, name):
        self.rest("DELETE", f"node/{name}")


def expand(hostlist):
    """Names of a simple hostlist: "n[1-3,5],x1" -> n1 n2 n3 n5 x1."""
    names = []
    for item in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", hostlist):
        if m := re.fullmatch(r"(.*)\[(.*)\]", item):
            for part in m[2].split(","):
                low, _, high = part.partition("-")
                names += [f"{m[1]}{i:0{len(low)}d}" for i in range(int(low), int(high or low) + 1)]
        else:
            names.append(item)
    return names
