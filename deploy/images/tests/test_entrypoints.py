"""The entrypoints of Slurm's images, with daemons that only play their part."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

IMAGES = pathlib.Path(__file__).resolve().parents[1] / "slurm"
# As slurmd --systemd: it tells who is the main process, hands over on HUP unless there is a file `refuse`, and has a child
# that outlives it. Whatever happens to it is a line of the file `log`.
DAEMON = f"""#!{sys.executable}
import os, signal, socket, subprocess, sys, time

def log(text):
    with open("log", "a") as to:
        to.write(text + "\\n")

def main_is(pid):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.connect(os.environ["NOTIFY_SOCKET"])
        s.send(f"READY=1\\nMAINPID={{pid}}".encode())
        closed, kept = os.pipe()
        socket.send_fds(s, [b"BARRIER=1"], [kept])
        os.close(kept)
        os.read(closed, 1)

def hand_over(*_):
    if os.path.exists("refuse"):
        return log(f"refused {{os.getpid()}}")
    told, tell = os.pipe()
    if os.fork() == 0:
        if os.fork():
            os._exit(0)
        log(f"main {{os.getpid()}}")
        os.write(tell, str(os.getpid()).encode())
        while True:
            time.sleep(60)
    os.wait()
    main_is(int(os.read(told, 20)))
    os._exit(0)

def end(*_):
    log(f"ended {{os.getpid()}}")
    os._exit(0)

log("arguments " + " ".join(sys.argv[1:]))
if "fail" in sys.argv:
    sys.exit(3)
signal.signal(signal.SIGHUP, hand_over)
signal.signal(signal.SIGTERM, end)
step = subprocess.Popen(["sleep", "300"], start_new_session=True, stderr=subprocess.DEVNULL)
log(f"step {{step.pid}}")
main_is(os.getpid())
log(f"main {{os.getpid()}}")
while True:
    time.sleep(60)
"""


def until(what, condition):
    limit = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < limit, f"it did not come: {what}"
        time.sleep(0.05)
    return found


class Service:
    def __init__(self, folder):
        self.folder, self.process = folder, None
        (folder / "daemon").write_text(DAEMON)
        (folder / "daemon").chmod(0o755)

    def start(self, *words):
        environment = os.environ | {"NOTIFY_SOCKET": str(self.folder / "notify")}
        self.process = subprocess.Popen([IMAGES / "service", *words], cwd=self.folder, env=environment, start_new_session=True,
                                        stdout=subprocess.DEVNULL, stderr=(self.folder / "stderr").open("w"))

    def said(self, word):
        """What follows `word` in the lines of the log that begin with it."""
        log = self.folder / "log"
        return [line.split(" ", 1)[1] for line in log.read_text().splitlines() if line.startswith(word + " ")] if log.exists() else []

    def mains(self, count):
        return [int(p) for p in until(f"main process {count}", lambda: len(self.said("main")) >= count and self.said("main"))]

    def ends(self):
        return self.process.wait(30)

    def clean(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        for pid in self.said("main") + self.said("step"):
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass


@pytest.fixture
def service(tmp_path):
    service = Service(tmp_path)
    yield service
    service.clean()


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_who_takes_over_is_followed(service):
    service.start("./daemon", "-x", "a b")
    service.mains(1)
    assert service.said("arguments") == ["--systemd -x a b"]
    service.process.send_signal(signal.SIGHUP)
    first, second = service.mains(2)
    until("the first process ends", lambda: not runs(first))
    time.sleep(1.5)  # longer than it looks
    assert service.process.poll() is None and runs(second)
    os.killpg(service.process.pid, signal.SIGTERM)  # as tini -g does
    assert service.ends() == 0
    assert service.said("ended") == [str(second)], "told once, and nobody else"


def test_a_refused_change_ends_nothing(service):
    (service.folder / "refuse").touch()
    service.start("--again", "./daemon")
    main, = service.mains(1)
    service.process.send_signal(signal.SIGHUP)
    until("it refuses", lambda: service.said("refused"))
    assert runs(main) and service.process.poll() is None


def test_the_end_of_the_main_process_is_the_end(service):
    service.start("./daemon")
    os.kill(service.mains(1)[0], signal.SIGKILL)
    assert service.ends() == 137


@pytest.mark.parametrize("handed_over", [False, True])
def test_a_daemon_that_crashes_is_started_again_beside_its_steps(service, handed_over):
    service.start("--again", "./daemon")
    service.mains(1)
    if handed_over:
        service.process.send_signal(signal.SIGHUP)
        first, _ = service.mains(2)
        until("the first process ends", lambda: not runs(first))
    before = service.mains(1)
    os.kill(before[-1], signal.SIGSEGV)
    assert runs(service.mains(len(before) + 1)[-1])
    assert runs(service.said("step")[0]), "the job goes on"
    service.process.terminate()
    assert service.ends() == 0
    assert "started again in 1 s" in (service.folder / "stderr").read_text()


def test_a_daemon_that_never_came_up_ends_the_container(service):
    service.start("--again", "./daemon", "fail")
    assert service.ends() == 3


@pytest.fixture
def slurmctld(tmp_path):
    """Runs slurmctld.sh over a state of these files; its arguments for slurmctld, and what is left of the state."""

    def start(files, hosts=("c-0",), storage="accounting_storage/slurmdbd"):
        state = tmp_path / "spool/slurm"
        state.mkdir(parents=True)
        for name in files:
            (state / name).touch()
        (tmp_path / "slurm.conf").write_text("".join(f"SlurmctldHost={h}({h}.c.ns)\n" for h in hosts) + f"AccountingStorageType={storage}\n")
        (tmp_path / "service").write_text('#!/bin/sh\necho "$@"\n')
        (tmp_path / "service").chmod(0o755)
        script = (IMAGES / "slurmctld.sh").read_text()
        for path in ("/etc/slurm/slurm.conf", "/var/spool/slurmctld", "/usr/lib/bascule/service"):
            assert path in script
            script = script.replace(path, str(tmp_path / {"slurmctld": "spool"}.get(name := path.rsplit("/", 1)[1], name)))
        said = subprocess.run(["bash", "-c", f"hostname() {{ echo c-0; }}\n{script}", "slurmctld.sh", "-v"], capture_output=True, text=True, check=True)
        return said.stdout.split(), sorted(p.name for p in state.iterdir())

    return start


def test_a_slurmctld_killed_in_its_first_minutes_starts_with_what_is_there(slurmctld):
    """Missing files are let pass, by the missing clustername; broken ones are not: no -i."""
    assert slurmctld(["clustername", "job_state"]) == (["slurmctld", "-v"], ["job_state"])


@pytest.mark.parametrize("files", [[], ["assoc_usage", "clustername", "job_state"], ["assoc_usage.old", "clustername"]])
def test_a_state_that_is_new_or_whole_stays(slurmctld, files):
    assert slurmctld(files) == (["slurmctld", "-v"], files)


def test_a_standby_leaves_the_state_to_whom_it_stands_by(slurmctld):
    files = ["clustername", "job_state"]
    assert slurmctld(files, hosts=("c-1", "c-0")) == (["slurmctld", "-v"], files)


def test_without_slurmdbd_the_state_stays(slurmctld):
    assert slurmctld(["clustername"], storage="accounting_storage/none")[1] == ["clustername"]
