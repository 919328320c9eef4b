"""The plain script that people start from: ONNX Runtime behind Python's own HTTP server, one request at
a time, no more. Speaks raw tensors where the real ones speak a protocol, which only helps it.

    python naive_server.py MODEL SHAPE THREADS      SHAPE like 1x3x224x224; THREADS 0: as ONNX Runtime likes

Needs the packages onnxruntime and numpy. Prints `listening PORT`; ends with standard input.
"""
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime

MODEL, SHAPE, THREADS = sys.argv[1], tuple(map(int, sys.argv[2].split("x"))), int(sys.argv[3])
OPTIONS = onnxruntime.SessionOptions()
OPTIONS.intra_op_num_threads = THREADS
SESSION = onnxruntime.InferenceSession(MODEL, OPTIONS, providers=["CPUExecutionProvider"])
INPUT = SESSION.get_inputs()[0].name
ONE_AT_A_TIME = ThreadPoolExecutor(max_workers=1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together

    def do_POST(self):  # noqa: N802, the base class's name
        body = self.rfile.read(int(self.headers["Content-Length"]))
        tensor = np.frombuffer(body, np.float32).reshape(SHAPE)
        answer = ONE_AT_A_TIME.submit(SESSION.run, None, {INPUT: tensor}).result()[0].tobytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


SERVER = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=SERVER.serve_forever, daemon=True).start()
print("listening", SERVER.server_address[1], flush=True)
sys.stdin.read()
os._exit(0)
