import time, pytest, shutil
from conftest import *
from test_faults import *
from test_faults import proxy, host, flow

@pytest.mark.parametrize("n", range(30))
def test_the_apiserver_is_restarted_again(flow, cluster, n):
    try:
        flow.start(14)
        flow.wait_done(2, "the first Jobs are complete")
        cluster.fault("apiserver", "kill")
        time.sleep(3)
        cluster.fault("etcd", "compact")
        cluster.fault("apiserver", "start")
        flow.finish()
    except AssertionError:
        shutil.copytree(LOGS / "bridge", LOGS / f"kept{n}", dirs_exist_ok=True)
        raise
