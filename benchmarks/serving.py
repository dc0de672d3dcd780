"""What an answer of the explorer costs: against the forward pass that it contains, many at once, and in memory.

    python benchmarks/serving.py

**Latency**: resnet18 @ layer3, 224 px, 120 prototypes of 12 classes, random weights (the speed does not depend on
them). An answer is the explanation with every word and outline as JSON, without pictures; and the same asked for over
HTTP from a client in this process. Processor time of the whole process, one thread for torch, in turns with the
forward pass on the same image; every image is new, so nothing is remembered.

**Many at once**: eight clients against a plain loop of forward passes, with one thread or with all cores, whichever is
faster; wall-clock time in turns, because that is about using cores.

**Memory**: 1,000 answers to different pictures that are uploaded, after enough of them to fill what is remembered.

**The page**, in Chromium where there is one: from its address to the first thing that a person can use, and to the
pictures in view of a gallery of 2000 prototypes (200 classes, random weights, made-up origins). Seconds of wall-clock
time, and multiples of what a page takes that is nothing but the icon; a new window each time, so nothing is remembered,
the three in turns. `--page-only` measures nothing else.
"""

import argparse
import http.client
import io
import os
import shutil
import statistics
import tempfile
import threading
import time
import warnings
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
from pixpnet.config import RunConfig, config_text
from pixpnet.data import DataWarning, Sample
from pixpnet.model import PixPNet, picture_name
from pixpnet.training import Run
from pixpnet.views.explorer import asking
from pixpnet.views.explorer.explorer import Explorer
from pixpnet.views.explorer.images import Asked
from pixpnet.views.explorer.requests import encoded
from pixpnet.views.explorer.serving import configuration, listen
from results import arguments_of, record

LIMIT = 1.3
CLIENTS = 8
FIRST_LIMIT, GALLERY_LIMIT, LONGEST = 1.0, 3.0, 60.0
MANY_CLASSES = 200
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


_FIRST = "() => document.querySelector('.drop') !== null"
_GALLERY = """() => {
  const cards = [...document.querySelectorAll('.proto')]
    .filter((card) => card.getBoundingClientRect().top < window.innerHeight);
  return cards.length > 0 && cards.every((card) => card.querySelector('img').naturalWidth > 0);
}"""
_ICON = "() => document.documentElement.tagName === 'svg'"


def page_times(model: PixPNet, chromium: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of each round until a page is there: the icon alone, the first tab, the gallery."""
    from playwright.sync_api import sync_playwright

    times: dict[str, list[float]] = {"icon": [], "first": [], "gallery": []}
    run = saved(model)
    # What the page says of a run; its images are not there.
    run.write("config.yaml", config_text(RunConfig(data="folder:gone", backbone=model.backbone_name, size=96)))
    explorer = Explorer(run, model)
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        explorer.images.open_data()
    with served(explorer) as port, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--headless", "--disable-gpu"]
        )
        address = f"http://127.0.0.1:{port}"
        pages = {
            "icon": (f"{address}/static/icon.svg", _ICON),
            "first": (f"{address}/?token={TOKEN}", _FIRST),
            "gallery": (f"{address}/?token={TOKEN}#/prototypes", _GALLERY),
        }
        for number in range(1 + rounds):
            for name, (url, there) in pages.items():
                context = browser.new_context(viewport={"width": 1280, "height": 900})
                page = context.new_page()
                start = time.perf_counter()
                page.goto(url, wait_until="commit")
                while not page.evaluate(there):  # the page's policy forbids Playwright's own way to wait
                    assert time.perf_counter() - start < LONGEST, page.content()
                    page.wait_for_timeout(5)
                seconds = time.perf_counter() - start
                context.close()
                if number:  # the first round opens files for everybody
                    times[name].append(seconds)
        browser.close()
    return times


def show_page(folder: Path, rounds: int) -> bool:
    """Measures the page and prints it; gives whether the limits hold, True where there is no browser."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("page: not measured, there is no Chromium on PATH")
        return True
    folder.mkdir()
    model = network("small-37", "", 96, folder, classes=MANY_CLASSES)
    rng = np.random.default_rng(2)
    for ending, side in (("png", 9), ("jpg", 96)):  # what a cell saw, and the image around it
        drawn = folder / f"drawn.{ending}"
        Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(drawn)
        for number in range(model.num_prototypes):
            shutil.copyfile(drawn, folder / f"{picture_name(number, model.num_prototypes)}.{ending}")
    times = page_times(model, chromium, rounds)
    base, held = statistics.median(times["icon"]), True
    for name, words, limit in (
        ("first", "first content", FIRST_LIMIT),
        ("gallery", f"gallery of {model.num_prototypes} prototypes", GALLERY_LIMIT),
    ):
        seconds = statistics.median(times[name])
        record("serving", f"{words} / page of an icon", seconds / base)
        print(
            f"{words}: {seconds:.2f} s (wanted: at most {limit:.0f}), {seconds / base:.1f} times a page of an icon "
            f"({base:.2f} s)"
        )
        held = held and seconds <= limit
    return held


def main() -> int:
    """Measures and prints; the exit code says whether the limits hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--answers", type=int, default=1000)
    parser.add_argument("--page-only", action="store_true", help="only how long the page takes in a browser")
    arguments = arguments_of(parser)
    with tempfile.TemporaryDirectory() as folder:
        page_held = show_page(Path(folder) / "many", arguments.rounds)
        if arguments.page_only:
            return 0 if page_held else 1
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
    return 0 if outside <= LIMIT and page_held else 1


if __name__ == "__main__":
    raise SystemExit(main())
