"""What holds of the values of every chart."""
import json
import re
import shutil

import pytest
import yaml

from helm import Chart, find, helm, needs_helm

pytestmark = needs_helm
# What is there to be rendered, for values whose default is nothing.
ON = {
    "slurm-operator": ('webhook={"podsBinding":true,"pdb":{"enabled":true},"replicas":2}', "operator.pdb.enabled=true", "webhook.metricsPort=8080",
                       "serviceMonitor.enabled=true", "prometheusRule.enabled=true", "grafana.dashboard.enabled=true"),
    "slurm-bridge": ("serviceMonitor.enabled=true", "prometheusRule.enabled=true", "grafana.dashboard.enabled=true", "admission.pdb.enabled=true"),
    "slurm": ('nodesets={"a":{"ssh":{"enabled":true}}}', 'loginsets={"b":{}}', "accounting.enabled=true", "partitions.all.enabled=true",
              "vendor.nvidia.dcgm.enabled=true", "priorityClass.enabled=true", "priorityClass.create=true", "restapi.pdb.enabled=true"),
}
# What there is no default for is asked for by name; without enabled nothing would be rendered.
NEEDED = {"enabled", "image", "repository", "tag", "digest", "nodesets"}


def paths(values, path=()):
    for key, value in values.items():
        yield (*path, key), value
        if isinstance(value, dict) and key not in ("image", "nodeSelector", "resources"):
            yield from paths(value, (*path, key))


def null(path):
    return ".".join(key.replace(".", "\\.") for key in path) + "=null"


def cases():
    for name in ON:
        default = yaml.safe_load((Chart(name).folder / "values.yaml").read_text())
        maps = [path for path, value in paths(default) if value and isinstance(value, dict)]
        yield pytest.param(name, [path for path, _ in paths(default) if path not in maps and path[-1] not in NEEDED and path != ("sssd", "conf")], id=f"{name}-all")
        for path in maps:
            yield pytest.param(name, [path], id=f"{name}-{'.'.join(path)}")


@pytest.mark.parametrize("name,nulled", list(cases()))
def test_null_takes_a_default_away_and_breaks_nothing(name, nulled):
    """What cannot be done without is asked for with a sentence, not with an error of the template."""
    done = Chart(name).helm([*ON[name], *map(null, nulled)], (), ())
    if done.returncode:
        assert re.search(r"\bneed(s|ed)\b|is required", done.stderr) and "nil" not in done.stderr.rpartition("Error:")[2], done.stderr
        return
    assert not re.search(r"nil>|%!|<no value>|--[a-z-]+=:?$|: null$|^ *null$", done.stdout, re.M), done.stdout
    assert all(one["metadata"]["name"] for one in yaml.safe_load_all(done.stdout) if one)


@pytest.mark.parametrize("kind", ["nodeset", "loginset"])
def test_null_in_an_entry_takes_a_default_away(kind):
    schema = json.loads((Chart("slurm").folder / "values.schema.json").read_text())["definitions"]
    images = {"slurmd", "logfile", "login", "initconf", "enabled"}
    text = Chart("slurm").render(f"{kind}s.a=" + json.dumps({key: None for key in schema[kind]["properties"] if key not in images}))
    (made,) = [one for one in yaml.safe_load_all(text) if one and one["metadata"]["name"].endswith("-a")]
    assert None not in made["spec"].values() and "replicas" not in made["spec"]


def nulls(value, path=""):
    if isinstance(value, dict):
        return [found for key, one in value.items() for found in nulls(one, f"{path}.{key}")]
    if isinstance(value, list):
        return [found for one in value for found in nulls(one, path + "[]")]
    return [path] if value is None else []


def test_null_deep_inside_is_not_said():
    """The schema takes it there, and the API server does not."""
    service = {"port": None, "nodePort": None, "spec": {"type": None}, "metadata": {"labels": None}}
    pod = {"affinity": None, "containers": [{"name": "x", "resources": {"limits": None}}], "volumes": [{"name": "v", "emptyDir": {}}]}
    update = {"type": None, "rollingUpdate": {"maxUnavailable": None}, "scheduledUpdate": {"startTime": None, "flags": None}}
    values = {
        "controller": {"service": service, "podSpec": pod, "persistence": {"resources": {"requests": None}}, "metrics": {"serviceMonitor": {"labels": None}}},
        "restapi": {"service": service}, "accounting": {"enabled": True, "service": service}, "loginsets": {"a": {"service": service, "strategy": {"rollingUpdate": None}}},
        "nodesets": {"a": {"updateStrategy": update, "slurmd": {"resources": {"limits": None}}, "persistentVolumeClaimRetentionPolicy": {"whenScaled": None}}}}
    text = Chart("slurm").render(*(f"{key}={json.dumps(value)}" for key, value in values.items()))
    made = [one for one in yaml.safe_load_all(text) if one and one["apiVersion"].startswith("slinky")]
    assert len(made) == 5 and [path for one in made for path in nulls(one)] == []
    assert find(text, "Controller", "test-release-slurm")["spec"]["template"]["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}], "what is empty is said"


@pytest.mark.parametrize("name", ON)
def test_a_chart_of_charts_may_switch_it(name, tmp_path):
    """`condition: NAME.enabled`, as one writes it: the dependency sees the value too."""
    shutil.copytree(Chart(name).folder, tmp_path / "charts" / name)
    dependency = {"name": name, "version": "0.1.0", "condition": f"{name}.enabled"}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": "site", "version": "1.0.0", "dependencies": [dependency]}))
    for enabled in (True, False):
        done = helm("template", "r", str(tmp_path), "--kube-version", "1.34.0", "--set-json", f"{name}.enabled={json.dumps(enabled)}")
        assert done.returncode == 0, done.stderr
        assert bool([one for one in yaml.safe_load_all(done.stdout) if one]) == enabled


def test_notes_warn_while_anybody_may_be_anyone(tmp_path):
    """Helm shows notes only where it can ask a cluster: here they are an object."""
    chart = Chart("slurm-bridge")
    chart.folder = shutil.copytree(chart.folder, tmp_path / "slurm-bridge")
    (chart.folder / "templates/notes.yaml").write_text(
        'kind: ConfigMap\nmetadata: {name: notes}\ndata: {text: {{ include "slurm-bridge/templates/NOTES.txt" . | toJson }}}\n')

    def notes(*sets):
        return find(chart.render(*sets), "ConfigMap", "notes")["data"]["text"]
    assert "WARNING: sharedConfig.identities is empty" in notes()
    assert "identities" not in notes('sharedConfig.identities=[{"namespaces":["*"],"users":["a"]}]')
