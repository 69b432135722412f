"""The last of the operator's tests."""

from conftest import DEVCLUSTER, run
from hpc import GROUP, NS
from waiting import eventually


def test_all_of_it_goes_when_the_chart_goes(installed_operator):
    """The last one: nothing waits for ever for a Slurm that is going, too."""
    run(DEVCLUSTER, "run", "helm", "uninstall", "-n", NS, "slurm")

    def gone():
        pods = [p.metadata.name for p in installed_operator.kube.core.list_namespaced_pod(NS, label_selector="app!=mariadb").items]
        assert not pods, f"pods are left: {pods}"
        for kind in ("controllers", "restapis", "accountings", "loginsets", "nodesets"):
            left = [i["metadata"]["name"] for i in installed_operator.custom.list_namespaced_custom_object(*GROUP, kind)["items"]]
            assert not left, f"{kind} are left: {left}"
        return True

    eventually(gone, "no pod and no object is left", every=0.5)
