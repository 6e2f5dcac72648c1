// The posterior section, as a live and a recorded session show it alike: picture, rates, facts and state.
(function () {
  "use strict";

  const LAYERS = { 2: "hidden layer 1", 4: "hidden layer 2" };
  const COLOURS = ["var(--blue)", "var(--candy)"];
  const WORDS = {
    training: "training", settled: "at rest", paused: "paused", empty: "waiting for points",
    connecting: "connecting …", lost: "no connection", recorded: "recorded",
  };

  const PICTURE = `
    <svg class="plot" aria-label="Posterior over functions: mean, draws, bands and points"></svg>
    <ul class="legend"><li><i class="line" style="color:var(--blue)"></i>mean</li>
      <li><i class="line thin" style="color:var(--ink)"></i>functions drawn</li>
      <li><i style="background:var(--blue);opacity:.4"></i>what it does not know (epistemic, ±2 sd)</li>
      <li><i style="background:var(--orange);opacity:.3"></i>and noise (aleatoric)</li></ul>`;
  const FACTS = `
    <dl class="facts"><div><dt>state</dt><dd data-of="state"></dd></div>
      <div><dt>steps</dt><dd data-of="steps"></dd></div><div><dt>N</dt><dd data-of="N"></dd></div>
      <div><dt>nll, nats</dt><dd data-of="nll"></dd></div><div><dt>KL / N</dt><dd data-of="kl"></dd></div></dl>
    <p class="hidden" role="status"></p><p class="message" role="alert"></p>`;
  const LEGEND = Object.values(LAYERS).map(
    (name, i) => `<li><i class="line" style="color:${COLOURS[i]}"></i>${name} <b data-rate="${i}"></b></li>`,
  );
  const RATES = `<div><h3>Dropout rate p of each layer</h3>
    <svg class="rates" role="img" aria-label="Rates over the steps of training"></svg>
    <ul class="legend">${LEGEND.join("")}</ul></div>`;

  class View {
    constructor(root, { editable, changed }) {
      this.root = root;
      this.picture = new Gumdrop.Posterior(root.querySelector(".plot"), { editable, changed });
      this.rates = new Gumdrop.Rates(root.querySelector(".rates"), COLOURS);
    }

    fact(name, text) { this.root.querySelector(`[data-of=${name}]`).textContent = text; }

    setState(state) {
      if (this.state === state) return;
      this.state = state;
      this.fact("state", WORDS[state]);
      this.root.querySelector("[role=status]").textContent = `Training: ${WORDS[state]}.`;
    }

    show(frame) {
      this.picture.show(frame);
      this.fact("steps", frame.steps.toLocaleString("en"));
      const minus = (value) => (value === undefined ? "–" : value.toFixed(2).replace("-", "−"));
      this.fact("nll", minus(frame.losses.nll));
      this.fact("kl", minus(frame.losses.kl));
      Object.values(frame.rates).forEach((p, i) => {
        this.root.querySelector(`[data-rate="${i}"]`).textContent = p.toFixed(3);
      });
    }
  }

  window.Gumdrop = window.Gumdrop || {};
  Gumdrop.SessionView = Object.assign(View, { PICTURE, FACTS, RATES });
})();
