"""A gRPC client made of src/api/grpc/proto, with messages that protoc makes when it is imported."""
import importlib
import subprocess
import sys
import tempfile

import grpc
import numpy as np

import client
from server import ROOT

PROTO = [ROOT / "src" / "api" / "grpc" / "proto" / "grpc_service.proto",
         ROOT / "src" / "triton" / "proto" / "model_config.proto"]
SERVICE = "inference.GRPCInferenceService"
TYPED = {"BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents",
         "INT32": "int_contents", "INT64": "int64_contents", "UINT8": "uint_contents",
         "UINT16": "uint_contents", "UINT32": "uint_contents", "UINT64": "uint64_contents",
         "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents"}


def _messages():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", *(f"-I{file.parent}" for file in PROTO),
                        f"--python_out={folder}", *map(str, PROTO)], check=True)
        sys.path.insert(0, folder)
        sys.dont_write_bytecode = True
        try:
            return importlib.import_module("grpc_service_pb2")
        finally:
            sys.path.remove(folder)


pb = _messages()


def request(model, inputs, raw=True, outputs=(), parameters=None, request_id="", datatypes=None):
    """A ModelInferRequest. `raw`: False sends typed contents. Parameters take int, bool, str."""
    message = pb.ModelInferRequest(model_name=model, id=request_id)
    for name, array in inputs.items():
        datatype = (datatypes or {}).get(name) or client.NAMES[str(array.dtype)]
        tensor = message.inputs.add(name=name, datatype=datatype, shape=array.shape)
        if raw:
            message.raw_input_contents.append(client.raw(array))
        else:
            getattr(tensor.contents, TYPED[datatype]).extend(array.ravel().tolist())
    for name in outputs:
        message.outputs.add(name=name)
    for name, value in (parameters or {}).items():
        set_parameter(message.parameters[name], value)
    return message


def set_parameter(parameter, value):
    kind = {bool: "bool_param", int: "int64_param", str: "string_param"}[type(value)]
    setattr(parameter, kind, value)


def outputs(response):
    """Arrays by name, in the response's order."""
    assert len(response.outputs) == len(response.raw_output_contents)
    found = {}
    for output, data in zip(response.outputs, response.raw_output_contents):
        if output.datatype == "BYTES":
            array = np.array(client.unpack_bytes(data) + [None], object)[:-1]
        else:
            array = np.frombuffer(data, client.DTYPES[output.datatype])
        found[output.name] = array.reshape(list(output.shape))
    return found


def parameters(response):
    return {name: getattr(value, value.WhichOneof("parameter_choice"))
            for name, value in response.parameters.items()}


class GrpcClient:
    def __init__(self, port):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[
            ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
            ("grpc.enable_http_proxy", 0)])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def method(self, name):
        """A callable for one unary call of the service."""
        response = getattr(pb, f"{name}Response")
        kind = self.channel.unary_unary
        return kind(f"/{SERVICE}/{name}", request_serializer=lambda m: m.SerializeToString(),
                    response_deserializer=response.FromString)

    def call(self, name, message=None, timeout=60, **rest):
        message = message or getattr(pb, f"{name}Request")()
        return self.method(name)(message, timeout=timeout, **rest)

    def infer(self, message, timeout=60, **rest):
        """(response, trailing metadata as a dict)"""
        response, call = self.method("ModelInfer").with_call(message, timeout=timeout, **rest)
        return response, dict(call.trailing_metadata())

    def refused(self, name, message=None, timeout=60, **rest):
        """(code, text) of a call that must fail."""
        try:
            answer = self.call(name, message, timeout, **rest)
        except grpc.RpcError as error:
            return error.code(), error.details()
        raise AssertionError(f"{name} was answered: {str(answer)[:500]}")

    def stream(self, messages, timeout=60, **rest):
        return self.channel.stream_stream(
            f"/{SERVICE}/ModelStreamInfer", request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=pb.ModelStreamInferResponse.FromString)(
                messages, timeout=timeout, **rest)

    def bytes_call(self, path, body, timeout=60):
        return self.channel.unary_unary(path)(body, timeout=timeout)

    def bytes_stream(self, path, body, timeout=60):
        """A call with one request and a stream of answers."""
        return self.channel.unary_stream(path)(body, timeout=timeout)
