"""Prometheus' own judgement of rules, where promtool is there (build/promtool by `make deps`, or PROMTOOL)."""
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

BUILT = pathlib.Path(__file__).resolve().parents[3] / "build/promtool"
PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool") or (str(BUILT) if BUILT.exists() else None)
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool (make deps brings it)")


def promtool(*args):
    """"" when promtool is content, else what it says."""
    done = subprocess.run([PROMTOOL, *map(str, args)], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def fired(folder, spec, series, after):
    """Names of the alerts that fire a given time after these series ({series: values a minute}) began."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(spec))
    test = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [{
        "interval": "1m", "input_series": [{"series": name, "values": values} for name, values in series.items()],
        # promtool compares with what is expected and tells the difference; nothing is expected of an alert that is told
        "promql_expr_test": [{"expr": 'group by (alertname) (ALERTS{alertstate="firing"})', "eval_time": after, "exp_samples": []}]}]}
    (folder / "test.yaml").write_text(yaml.safe_dump(test))
    said = promtool("test", "rules", folder / "test.yaml")
    got = said.partition("got:")[2]
    assert got or not said, said
    return {part.split('"')[0] for part in got.split('alertname="')[1:]}
