"""Every call of the gRPC service and its HTTP twin: both do the same and say the same."""
import json
import os
from dataclasses import dataclass, field

import pytest
from google.protobuf import json_format

from conftest import LEAVE
from grpc_client import SERVICE, pb

MODEL = "identity_fp32"


@dataclass
class Twin:
    """A call, its message, and the HTTP request that means the same."""
    call: str
    message: dict = field(default_factory=dict)
    path: str = ""
    method: str = "GET"
    body: object = None
    holds: tuple = ()  # what the answer must say


REGION = {"key": f"/gradus-conformance-{os.getpid()}", "offset": 16, "byte_size": 64}
TWINS = [
    Twin("ServerLive", {}, "/v2/health/live", holds=(("live", True),)),
    Twin("ServerReady", {}, "/v2/health/ready", holds=(("ready", True),)),
    Twin("ServerMetadata", {}, "/v2", holds=(("name", "gradus"),)),
    Twin("ModelReady", {"name": MODEL}, f"/v2/models/{MODEL}/ready"),
    Twin("ModelReady", {"name": MODEL, "version": "1"}, f"/v2/models/{MODEL}/versions/1/ready"),
    Twin("ModelMetadata", {"name": MODEL}, f"/v2/models/{MODEL}", holds=(("name", MODEL),)),
    Twin("ModelMetadata", {"name": MODEL, "version": "1"}, f"/v2/models/{MODEL}/versions/1",
         holds=(("versions", [1]),)),
    Twin("ModelConfig", {"name": MODEL}, f"/v2/models/{MODEL}/config",
         holds=(("name", MODEL), ("backend", "onnxruntime"))),
    Twin("ModelConfig", {"name": MODEL, "version": "1"}, f"/v2/models/{MODEL}/versions/1/config"),
    Twin("ModelStatistics", {}, "/v2/models/stats"),
    Twin("ModelStatistics", {"name": MODEL}, f"/v2/models/{MODEL}/stats"),
    Twin("ModelStatistics", {"name": MODEL, "version": "1"},
         f"/v2/models/{MODEL}/versions/1/stats"),
    Twin("RepositoryIndex", {}, "/v2/repository/index", "POST", {}),
    Twin("RepositoryIndex", {"ready": True}, "/v2/repository/index", "POST", {"ready": True}),
    Twin("RepositoryModelUnload", {"model_name": MODEL}, f"/v2/repository/models/{MODEL}/unload",
         "POST", {}),
    Twin("RepositoryModelUnload", {"model_name": MODEL}, f"/v2/repository/models/{MODEL}/unload",
         "POST", {}),  # again
    Twin("RepositoryModelUnload", {"model_name": "nosuch"}, "/v2/repository/models/nosuch/unload",
         "POST", {}),
    Twin("RepositoryModelLoad", {"model_name": MODEL}, f"/v2/repository/models/{MODEL}/load",
         "POST", {}),
    Twin("SystemSharedMemoryRegister", {"name": "region", **REGION},
         "/v2/systemsharedmemory/region/region/register", "POST", REGION),
    Twin("SystemSharedMemoryStatus", {}, "/v2/systemsharedmemory/status",
         holds=(("region", {"name": "region", **REGION}),)),
    Twin("SystemSharedMemoryStatus", {"name": "region"},
         "/v2/systemsharedmemory/region/region/status"),
    Twin("SystemSharedMemoryUnregister", {"name": "region"},
         "/v2/systemsharedmemory/region/region/unregister", "POST", {}),
    Twin("SystemSharedMemoryUnregister", {}, "/v2/systemsharedmemory/unregister", "POST", {}),
    Twin("CudaSharedMemoryStatus", {}, "/v2/cudasharedmemory/status"),
    Twin("CudaSharedMemoryUnregister", {}, "/v2/cudasharedmemory/unregister", "POST", {}),
    Twin("TraceSetting", {}, "/v2/trace/setting"),
    Twin("TraceSetting", {"model_name": MODEL}, f"/v2/models/{MODEL}/trace/setting"),
    Twin("TraceSetting", {"settings": {"trace_rate": {"value": ["500"]}}}, "/v2/trace/setting",
         "POST", {"trace_rate": "500"}, holds=(("trace_rate", 500),)),
    Twin("LogSettings", {}, "/v2/logging"),
    Twin("LogSettings", {"settings": {"log_verbose_level": {"uint32_param": 0}}}, "/v2/logging",
         "POST", {"log_verbose_level": 0}),
]
# What the two say at two moments is not the same: these are looked at elsewhere.
MOVING = {"last_inference", "inference_count", "execution_count", "inference_stats", "batch_stats",
          "gradus_levels"}
# What a message leaves out, the first values of enums too; JSON may say it.
NOTHING = (None, "", [], {}, False, 0, "FORMAT_NONE", "REJECT", "KIND_AUTO")
ELSEWHERE = {"ModelInfer", "ModelStreamInfer"}  # test_datatypes.py
REFUSED = {"CudaSharedMemoryRegister"}  # test_errors.py


def plain(value):
    """One form for both: no empty members, numbers as numbers, no wrapping of single values."""
    if isinstance(value, dict):
        if len(value) == 1:
            (name, inner), = value.items()
            if name in ("value", "bool_param", "uint32_param", "string_param"):
                single = isinstance(inner, list) and len(inner) == 1
                return plain(inner[0] if single else inner)
            if name in ("config", "models", "regions", "settings") and isinstance(
                    inner, (dict, list)):
                return plain(inner)
        members = {name: plain(inner) for name, inner in value.items() if name not in MOVING}
        return {name: inner for name, inner in members.items() if inner not in NOTHING}
    if isinstance(value, list):
        items = [plain(item) for item in value]
        if items and all(isinstance(item, dict) and "key" in item for item in items):
            return {item["name"]: item for item in items}  # regions
        return items[0] if len(items) == 1 and not isinstance(items[0], (dict, int)) else items
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    return value


@pytest.fixture(scope="module", autouse=True)
def region():
    path = f"/dev/shm{REGION['key']}"
    with open(path, "wb") as made:
        made.truncate(128)
    yield
    os.unlink(path)


def over_http(gradus, twin):
    body = json.dumps(twin.body).encode() if twin.body is not None else None
    answer = gradus.client.request(twin.method, twin.path, body, {"Authorization": LEAVE})
    assert answer.status == 200, (twin.path, answer.body)
    found = (plain(answer.json) if answer.body else None) or {}
    if twin.call == "ModelReady":
        assert found.pop("name") == MODEL  # more than gRPC's message has room for
    return found


def over_grpc(rpc, twin):
    message = json_format.ParseDict(twin.message, getattr(pb, f"{twin.call}Request")())
    answer = rpc.call(twin.call, message, metadata=[("authorization", LEAVE)])
    return plain(json_format.MessageToDict(answer, preserving_proto_field_name=True)) or {}


@pytest.mark.parametrize("first", ["HTTP", "gRPC"])
def test_both_say_the_same(gradus, rpc, first):
    """In the table's order, since some undo what others did."""
    for twin in TWINS:
        changes = twin.call.endswith(("Register", "Unregister", "Load", "Unload"))
        if first == "HTTP":
            found = over_http(gradus, twin)
        else:
            found = over_grpc(rpc, twin)
        if not changes:
            other = over_grpc(rpc, twin) if first == "HTTP" else over_http(gradus, twin)
            assert found == other, twin
        if twin.call == "RepositoryModelLoad":
            gradus.wait_loaded(MODEL)
        for name, value in twin.holds:
            assert found.get(name) == value, (twin, found)


def test_no_call_of_the_service_is_forgotten():
    service = pb.DESCRIPTOR.services_by_name[SERVICE.split(".")[1]]
    assert {method.name for method in service.methods} == \
        {twin.call for twin in TWINS} | ELSEWHERE | REFUSED


def test_extensions_are_those_that_work(gradus):
    assert set(gradus.client.get("/v2").json["extensions"]) == {
        "binary_tensor_data", "classification", "logging", "model_configuration",
        "model_repository", "parameters", "schedule_policy", "statistics",
        "system_shared_memory", "trace"}


def test_a_broken_model_is_listed_and_spoils_no_statistics(gradus):
    listed = gradus.client.get("/v2/models").json["models"]
    assert {MODEL, "busy", "broken"} <= set(listed)
    counted = gradus.client.get("/v2/models/stats").json["model_stats"]
    assert {stats["name"] for stats in counted} >= set(listed) - {"broken"}


def test_health_checks_of_grpc_know_the_service(rpc):
    assert rpc.bytes_call("/grpc.health.v1.Health/Check", b"") in (b"\x08\x01", b"\x08\x02")
