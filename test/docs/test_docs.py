"""The documentation against the source: every reason explained, every quoted text really written, every annotation and flag known (W64)."""
import os
import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/why-does-my-pod-wait.md").read_text()
BRIDGE = ROOT / "src/bridge"
PAGES = sorted(p for p in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy/charts").glob("*/README.md")])
EXAMPLES = sorted((ROOT / "docs/examples").glob("*.yaml"))
# Where reasons of conditions and events are made.
PLAN = ["unit_plan.cpp", "unit_submit.cpp", "unit_bind.cpp", "scheduler_act.cpp"]
SOURCES = [*PLAN, "scheduler.cpp", "waiting_notes.cpp", "pod_plan.cpp", "pod_sync.cpp", "node_plan.cpp", "node_sync.cpp", "node_condition.cpp", "group_status.cpp"]
# Words of the same form there that are no reasons: kinds and fields of objects, an event's action, Slurm's words.
OTHERS = {"Node", "Pod", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "DisruptionTarget", "PodGroup", "LeaderWorkerSet", "Binding", "PodScheduled", "PodGroupScheduled", "SlurmReady", "NoExecute", "Failed", "Succeeded", "True", "False", "None",
          "Submitting", "Cancelling", "Scheduling", "Watching", "Deleting", "Syncing", "DRAIN", "UNDRAIN", "DOWN", "RESUME"}


def text_of(file):
    """Source with neighbouring string literals joined, as the compiler sees them."""
    return re.sub(r'"\s*(?:\+\s*)?"', "", file.read_text())


def reasons():
    found = set()
    for name in SOURCES:
        text = re.sub(r"^#include.*$", "", text_of(BRIDGE / name), flags=re.M)
        words = set(re.findall(r'"([A-Z][A-Za-z]+)"', text)) - OTHERS
        found |= {"Slurm" + word for word in words} | words if name == "node_condition.cpp" else words
    return found


def test_reasons_are_found():
    assert {"Unschedulable", "SubmitInDoubt", "NodeRefused", "NoSlurmJob", "SlurmNodeForeign", "Drained", "SlurmDrained", "Scheduled"} <= reasons()
    assert len(reasons()) > 45


def test_every_reason_is_explained():
    explained = set(re.findall(r"`([A-Z][A-Za-z]+)`", PAGE))
    missing = reasons() - explained - {"Slurm", "SlurmJob"}  # SlurmJobSUSPENDED and the like are explained as such
    assert not missing
    assert "`SlurmJobSUSPENDED`" in PAGE and '"SlurmJob" + std::string(slurm::to_string' in (BRIDGE / "unit_plan.cpp").read_text()


def test_every_wait_has_a_row():
    """Each reason that the scheduler tells pods is the first cell of a row of the first table."""
    table = PAGE.split("## Reasons of the condition PodScheduled")[1].split("###")[0]
    rows = set(re.findall(r"^\| `(\w+)`", table, re.M))
    source = "".join(text_of(BRIDGE / name) for name in PLAN)
    told = set(re.findall(r'wait\([\w.]+, "(\w+)"', source)) | set(re.findall(r'(?:Waiting|return|tell\() ?\{"(\w+)"', source)) - {"SlurmJob"}
    assert len(told) >= 12
    assert told - rows - {"SlurmJob"} == set()


def test_quotes_are_what_is_written():
    """In the columns "it says": each piece between the … stands in the source."""
    source = "\n".join(text_of(file) for file in BRIDGE.glob("*.cpp") if not file.name.endswith("_test.cpp"))
    quoted, column = 0, None
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("| `"):
            column = cells.index("it says") if "it says" in cells else column if line.startswith("|-") else None
            continue
        for quote in re.findall(r"`([^`]+ [^`]+)`", cells[column] if column is not None else ""):
            for piece in (p.strip(" ,;:()") for p in quote.split("…")):
                if len(piece) < 5:
                    continue
                quoted += 1
                assert piece in source, f"nobody says: {piece!r} ({line[:60]})"
    assert quoted > 60


def known_annotations():
    text = (BRIDGE / "description.cpp").read_text()
    return set(re.findall(r'\{"([a-z-]+)", (?:set|check)_', text))


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES, ROOT / "deploy/charts/slurm-bridge/templates/NOTES.txt"], ids=lambda p: str(p.relative_to(ROOT)))
def test_annotations_are_known(path):  # W64
    text = path.read_text()
    known = known_annotations()
    assert len(known) == 18
    assert set(re.findall(r"slurmjob\.slinky\.slurm\.net/([a-z-]+)", text)) - known == set()
    names = (BRIDGE / "names.hpp").read_text()
    for key in re.findall(r"\b((?:scheduler|topology)\.slinky\.slurm\.net/[a-z-]*[a-z])", text):
        assert f'"{key}"' in names, key
    for key in re.findall(r"(?<![.\w])slinky\.slurm\.net/(?!v\d)([a-z-]*[a-z])", text):
        assert f'"slinky.slurm.net/{key}"' in names or key.startswith("minimum-"), f"slinky.slurm.net/{key} is the retired prefix"


def test_every_annotation_has_a_row():
    table = (ROOT / "docs/annotations.md").read_text().split("\n## ")[0]
    rows = [name for cell in re.findall(r"^\| (`[^|]*) \|", table, re.M) for name in re.findall(r"`([a-z-]+)`", cell)]
    assert sorted(rows) == sorted(known_annotations())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_examples_are_manifests(path):
    text = path.read_text()
    assert text.startswith("# "), "an example says what it shows"
    for one in yaml.safe_load_all(text):
        assert one["metadata"]["namespace"] == "slurm-bridge"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_the_migration_guide_names_what_exists():
    guide = (ROOT / "docs/migration.md").read_text()
    values = yaml.safe_load((ROOT / "deploy/charts/slurm-bridge/values.yaml").read_text())
    paths = set(re.findall(r"`((?:scheduler|schedulerConfig|admission|controllers|sharedConfig|grafana|prometheusRule)(?:\.\w+)+)`", guide))
    assert len(paths) >= 5
    for path in paths:
        at = values
        for key in path.split("."):
            assert key in at, path
            at = at[key]
    program = (ROOT / "src/app/command_line.cpp").read_text()
    flags = set(re.findall(r"`(--[a-z-]+)", guide))
    assert len(flags) >= 6 and [f for f in flags if f not in program] == []
    for path in re.findall(r"`((?:src|deploy|test|docs|tools)/[\w./-]+)`", guide):
        assert (ROOT / path).exists(), path


def test_the_readme_lists_the_pages():
    readme = (ROOT / "README.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.name}" in readme, page.name


def test_one_version_everywhere():
    """What a page says to push is what the charts ask for when no tag is named."""
    version = (ROOT / "VERSION").read_text().strip()
    for chart in ["slurm-bridge", "slurm-operator"]:
        assert yaml.safe_load((ROOT / f"deploy/charts/{chart}/Chart.yaml").read_text())["appVersion"] == version
    for path in PAGES:
        assert set(re.findall(r"/bascule:([\w.]+)", path.read_text().replace("localhost/bascule:dev", ""))) <= {version}, path


def test_values_are_kept_as_a_file_that_helm_takes():
    """Without -o yaml the first line is USER-SUPPLIED VALUES:, which the charts' schemas refuse."""
    for path in PAGES:
        for line in re.findall(r"helm get values[^`\n]*", path.read_text()):
            assert "-o yaml" in line, path


def operator_reasons():
    """Reasons of conditions and events, as the operator's source spells them."""
    found = set()
    for room, files in [("reconcile", "*.[ch]pp"), ("nodeset", "*.[ch]pp"), ("api", "reasons.hpp")]:
        for file in (ROOT / "src/operator" / room).glob(files):
            if "test" in file.name or "sim_" in file.name:
                continue
            text = re.sub(r"\s+", " ", text_of(file))
            for pattern in [r'faults\.push_back\(\{(.*?),', r'(?:kControllerMissing|kBadSpec|kSlurmUnknown|kEvent) = (.*?);', r'\bsay\((?:true, |false, )?("\w+")',
                            r'\bevent\([^;"]*?("[A-Z]\w+"(?: : "\w+")?)', r'events\.push_back\( ?\{[\w ]+, ([^,]*),', r'\breason = ([^;,}]*)', r'degraded \? reason : (.*?),']:
                for words in re.findall(pattern, text):
                    found |= set(re.findall(r'"([A-Z][A-Za-z ]+)"', words))
    return found - {"Sync"}  # an action


def test_every_reason_of_the_operator_is_explained():
    page = (ROOT / "docs/operator.md").read_text().split("## What the conditions say")[1].split("\n## ")[0]
    explained = set(re.findall(r"`([A-Z][A-Za-z ]+)`", page)) - {"Degraded", "ReservationCreated"}
    found = operator_reasons()
    assert {"Ready", "Waiting", "AsExpected", "BadSpec", "NameTaken", "Expired", "ControllerMissing", "AsSpecified", "NotExists", "JobsAtRisk", "ScalingUp", "Scheduled Update"} <= found
    assert explained == found


WEAKNESSES = {"": [str(n) for n in range(1, 65)], "A": [f"A{n}" for n in range(1, 63)],
              "S": sorted([*(f"S{n}" for n in range(1, 48)), "S4b"], key=lambda s: (int(re.search(r"\d+", s)[0]), s))}


@pytest.mark.parametrize("letter", WEAKNESSES)
def test_every_weakness_has_a_test_that_exists(letter):
    rows = re.findall(rf"^\| ({letter}\d+b?) \| .* \| `(.*)` \|$", (ROOT / "docs/weaknesses.md").read_text(), re.M)
    assert [number for number, _ in rows] == WEAKNESSES[letter]
    sources = [*(ROOT / "src").rglob("*_test.cpp"), *(ROOT / "test").rglob("test_*.py"), *(ROOT / "deploy/charts/tests").glob("test_*.py")]
    texts = {path.name: path.read_text() for path in sources if path.suffix == ".py"}
    tests = "\n".join(path.read_text() for path in sources if path.suffix == ".cpp")
    for number, name in rows:
        if ".py " in name:
            where, test = name.split(" ")
            assert re.search(rf"def {test}\(", texts[where]), f"{number}: {name}"
        elif "." in name:
            where, test = name.split(".")
            assert re.search(rf"TEST(_F|_P)?\({where},\s+{test}\)", tests), f"{number}: {name}"
        else:
            assert re.search(rf"def {name}\(", "\n".join(texts.values())), f"{number}: {name}"


@pytest.mark.parametrize("name", ["keda.yaml", "hpa.yaml"])
def test_autoscalers_ask_for_metrics_that_slurmctld_has(name):
    """The names in slurmctld's own plugin, as the development cluster has it."""
    cache = pathlib.Path(os.environ.get("DEVCLUSTER_CACHE", pathlib.Path.home() / ".cache/devcluster"))
    plugins = list((cache / "slurm26/usr/lib").glob("*/slurm-wlm/metrics_openmetrics.so"))
    if not plugins:
        pytest.skip("the development cluster's Slurm is not built")
    text = (ROOT / "docs/examples/operator" / name).read_text()
    asked = set(re.findall(r"\bslurm_[a-z_]+", text))
    assert asked
    words = set(plugins[0].read_bytes().split(b"\0"))
    assert {word.encode() for word in asked | {"partition"}} <= words, asked
    target = yaml.safe_load(text)["spec"]["scaleTargetRef"]
    assert (target["apiVersion"], target["kind"]) == ("slinky.slurm.net/v1beta1", "NodeSet")


@pytest.mark.parametrize("chart,page", [("slurm-bridge", "bridge.md"), ("slurm-operator", "operator.md")])
def test_every_alert_says_what_to_do(chart, page):
    rules = (ROOT / "deploy/charts" / chart / "templates/prometheusrule.yaml").read_text()
    page = (ROOT / "docs" / page).read_text().partition("## When an alert fires")[2]
    alerts = set(re.findall(r"- alert: (\w+)", rules))
    assert len(alerts) > 10
    assert alerts - set(re.findall(r"`(Bascule\w+)`", page)) == set()


def test_no_reason_is_explained_twice():
    """A reason may have several rows of a table, each with another text."""
    for table in re.split(r"\n\n+", PAGE):
        rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line.startswith("| `")]
        said = [(reason, re.split("[,;]", text)[0][:17]) for reason, text, *_ in rows]
        assert {one for one in said if said.count(one) > 1} == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_is_said_twice(path):
    """As when a merge keeps both sides of a line that was changed."""
    for section in re.split(r"^#+ .*$", path.read_text(), flags=re.M):
        said = [line[:60] for line in section.splitlines() if len(line) > 60 and line.startswith(("- ", "| "))]
        numbers = re.findall(r"^- ((?:[WAS]\d+b?(?:, )?)+):", section, re.M)
        for kind in (said, numbers):
            assert {one for one in kind if kind.count(one) > 1} == set()


def test_clean_up_ends_no_native_job():
    """Hybrid nodes take native jobs in the same partition, and pods' jobs may be in any."""
    for path in PAGES:
        assert not re.search(r"scancel[^\n]*(?:--partition|-p )", path.read_text()), path


def test_the_recipe_of_simulate_has_what_the_owner_walk_reads():
    recipe = (ROOT / "docs/simulate.md").read_text().partition("To collect one:")[2].split("```")[1]
    rules = (ROOT / "deploy/charts/slurm-bridge/templates/rbac.yaml").read_text().partition("speak for a pod")[2].partition("storage.k8s.io")[0]
    kinds = {kind for group in re.findall(r"resources: \[([^\]]*)\], verbs: \[(?:get|list)", rules) for kind in group.split(", ")}
    assert {"replicasets", "statefulsets", "jobs", "workloads"} <= kinds
    assert {kind for kind in kinds if not re.search(rf"\b{kind}\b", recipe)} == set()


def test_the_token_alert_comes_when_the_page_says():
    rule = (ROOT / "deploy/charts/slurm-bridge/templates/prometheusrule.yaml").read_text()
    days, share = re.search(r"< (\d+) \* 86400\s+unless .* > ([\d.]+) \* min", rule).groups()
    page = (ROOT / "docs/bridge.md").read_text()
    life = int(re.search(r"lifespan=(\d+)", page)[1]) / 86400
    assert f"at the earliest {days} days before its end" in page
    assert min(int(days), float(share) * life) == 9 and "nine days before the end of this one" in page
