"""A KServe v2 client for tests: shows everything of an answer, checks what must always hold."""
import http.client
import json
import socket

import numpy as np

NAMES = {"bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32",
         "uint64": "UINT64", "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
         "float16": "FP16", "float32": "FP32", "float64": "FP64", "object": "BYTES"}
DTYPES = {name: np.dtype(dtype) for dtype, name in NAMES.items() if dtype != "object"}
DTYPES["BF16"] = np.dtype("uint16")  # numpy has no bfloat16: its bits


def pack_bytes(elements):
    """BYTES: each element's length in 4 little-endian bytes, then the element."""
    return b"".join(len(e).to_bytes(4, "little") + e for e in elements)


def unpack_bytes(raw):
    elements = []
    while raw:
        size = int.from_bytes(raw[:4], "little")
        elements.append(raw[4:4 + size])
        raw = raw[4 + size:]
    return elements


def raw(array):
    if array.dtype == object:
        return pack_bytes(array.ravel())
    return np.ascontiguousarray(array).tobytes()


def json_data(array):
    """The elements, flat; a float32 is written so that it reads back exactly."""
    if array.dtype == object:
        return [element.decode() for element in array.ravel()]
    if array.dtype == np.float32:
        return [float(str(value)) for value in array.ravel()]
    return array.ravel().tolist()


class Answer:
    """Status, headers and body; of an inference also `outputs` and `parameters`."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json_size(self):
        return int(self.headers.get("Inference-Header-Content-Length", len(self.body)))

    @property
    def json(self):
        return json.loads(self.body[:self.json_size], parse_constant=refuse_constant)

    @property
    def error(self):
        """The error's text, after the form that every error must have was checked."""
        assert self.headers["Content-Type"] == "application/json", self.headers.items()
        said = self.json
        assert list(said) == ["error"] and isinstance(said["error"], str) and said["error"], said
        return said["error"]

    @property
    def parameters(self):
        return self.json["parameters"]

    @property
    def outputs(self):
        """Arrays by name, in the response's order, from JSON or from the binary part."""
        assert self.status == 200, self.body[:500]
        found, at = {}, self.json_size
        for output in self.json["outputs"]:
            size = output.get("parameters", {}).get("binary_data_size")
            if size is not None:
                assert "data" not in output, output["name"]
                data, at = self.body[at:at + size], at + size
                if output["datatype"] == "BYTES":
                    array = np.array(unpack_bytes(data) + [None], object)[:-1]
                else:
                    array = np.frombuffer(data, DTYPES[output["datatype"]])
            elif output["datatype"] == "BYTES":
                array = np.array([e.encode() for e in output["data"]] + [None], object)[:-1]
            else:
                array = np.array(output["data"], DTYPES[output["datatype"]])
            found[output["name"]] = array.reshape(output["shape"])
        assert at == len(self.body), f"{len(self.body) - at} bytes left over"
        return found


def refuse_constant(name):
    raise AssertionError(f"the JSON holds {name}, which is not JSON")


def encode(inputs, binary=True, outputs=None, binary_output=None, parameters=None,
           request_id=None, datatypes=None):
    """An inference request as (headers, body).

    @param inputs arrays by name (object arrays of bytes for BYTES)
    @param binary whether inputs travel behind the JSON: True, False, or the names that do
    @param outputs names wanted, or a dict from name to its `binary_data`; None: not said
    @param binary_output the request-wide `binary_data_output`; None: not said
    """
    binary = set(inputs) if binary is True else set(binary or ())
    tensors, behind = [], []
    for name, array in inputs.items():
        datatype = (datatypes or {}).get(name) or NAMES[str(array.dtype)]
        tensor = {"name": name, "shape": list(array.shape), "datatype": datatype}
        if name in binary:
            behind.append(raw(array))
            tensor["parameters"] = {"binary_data_size": len(behind[-1])}
        else:
            tensor["data"] = json_data(array)
        tensors.append(tensor)
    request = {"inputs": tensors}
    if request_id is not None:
        request["id"] = request_id
    if outputs is not None:
        request["outputs"] = [{"name": name} for name in outputs]
        if isinstance(outputs, dict):
            for output in request["outputs"]:
                output["parameters"] = {"binary_data": outputs[output["name"]]}
    parameters = dict(parameters or {})
    if binary_output is not None:
        parameters["binary_data_output"] = binary_output
    if parameters:
        request["parameters"] = parameters
    header = json.dumps(request).encode()
    headers = {"Content-Type": "application/json"}
    if binary:
        headers = {"Content-Type": "application/octet-stream",
                   "Inference-Header-Content-Length": str(len(header))}
    return headers, header + b"".join(behind)


class Client:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def connection(self, limit_s=60):
        return http.client.HTTPConnection(self.host, self.port, timeout=limit_s)

    def request(self, method, path, body=None, headers=None, connection=None):
        """One exchange, on a connection of its own unless one is given."""
        own = connection is None
        connection = connection or self.connection()
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            if own:
                connection.close()

    def get(self, path, **rest):
        return self.request("GET", path, **rest)

    def post(self, path, body=b"", headers=None, **rest):
        return self.request("POST", path, body, headers, **rest)

    def infer(self, model, inputs, headers=None, connection=None, version=None, **how):
        """See `encode` for what `how` takes."""
        own_headers, body = encode(inputs, **how)
        path = f"/v2/models/{model}" + (f"/versions/{version}" if version else "")
        return self.post(f"{path}/infer", body, {**own_headers, **(headers or {})},
                         connection=connection)


def read_response(stream):
    """One HTTP response from a raw socket, or from its `makefile("rb")` when more will follow."""
    if isinstance(stream, socket.socket):
        stream = stream.makefile("rb")
    line = stream.readline().split(b" ", 2)
    assert line[0] in (b"HTTP/1.1", b"HTTP/1.0"), f"no response, but {line}"
    headers = http.client.parse_headers(stream)
    return Answer(int(line[1]), headers, stream.read(int(headers["Content-Length"])))


def closed_by_peer(sock, limit_s=10):
    """Whether the other side ends the connection in time; what it still sends is dropped."""
    sock.settimeout(limit_s)
    try:
        while sock.recv(65536):
            pass
        return True
    except ConnectionResetError:
        return True
    except socket.timeout:
        return False
