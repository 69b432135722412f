"""The development cluster's own promises, on a second cluster beside the first: heals, and leaves nothing behind."""

import os
import pathlib
import signal
import subprocess
import time

import pytest

from waiting import eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEVCLUSTER = str(ROOT / "tools/devcluster/devcluster")
NAME = "devclustertest"
STATE = pathlib.Path(f"/var/tmp/{NAME}")
ENV = os.environ | {"DEVCLUSTER_NAME": NAME, "DEVCLUSTER_STATE": str(STATE), "DEVCLUSTER_NETNS": NAME}


def devcluster(*args, check=True):
    return subprocess.run([DEVCLUSTER, *args], env=ENV, check=check, capture_output=True, text=True)


def processes():
    """{pid: name} of the living processes that carry this cluster's mark, are in its network, or hold its files in their arguments."""
    found = {}
    netns = pathlib.Path(f"/run/netns/{NAME}")
    inode = netns.stat().st_ino if netns.exists() else None
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (p / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                continue
            ours = f"DEVCLUSTER_OF={STATE}".encode() in (p / "environ").read_bytes() or (p / "ns/net").stat().st_ino == inode
            arguments = (p / "cmdline").read_bytes()
            if ours or f"/run/{NAME}/".encode() in arguments or f"{STATE}/".encode() in arguments:
                found[int(p.name)] = arguments.split(b"\0")[0].decode()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def traces():
    """Everything on this machine that bears the cluster's name."""
    left = [str(p) for p in (STATE, pathlib.Path(f"/run/{NAME}"), pathlib.Path(f"/run/netns/{NAME}"), pathlib.Path(f"/run/{NAME}.lock")) if p.exists()]
    left += [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines() if NAME in line.split()[1]]
    # os.walk bears that groups of other clusters vanish meanwhile
    left += [f"{at}/{group}" for at, groups, _ in os.walk("/sys/fs/cgroup") for group in groups if group.startswith(f"{NAME}-")]
    return left + [f"{pid} {name}" for pid, name in processes().items()]


@pytest.fixture(autouse=True)
def clean():
    devcluster("down")
    assert not traces()
    yield
    devcluster("down")
    eventually(lambda: not traces(), f"nothing is left: {traces()}")


def test_killed_programs_are_healed():
    devcluster("up", "1")
    devcluster("slurm")
    before = {p.name: (p / "pid").read_text() for p in (STATE / "proc").iterdir()}
    for text in before.values():
        os.kill(int(text.split()[0]), signal.SIGKILL)
    devcluster("up", "1")
    devcluster("slurm")
    for p in (STATE / "proc").iterdir():
        assert (p / "pid").read_text() != before[p.name], p.name
    assert "DEAD" not in devcluster("status").stdout


def test_up_and_slurm_twice_change_nothing():
    devcluster("up", "1")
    devcluster("slurm")
    before = {p.name: (p / "pid").read_text() for p in (STATE / "proc").iterdir()}
    devcluster("up", "1")
    devcluster("slurm")
    assert before == {p.name: (p / "pid").read_text() for p in (STATE / "proc").iterdir()}


@pytest.mark.parametrize("after", [0.4, 3])
def test_an_interrupted_up_is_replaced(after):
    up = subprocess.Popen([DEVCLUSTER, "up", "1"], env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(after)
    os.killpg(up.pid, signal.SIGKILL)
    up.wait()
    devcluster("up", "1")
    assert "n1" in devcluster("run", "kubectl", "get", "nodes").stdout


@pytest.mark.parametrize("damage", ["kill all", "forget state", "forget network"])
def test_down_leaves_nothing(damage):
    devcluster("up", "1")
    devcluster("slurm")
    devcluster("run", "kubectl", "create", "deployment", "sleeper", "--image=busybox:stable", "--", "sleep", "1000")
    devcluster("run", "kubectl", "wait", "--for=condition=Available", "deployment/sleeper", "--timeout=180s")
    if damage == "kill all":
        for pid in processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    elif damage == "forget state":
        subprocess.run(["rm", "-rf", STATE / "proc", STATE / "complete"], check=True)
    else:
        subprocess.run(["ip", "netns", "del", NAME], check=True)
    devcluster("down")
    eventually(lambda: not traces(), f"nothing is left: {traces()}")
