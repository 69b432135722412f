"""Prometheus' own judgement of rules, where promtool is there (Debian package prometheus, or PROMTOOL)."""
import os
import shutil
import subprocess

PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")


def check_rules(path):
    """"" when promtool is content or absent, else what it says."""
    if PROMTOOL is None:
        return ""
    done = subprocess.run([PROMTOOL, "check", "rules", str(path)], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr
