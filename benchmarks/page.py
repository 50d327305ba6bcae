"""Times to write pages of steps, to open them folded, to open a group, and to pan, in headless Chromium.

Run it with `python benchmarks/page.py`, where `make test` has set a browser up. The peers are a page with the text of
all stages and nothing else, and Netron with the ONNX model of the step, where `pip install netron` has put it. The
candidates take turns; times end when the awaited element has been painted, and ratios count, not milliseconds.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from html import escape
from itertools import pairwise
from pathlib import Path

from playwright.sync_api import Browser, Page

sys.path.insert(0, str(Path(__file__).parents[1]))

import graphls
from graphls.ir import dump
from graphls.ir.graph import walk
from tests.browser.chromium import launch, started, watched_page
from tests.browser.steps import digits_step, transformer_step

ROUNDS, GROUPS, MOVES, PATIENCE = 5, 20, 60, 60
DRAWN = 'html[data-ready="true"]'
FOLDED, OPEN = '#graph [aria-expanded="false"]', '#graph [aria-expanded="true"]'
PAINTED = "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
OPENED = """{
  const kept = window.eval;  // Netron takes it away, and Playwright needs it
  Object.defineProperty(window, "eval", {get: () => kept, set: () => {}});
  window.opened = new Promise(done => {
    const look = () => document.readyState === "complete" && document.querySelector(SELECTOR)
      ? PAINTED.then(done) : requestAnimationFrame(look);
    look();
  });
}""".replace("PAINTED", PAINTED)
CLICK = """group => {
  const start = performance.now();
  group.querySelector(".fold").click();
  return PAINTED.then(end => end - start);
}""".replace("PAINTED", PAINTED)
FRAMES = """() => {
  window.stamps = [];
  const frame = time => { stamps.push(time); requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""


def opening(page: Page, address: str, selector: str) -> float:
    """Milliseconds from the navigation until the selected element is painted; infinity after PATIENCE seconds."""
    page.add_init_script(OPENED.replace("SELECTOR", json.dumps(selector)))
    page.goto(address)
    limit = f"new Promise(done => setTimeout(done, {PATIENCE * 1000}))"
    milliseconds = page.evaluate(f"Promise.race([opened, {limit}])")
    return float("inf") if milliseconds is None else float(milliseconds)


def open_file(browser: Browser, path: Path, selector: str) -> float:
    """Milliseconds to open a page from the disk."""
    with watched_page(browser) as page:
        return opening(page, path.as_uri(), selector)


def open_netron(browser: Browser, port: int) -> float:
    """Milliseconds to open the model that a Netron serves here, by a reader who has dismissed its question."""
    address = f"http://localhost:{port}"
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.add_cookies([{"name": "consent", "value": "1", "url": address}])
    try:
        return opening(context.new_page(), address, "body.default g.node")
    finally:
        context.close()


@contextmanager
def netron(model: Path) -> Iterator[int | None]:
    """The port at which Netron shows a model; None where it is not installed."""
    try:
        import netron
    except ImportError:
        yield None
        return
    address = netron.start(str(model), browse=False)
    try:
        yield address[1]
    finally:
        netron.stop(address)


def groups(page: Page) -> list[float]:
    """Milliseconds that each of the first groups took to open, from the click until it is painted."""
    times: list[float] = []
    while len(times) < GROUPS and page.locator(FOLDED).count():
        group = page.locator(FOLDED).first
        item = group.get_attribute("data-item")
        times.append(group.evaluate(CLICK))
        if not page.locator(f'{OPEN}[data-item="{item}"]').count():
            raise RuntimeError("A click has opened no group; see what the page calls one.")
    return times


def frames(page: Page) -> list[float]:
    """Milliseconds between frames while the drawing is dragged, with all groups open."""
    page.locator("[data-action=open-all]").click()
    group = page.locator(OPEN).first
    before, box = group.bounding_box(), page.locator("#graph").bounding_box()
    assert box is not None
    x, y = box["x"] + 8, box["y"] + box["height"] - 20
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(FRAMES)
    for i in range(MOVES):
        page.mouse.move(x + i / 10, y - 10 * i)
    stamps = page.evaluate("stamps")
    page.mouse.up()
    if group.bounding_box() == before:
        raise RuntimeError("Dragging has moved nothing; see how the page is panned.")
    return [end - start for start, end in pairwise(stamps)]


def report(name: str, step: graphls.Compiled, browser: Browser, folder: Path) -> None:
    """Print all figures of one step."""
    from graphls.inspect.viz.html import write_page

    page, text, model = (folder / f"{name}.{ending}" for ending in ("html", "txt.html", "onnx"))
    start = time.perf_counter()
    write_page(page, step.stages)
    seconds, size = time.perf_counter() - start, page.stat().st_size / 1e6
    lines = "".join(f"<pre>{escape(dump(graph))}</pre>" for graph in step.stages.values())
    text.write_text(f'<!doctype html><meta charset="utf-8"><title>Text</title>{lines}', encoding="utf-8")
    step.save(model)
    print(f"{name}: {sum(1 for _ in walk(step.graph))} nodes, {len(step.stages)} stages")
    print(f"  written in {seconds:.2f} s, {size:.2f} MB")
    with netron(model) as port:
        candidates: dict[str, Callable[[], float]] = {
            "page, folded": partial(open_file, browser, page, DRAWN),
            "text of all stages": partial(open_file, browser, text, "pre:last-of-type"),
        }
        if port is not None:
            candidates["Netron, the final model"] = partial(open_netron, browser, port)
        compare(candidates)
    use(browser, page)


def compare(candidates: dict[str, Callable[[], float]]) -> None:
    """Let the candidates take turns, until their time runs out, and print medians and ratios to the first."""
    rounds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(ROUNDS):
        for name, run in candidates.items():
            rounds[name].append(float("inf") if float("inf") in rounds[name] else run())
    first = rounds[next(iter(rounds))]
    for name, times in rounds.items():
        ratio = statistics.median(time / base for time, base in zip(times, first, strict=True))
        shown = f"{statistics.median(times):8.0f} ms   {ratio:6.2f} x"
        print(f"  {name:<26} {shown if ratio < float('inf') else f'not within {PATIENCE} s'}", flush=True)


def use(browser: Browser, path: Path) -> None:
    """Open groups and pan, and print how long that takes."""
    with watched_page(browser) as page:
        opening(page, path.as_uri(), DRAWN)
        for name, times in {"opening a group": groups(page), "a frame while panning": frames(page)}.items():
            middle, most = statistics.median(times), statistics.quantiles(times, n=20)[-1]
            print(f"  {name:<26} {middle:8.1f} ms   19 of 20 within {most:.1f} ms, of {len(times)}", flush=True)


def main() -> None:
    """Measure the step of the demo and that of a transformer of 12 layers."""
    with started() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = launch(playwright)
        for name, step in {"digits": digits_step(), "transformer": transformer_step()}.items():
            report(name, step, browser, Path(folder))


if __name__ == "__main__":
    main()
