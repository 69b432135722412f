import pytest

from apiserver import MISSING, ApiServer


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    if MISSING:
        pytest.skip(f"no {', '.join(MISSING)} (tools/devcluster build makes them)")
    with ApiServer(tmp_path_factory.mktemp("apiserver")) as server:
        yield server
