"""What a client of Gradus needs to know, in one function: JSON in front, raw tensors behind it.

The binary tensor extension of the KServe v2 protocol: the body is a JSON header, then the tensors'
bytes in the header's order; `Inference-Header-Content-Length` says where the JSON ends. Any other
KServe v2 client works as well.
"""
import argparse
import http.client
import json
import sys
import urllib.parse

import numpy as np

DTYPES = {"FP32": np.float32, "INT64": np.int64}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}


def infer(url, model, inputs, parameters):
    """Sends arrays by name; returns (outputs by name, the response's parameters).

    `parameters` travel with the request: `min_level`, `max_level` (which levels may answer),
    `timeout` (microseconds). Ends the program with one clear line when there is no answer.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    header = json.dumps({
        "inputs": [{"name": name, "shape": array.shape, "datatype": NAMES[array.dtype],
                    "parameters": {"binary_data_size": array.nbytes}}
                   for name, array in arrays.items()],
        "parameters": {"binary_data_output": True, **parameters},
    }).encode()
    body = header + b"".join(array.tobytes() for array in arrays.values())
    status, headers, answer = post(url, f"/v2/models/{urllib.parse.quote(model)}/infer", body,
                                   {"Content-Type": "application/octet-stream",
                                    "Inference-Header-Content-Length": str(len(header))})
    if status != 200:
        sys.exit(f"{model}: the server refused ({status}): {error_text(answer)}")
    at = int(headers.get("Inference-Header-Content-Length", len(answer)))
    response = json.loads(answer[:at])
    outputs = {}
    for output in response["outputs"]:
        size = output["parameters"]["binary_data_size"]
        outputs[output["name"]] = np.frombuffer(
            answer[at:at + size], DTYPES[output["datatype"]]).reshape(output["shape"])
        at += size
    return outputs, response["parameters"]


def post(url, path, body, headers):
    address = urllib.parse.urlsplit(url)
    if address.scheme != "http" or not address.hostname:
        sys.exit(f"--url {url}: must look like http://127.0.0.1:8000")
    connection = http.client.HTTPConnection(address.hostname, address.port or 80, timeout=120)
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    except ConnectionRefusedError:
        sys.exit(f"nothing listens at {url}: start a server with ./dev serve, "
                 "or give its address with --url")
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"no answer from {url}: {error or type(error).__name__}")
    finally:
        connection.close()


def error_text(answer):
    try:
        return json.loads(answer)["error"]
    except (ValueError, KeyError, TypeError):
        return answer[:200].decode(errors="replace")


def arguments(description, *positional):
    """The options that every demo script has; `positional` are (name, keywords) pairs."""
    parser = argparse.ArgumentParser(description=description)
    for name, keywords in positional:
        parser.add_argument(name, **keywords)
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="default: %(default)s")
    parser.add_argument("--min-level", type=int, metavar="N", help="best level that may answer")
    parser.add_argument("--max-level", type=int, metavar="N", help="worst level that may answer")
    parser.add_argument("--timeout-ms", type=float, metavar="MS", help="an answer in time or none")
    return parser.parse_args()


def parameters(given):
    """The request's parameters for what `arguments` parsed."""
    wanted = {"min_level": given.min_level, "max_level": given.max_level}
    if given.timeout_ms is not None:
        wanted["timeout"] = int(given.timeout_ms * 1000)
    return {key: value for key, value in wanted.items() if value is not None}


def origin(answered):
    """`level 1 (cpu, model.onnx), 151.3 ms`: who made the answer."""
    text = f"level {answered['level']} ({answered['level_name']}, {answered['variant']})"
    if answered["degraded"]:
        text += ", degraded"
    return f"{text}, {answered['latency_ms']:.1f} ms"
