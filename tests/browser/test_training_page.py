"""The page that trains the demo's network, in a browser."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

import graphls
from examples.digits import LeNet, load, page
from graphls.step.export.page_files import RUNTIME, check_data, write_page
from graphls.train import load_checkpoint, load_param_into_net
from tests.browser.chromium import PATIENCE
from tests.bundles.install import PACKAGES, missing
from tests.bundles.steps import low

needs_npm = pytest.mark.skipif(bool(missing()), reason=missing())


class Files(SimpleHTTPRequestHandler):
    """A static host that says nothing."""

    extensions_map: ClassVar[dict[str, str]] = {
        **SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    step, data = page()
    step.export(folder)
    write_page(folder, data, str(PACKAGES / "onnxruntime-web"))
    host = ThreadingHTTPServer(("localhost", 0), partial(Files, directory=str(folder)))
    thread = threading.Thread(target=host.serve_forever)
    thread.start()
    yield f"http://localhost:{host.server_port}/"
    host.shutdown()
    host.server_close()
    thread.join()


@pytest.fixture
def visitor(browser: Browser, site: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 390, "height": 900}, accept_downloads=True)
    context.set_default_timeout(PATIENCE)
    found = context.new_page()
    errors: list[str] = []
    found.on("pageerror", lambda error: errors.append(str(error)))
    found.goto(site)
    ready(found)
    yield found
    context.close()
    assert errors == []


def ready(found: Page) -> None:
    expect(found.locator("#status")).to_contain_text("Runs on WebAssembly; ready after", timeout=PATIENCE)


def shown(found: Page, name: str) -> float:
    return float(found.locator(f"#{name}").text_content() or "nan")


@needs_npm
def test_a_visitor_trains_the_digits(visitor: Page, tmp_path: Path) -> None:
    visitor.get_by_role("button", name="Train", exact=True).press("Enter")
    enough = "Number(document.getElementById('accuracy').textContent) > 0.95"
    visitor.wait_for_function(enough, timeout=PATIENCE)
    visitor.get_by_role("button", name="Pause").press("Enter")
    expect(visitor.get_by_role("button", name="Train", exact=True)).to_be_visible()
    for name in ("losses", "scales", "accuracies"):
        label = visitor.locator(f"#{name}").get_attribute("aria-label")
        assert label is not None and " steps: from " in label
    steps, accuracy, skipped = (shown(visitor, name) for name in ("steps", "accuracy", "skipped"))
    assert steps > 20 and accuracy > 0.8 and skipped > 0  # the steps until the page has paused may cost some
    assert visitor.evaluate("document.documentElement.scrollWidth <= innerWidth")
    with visitor.expect_download() as downloading:
        visitor.get_by_role("button", name="Download the states").click()
    states = tmp_path / "trained.safetensors"
    downloading.value.save_as(states)

    network = LeNet().to_float(graphls.float16)
    load_param_into_net(network, load_checkpoint(states, format="safetensors"))
    network.set_train(False)
    _, _, images, labels = load()
    guesses = network(images).asnumpy().argmax(1)
    assert abs(float((guesses == labels).mean()) - accuracy) < 0.015  # last bits of float16 decide few
    tiles = [text.split(",")[0] for text in visitor.locator("#samples figcaption").all_text_contents()]
    assert np.mean(guesses[: len(tiles)] == np.array(tiles, int)) > 0.9

    visitor.reload()
    ready(visitor)
    assert (shown(visitor, "steps"), shown(visitor, "accuracy")) == (steps, accuracy)
    visitor.get_by_role("button", name="Start over").click()
    expect(visitor.locator("#steps")).to_have_text("0")
    visitor.locator("#upload").set_input_files(states)
    expect(visitor.locator("#status")).to_have_text("The states of trained.safetensors are loaded.")
    expect(visitor.locator("#accuracy")).to_have_text(f"{accuracy:.3f}")
    (tmp_path / "damaged.safetensors").write_bytes(states.read_bytes()[:1000])
    visitor.locator("#upload").set_input_files(tmp_path / "damaged.safetensors")
    expect(visitor.locator("#status")).to_contain_text("The file of safetensors is damaged")


TWICE = "(button) => { button.click(); const label = button.textContent; button.click(); return label; }"


@needs_npm
def test_a_pause_ends_behind_a_step_and_no_second_training_begins_before(visitor: Page) -> None:
    train = visitor.get_by_role("button", name="Train", exact=True)
    train.press("Enter")
    assert visitor.get_by_role("button", name="Pause").evaluate(TWICE) == "Pausing"
    expect(train).to_be_visible()
    steps = shown(visitor, "steps")
    visitor.reload()
    ready(visitor)
    assert shown(visitor, "steps") == steps


FAILING = """
import * as ort from './ort.wasm.min.mjs';
export const {env, Tensor} = ort;
async function create(model, options) {
  const session = await ort.InferenceSession.create(model, {executionProviders: ['wasm']});
  if (options.executionProviders[0] === 'webgpu') session.run = async () => { throw new Error('Cast requires f16'); };
  return session;
}
export const InferenceSession = {create};
"""
"""ONNX Runtime on a card without 16-bit numbers: many have none, which only the first step tells."""


@needs_npm
def test_where_a_graphics_card_cannot_run_the_step(browser: Browser, site: str) -> None:
    found = browser.new_page()
    found.add_init_script("Object.defineProperty(navigator, 'gpu', {value: {requestAdapter: async () => ({})}})")
    found.route("**/ort.webgpu.min.mjs", lambda route: route.fulfill(body=FAILING, content_type="text/javascript"))
    found.goto(site)
    words = "Runs on WebAssembly, as WebGPU cannot run this step here; ready after"
    expect(found.locator("#status")).to_contain_text(words, timeout=PATIENCE)
    found.get_by_role("button", name="Train", exact=True).press("Enter")
    found.wait_for_function("Number(document.getElementById('steps').textContent) >= 10", timeout=PATIENCE)
    found.close()


@needs_npm
def test_a_digit_is_drawn_by_keyboard(visitor: Page) -> None:
    pad = visitor.locator("#pad")
    pad.focus()
    for key in ["ArrowRight"] * 3 + [" ", "ArrowDown"] * 8:
        pad.press(key)
    expect(pad).to_have_attribute("aria-label", "Drawing of 8 by 8 squares, 8 filled; at row 8, column 4")
    expect(visitor.locator("#guess .best")).to_have_count(1)
    visitor.locator("#digit").select_option("1")
    visitor.get_by_role("button", name="Add to the training data").click()
    expect(visitor.locator("#data")).to_have_text("The training data are 1437 digits and 1 of yours.")
    expect(visitor.locator("#guess .best")).to_have_count(0)


def test_what_a_page_needs(tmp_path: Path) -> None:
    step, data = page()
    with pytest.raises(graphls.GraphlsError, match="let the function return the step and a dict of images, labels"):
        check_data(step, None)
    with pytest.raises(graphls.GraphlsError, match=r"images of shape \(3, 1\) and labels of shape .* do not"):
        check_data(step, {**data, "images": np.zeros((3, 1))})
    other = graphls.compile(lambda x: x * 2, np.ones(2, np.float32))
    with pytest.raises(graphls.GraphlsError, match=r"not of f32\[2\]"):
        check_data(other, data)
    folder = step.export(tmp_path / "page")
    with pytest.raises(graphls.GraphlsError, match=f"is not a folder of onnxruntime-web: it has no {RUNTIME[0]}"):
        write_page(folder, data, str(tmp_path))
    assert json.loads((folder / "step.json").read_text())["predict"] is not None


HALF = """async () => {
  const ort = await import("./ort/ort.wasm.min.mjs"), {Step} = await import("./step.mjs");
  const step = await Step.load(ort, "half");
  const {y} = await step.run({x: [0.5, -2, 0, -1e6]});
  return [Array.from(y.data, (n) => Number.isFinite(n) ? n + 0 : String(n)), y.data.constructor.name];
}"""

LOW = """async (batch) => {
  const ort = await import("./ort/ort.wasm.min.mjs"), {Step} = await import("./step.mjs");
  const step = await Step.load(ort, "low"), losses = [];
  for (let i = 0; i < 4; i++) losses.push((await step.run(batch)).loss.data[0]);
  return losses;
}"""


@needs_npm
def test_float16_and_low_products_in_a_browser(browser: Browser, site: str, tmp_path: Path) -> None:
    """Where it has arrays of float16 and where it has not, as older ones."""
    low_step, [batch] = low()
    low_step.export(tmp_path / "low")
    step = graphls.compile(lambda x: graphls.ops.neg(x), np.zeros(4, np.float16))
    step.export(tmp_path / "half", inputs=["x"], outputs=["y"])
    for script in ("", "delete globalThis.Float16Array"):
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        context.add_init_script(script)
        bundles = re.compile(f"{site}(half|low)/.*")
        context.route(bundles, lambda it: it.fulfill(path=tmp_path / it.request.url.removeprefix(site)))
        visitor = context.new_page()
        visitor.goto(site)
        assert visitor.evaluate(HALF) == [[-0.5, 2, 0, "Infinity"], "Float32Array"]
        losses = visitor.evaluate(LOW, {name: array.ravel().tolist() for name, array in batch.items()})
        context.close()
    assert losses == pytest.approx([float(low_step(*batch.values())) for _ in range(4)], rel=1e-5)
