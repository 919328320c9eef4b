"""Fixtures of the end-to-end tests."""
import os

import pytest

from server import BINARY, DEMO_MODELS, TEST_MODELS, Server


def pytest_sessionstart():
    if not os.access(BINARY, os.X_OK):
        pytest.exit(f"{BINARY} is no program: build it first (./dev build)", returncode=1)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Puts the servers' logs below a failure."""
    report = (yield).get_result()
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            servers = value.servers if isinstance(value, Starter) else [value]
            for server in servers:
                if isinstance(server, Server):
                    report.sections.append((f"log of gradus ({name})", server.log[-6000:]))


class Leaving:
    """Servers whose tests are over. Each drains until it has been quiet for two seconds, in which
    the next test may begin; that all have ended well is seen then, or when the last test is over."""

    MOST = 4  # at once

    def __init__(self):
        self._servers = []

    def add(self, test, servers):
        for server in servers:
            if server.process.returncode is None:
                server.terminate()
                self._servers.append((test, server))
        faults = ""
        while self._servers and (len(self._servers) > self.MOST or not self._servers[0][1].alive()):
            faults += self._fault_of_first()
        assert not faults, faults

    def end(self):
        faults = ""
        while self._servers:
            faults += self._fault_of_first()
        assert not faults, faults

    def _fault_of_first(self):
        test, server = self._servers.pop(0)
        try:
            server.must_end_well()
        except AssertionError as error:
            return f"of {test}: {error}\n"
        return ""


@pytest.fixture(scope="session")
def leaving():
    servers = Leaving()
    yield servers
    servers.end()


class Starter:
    """Calls start a server; all are stopped, and must stop well, after the test's end."""

    def __init__(self):
        self.servers = []

    def __call__(self, *arguments, **keywords):
        self.servers.append(Server(*arguments, **keywords))
        return self.servers[-1]


@pytest.fixture
def start(request, leaving):
    starter = Starter()
    yield starter
    leaving.add(request.node.nodeid, starter.servers)


def link_models(root, models):
    """Folders under names of their own, as a model repository; returns `root`."""
    root.mkdir(exist_ok=True)
    for name, folder in models.items():
        (root / name).symlink_to(folder)
    return root


KEEP_ALL = """\
default_levels:
  cpu: {keep: always}
  cpu-int8: {keep: always}
  cpu-small: {keep: always}
"""


def keep_every_level(root, *names):
    """The demo's models with no level left out, however busy the machine is while they load."""
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "1").symlink_to(DEMO_MODELS / name / "1")
        (root / name / "gradus.yaml").write_text(KEEP_ALL)
    return root


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo's models and two of the tests', on CPU levels only, every level loaded."""
    root = keep_every_level(tmp_path_factory.mktemp("models"), "upscale", "fashion", "langid")
    link_models(root, {name: TEST_MODELS / name for name in ("every_type", "scalar")})
    server = Server(root, "--providers", "cpu")
    try:
        server.wait_loaded("upscale", "fashion", "langid")
        yield server
        server.stop()
    finally:
        server.kill()


@pytest.fixture
def repository(tmp_path):
    """Makes a model repository of linked folders: `repository(name=folder, …)`."""
    return lambda **models: link_models(tmp_path / "models", models)
