"""An exported table model runs in a browser, with live dropout; needs the files of onnxruntime-web.

GUMDROP_ORT_WEB names the folder that holds them: ``node_modules/onnxruntime-web/dist`` after
``npm install onnxruntime-web``.
"""

import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from gumdrop.export import export_table, serving
from gumdrop.tables import load_table_model
from gumdrop.tables.fitting.fit import fit_table

from builders.browser import Witness, wait_until
from builders.tables import QUICK, write_table

pytest.importorskip("onnxruntime", reason="needs the extra `export`")
PAGE = Path(__file__).parents[2] / "docs" / "examples" / "browser.html"
FILES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
ROW = {"size": 44.0, "colour": "red"}


class Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

    def log_message(self, *words) -> None:
        pass


@pytest.fixture
def site(tmp_path):
    if "GUMDROP_ORT_WEB" not in os.environ:
        pytest.skip("needs GUMDROP_ORT_WEB, the folder with the files of onnxruntime-web")
    fit_table(write_table(tmp_path / "houses.csv"), "price", tmp_path / "run", ignore=("grade",), settings=QUICK)
    export_table(load_table_model(tmp_path / "run"), tmp_path / "model.onnx", num_samples=300)
    for name in FILES:
        shutil.copy(Path(os.environ["GUMDROP_ORT_WEB"]) / name, tmp_path)
    shutil.copy(PAGE, tmp_path / "index.html")
    handler = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield tmp_path, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


# Results come one after the other, each some time after its input.
KEPT = """
window.kept = [];
Object.defineProperty(window, "result", {
  get: () => window.last,
  set: (result) => {
    window.last = result;
    window.kept.push(["mean", "epistemic", "aleatoric"].map((name) => result[name].data[0]));
  },
});
"""


def test_the_page_predicts_as_the_file_does_elsewhere(site, browser) -> None:
    folder, address = site
    page = browser.new_page()
    witness = Witness(page)
    page.goto(f"{address}/index.html")
    wait_until(page, "window.ready === true")
    page.evaluate(KEPT)
    page.get_by_label("size").fill(str(ROW["size"]))
    page.get_by_label("colour").select_option(ROW["colour"])
    for _ in range(20):
        page.get_by_label("size").dispatch_event("input")
    wait_until(page, "kept.length === 22")
    values = page.evaluate("kept.slice(2)")
    served = serving.ServedModel(folder / "model.onnx")
    want = np.array([[part.item() for part in served.predict([ROW]).values()] for _ in range(20)])
    assert len(set(map(tuple, values))) > 5  # masks are drawn anew
    error = np.abs(np.mean(values, axis=0) - want.mean(0)) / want.mean(0)
    assert (error < [0.01, 0.2, 0.02]).all()
    assert page.locator("output").inner_text().startswith("price: ")
    page.goto(f"{address}/index.html?model=none.onnx")
    wait_until(page, "document.querySelector('output').textContent.startsWith('there is no')")
    page.close()
    assert [url for url in witness.asked if not url.startswith(address)] in ([], ["data:,"])
