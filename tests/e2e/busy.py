"""The test model `busy`: runs that take as long as a test wants."""
import numpy as np


def steps_for(server, run_s):
    """How many steps keep one core busy for so long on this machine."""
    server.wait_loaded("busy")
    runs_us = [server.client.infer("busy", inputs(2000), {"gradus-timeout-ms": "60000"})
               .parameters["run_us"] for _ in range(3)]
    return int(2000 * run_s / (min(runs_us) / 1e6)) + 1


def inputs(steps):
    return {"steps": np.array([steps], np.int64)}
