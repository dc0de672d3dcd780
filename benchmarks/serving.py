"""What an answer of the explorer costs: against the forward pass that it contains, many at once, and in memory.

    python benchmarks/serving.py

**Latency**: resnet18 @ layer3, 224 px, 120 prototypes of 12 classes, random weights (the speed does not depend on
them). An answer is the explanation with every word and outline as JSON, without pictures; and the same asked for over
HTTP from a client in this process. Processor time of the whole process, one thread for torch, in turns with the
forward pass on the same image; every image is new, so nothing is remembered.

**Many at once**: eight clients against a plain loop of forward passes, with one thread or with all cores, whichever is
faster; wall-clock time in turns, because that is about using cores.

**Memory**: 1,000 answers to different pictures that are uploaded, after enough of them to fill what is remembered.
"""

import argparse
import http.client
import io
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

import pixpnet._torchvision  # noqa: F401  isort: skip

import numpy as np
import torch
import uvicorn
from PIL import Image

from explaining import images, network, timed
from pixpnet.data import Sample
from pixpnet.model import PixPNet
from pixpnet.training import Run
from pixpnet.views.explorer import asking
from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.images import Asked
from pixpnet.views.explorer.requests import encoded
from pixpnet.views.explorer.serving import configuration, listen
from results import arguments_of, record

LIMIT = 1.3
CLIENTS = 8
TOKEN = "a-token"


@contextmanager
def served(explorer: Explorer) -> Iterator[int]:
    """The explorer on a free port of loopback."""
    with listen(0) as listening:
        port = listening.getsockname()[1]
        server = uvicorn.Server(configuration(explorer, port, TOKEN))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join()
            explorer.close()


def saved(model: PixPNet) -> Run:
    """The folder of a run that has this model and nothing else, beside the pictures of its prototypes."""
    assert model.pictures is not None
    folder = model.pictures / f"run-{model.backbone_name}"
    folder.mkdir(exist_ok=True)
    model.save(folder / "model.safetensors")
    return Run(folder)


def ask(connection: http.client.HTTPConnection, path: str, body: bytes | None = None) -> bytes:
    """One request as the page makes it."""
    host = f"127.0.0.1:{connection.port}"
    headers = {"X-Pixpnet-Token": TOKEN, "Host": host, "Origin": f"http://{host}"}
    connection.request("GET" if body is None else "POST", path, body, headers)
    response = connection.getresponse()
    data = response.read()
    assert response.status == 200, data
    return data


def forward(model: PixPNet, sample: Sample) -> float:
    """Processor time of one forward pass."""
    image = sample.image.as_subclass(torch.Tensor)[None]
    with torch.no_grad():
        return timed(lambda: model(image))


def remembered(explorer: Explorer, samples: list[Sample]) -> list[str]:
    """Puts images among those that were uploaded, and gives their ids."""
    return [explorer.images.add(f"upload-{n}", f"{n}.png", lambda s=sample: s).id for n, sample in enumerate(samples)]


def latency(model: PixPNet, count: int) -> tuple[float, float]:
    """Medians of answer / forward pass, in the process and over HTTP."""
    torch.set_num_threads(1)
    samples = images(model, count + 5)
    explorer = Explorer(saved(model), model)
    ids = remembered(explorer, samples)
    inside, outside = [], []
    for number, sample in enumerate(samples):
        asked = Asked(f"new-{number}", "new.png", "upload", None, sample)
        base = forward(model, sample)
        whole = timed(lambda a=asked: encoded(asking.answer(model, a, explorer.explanation(a))))
        inside.append(whole / base)
    with served(explorer) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for sample, image_id in zip(samples, ids, strict=True):
            base = forward(model, sample)
            outside.append(timed(lambda i=image_id: ask(connection, f"/api/images/{i}")) / base)
        connection.close()
    return statistics.median(inside[5:]), statistics.median(outside[5:])


def throughput(model: PixPNet, count: int, rounds: int) -> tuple[float, float]:
    """Answers a second over HTTP, and forward passes a second in a plain loop, medians of several rounds."""
    torch.set_num_threads(os.cpu_count() or 1)
    answers, passes = [], []
    for number in range(rounds):
        samples = images(model, count)
        explorer = Explorer(saved(model), model)
        ids = remembered(explorer, samples)
        with served(explorer) as port:

            def client(part: list[str], port: int = port) -> None:
                connection = http.client.HTTPConnection("127.0.0.1", port)
                for image_id in part:
                    ask(connection, f"/api/images/{image_id}")
                connection.close()

            start = time.perf_counter()
            with ThreadPoolExecutor(CLIENTS) as pool:
                list(pool.map(client, [ids[first::CLIENTS] for first in range(CLIENTS)]))
            answers.append(count / (time.perf_counter() - start))
        passes.append(max(plain_loop(model, samples, threads) for threads in {1, os.cpu_count() or 1}))
        print(f"  round {number + 1}: {answers[-1]:.1f} answers, {passes[-1]:.1f} forward passes a second", flush=True)
    return statistics.median(answers), statistics.median(passes)


def plain_loop(model: PixPNet, samples: list[Sample], threads: int) -> float:
    """Forward passes a second, one after the other."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    start = time.perf_counter()
    with torch.no_grad():
        for sample in samples:
            model(sample.image.as_subclass(torch.Tensor)[None])
    seconds = time.perf_counter() - start
    torch.set_num_threads(before)
    return len(samples) / seconds


def resident() -> float:
    """Megabytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def memory(model: PixPNet, count: int) -> tuple[float, float]:
    """Megabytes before and after so many answers to uploaded pictures that nobody has seen before."""
    rng = np.random.default_rng(1)

    def file() -> bytes:
        content = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (128, 128, 3), dtype=np.uint8)).save(content, format="jpeg")
        return content.getvalue()

    explorer = Explorer(saved(model), model, remembered_bytes=8 * 2**20)
    with served(explorer) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        before = 0.0
        for number in range(300 + count):
            if number == 300:
                before = resident()
            line = ask(connection, "/api/images?name=a.jpg", file())
            image_id = line.split(b'"id":"')[1].split(b'"')[0].decode()
            ask(connection, f"/api/images/{image_id}")
        after = resident()
        connection.close()
    return before, after


def main() -> int:
    """Measures and prints; the exit code says whether the limit holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--answers", type=int, default=1000)
    arguments = arguments_of(parser)
    with tempfile.TemporaryDirectory() as folder:
        model = network("resnet18", "layer3", 224, Path(folder))
        inside, outside = latency(model, arguments.images)
        record("serving", "answer in the process", inside)
        record("serving", "answer over HTTP", outside)
        print(f"answer / forward pass: {inside:.3f} in the process, {outside:.3f} over HTTP (wanted: at most {LIMIT})")
        answers, passes = throughput(model, 2 * arguments.images, arguments.rounds)
        print(f"{answers:.1f} answers a second against {passes:.1f} forward passes: {answers / passes:.2f}")
        small = network("small-37", "", 96, Path(folder))
        before, after = memory(small, arguments.answers)
        print(f"memory: {before:.0f} MB, after {arguments.answers} answers more {after:.0f} MB")
    return 0 if outside <= LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
