// Asks the built site's own search for phrases, and fails if a guide is not the first hit: `node first_hits.js build/site`.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const FIRST = {
  "prediction interval": "tables",
  quantile: "tables",
  "mc dropout": "models",
  "monte carlo dropout": "models",
  "out-of-distribution": "decisions",
  calibration: "estimators",
  "missing values": "tables",
  categorical: "tables",
  "active learning": "decisions",
  segmentation: "segmentation",
  lstm: "sequences",
  transformer: "sequences",
  "export onnx": "deployment",
  "scikit-learn": "estimators",
  "save model": "models",
  "time series split": "estimators",
  "feature importance": "tables",
  "deep ensemble": "estimators",
  classification: "classes",
  resume: "scale",
};

const site = process.argv[2];
const element = { addEventListener() {} };
const page = vm.createContext({
  document: { readyState: "loading", addEventListener() {}, getElementById: () => element, documentElement: { dataset: {} } },
  localStorage: { setItem() {} },
  SPHINX_HIGHLIGHT_ENABLED: false,
});
page.window = page;
for (const script of ["_static/documentation_options.js", "_static/doctools.js", "_static/language_data.js", "_static/searchtools.js", "searchindex.js"]) {
  vm.runInContext(fs.readFileSync(path.join(site, script), "utf8"), page, { filename: script });
}
const hits = vm.runInContext("(phrase) => Search._performSearch(...Search._parseQuery(phrase)).reverse()", page);

let wrong = 0;
for (const [phrase, guide] of Object.entries(FIRST)) {
  const found = hits(phrase).map(([docname]) => docname);
  if (found[0] === guide) continue;
  wrong += 1;
  console.error(`"${phrase}" finds ${found.slice(0, 3).join(", ") || "nothing"} before ${guide}`);
}
console.log(`search: ${Object.keys(FIRST).length - wrong} of ${Object.keys(FIRST).length} phrases find their guide first`);
process.exitCode = wrong ? 1 : 0;
