// What one mask is: a Concrete (relaxed) variable that becomes a Bernoulli one as its temperature goes to 0.
(function () {
  "use strict";

  const logit = (p) => Math.log(p) - Math.log1p(-p);
  const sigmoid = (a) => (a >= 0 ? 1 / (1 + Math.exp(-a)) : Math.exp(a) / (1 + Math.exp(a)));

  /** Relaxed keep-mask: 1 keeps, 0 drops. */
  const softKeep = (p, noise, temperature) => sigmoid((logit(noise) - logit(p)) / temperature);
  /** Its limit, a Bernoulli mask of the same noise. */
  const hardKeep = (p, noise) => (noise >= p ? 1 : 0);
  /** Probability that the relaxed mask is at most z. */
  const cdf = (z, p, temperature) => (z <= 0 ? 0 : z >= 1 ? 1 : sigmoid(temperature * logit(z) + logit(p)));
  /** Expected value of the relaxed mask, by the midpoint rule over its noise. */
  function mean(p, temperature, cells = 4000) {
    let sum = 0;
    for (let i = 0; i < cells; i++) sum += softKeep(p, (i + 0.5) / cells, temperature);
    return sum / cells;
  }

  self.Gumdrop = self.Gumdrop || {};
  self.Gumdrop.mask = { softKeep, hardKeep, cdf, mean };

  const UNITS = 48, BINS = 40;
  // Noise that is spread evenly, in an order without pattern: the same units every time.
  const NOISE = Array.from({ length: UNITS }, (_, i) => (((i * 29) % UNITS) + 0.5) / UNITS);

  function build(root) {
    const { draw, Frame, slider } = self.Gumdrop.plot;
    root.innerHTML = `
      <div class="controls"></div>
      <div class="columns"><div><h3>48 units and their mask</h3><div class="masks" role="img"></div>
        <p class="soft" style="margin-top:.6rem">Filled: kept. Empty: dropped. Pale: something between.</p></div>
      <div><h3>How likely each value is</h3><svg role="img" aria-label="Histogram of the mask's value"></svg></div></div>
      <p class="soft" style="margin-top:1rem" role="status"></p>`;
    const cells = NOISE.map(() => root.querySelector(".masks").appendChild(document.createElement("i")));
    const frame = new Frame(root.querySelector("svg"), {
      x: [0, 1], y: [0, 1], ratio: 0.42, least: 170, most: 230, xLabel: "mask: 0 drops, 1 keeps",
      margins: { left: 44, right: 12, top: 10, bottom: 42 }, redraw: () => show(),
    });
    const bars = Array.from({ length: BINS }, () => draw(frame.marks, "rect", { class: "mass" }));
    const box = root.querySelector(".controls");
    const change = () => show();
    const temperature = slider(box, { label: "temperature t", low: 0.01, high: 2, value: 0.1, log: true, change });
    const rate = slider(box, {
      label: "drop probability p", low: 0.02, high: 0.9, value: 0.3, step: 0.01, text: (p) => p.toFixed(2), change,
    });

    function show() {
      if (!rate) return;
      const p = rate.value, t = temperature.value;
      NOISE.forEach((noise, i) => {
        const share = (100 * softKeep(p, noise, t)).toFixed(1);
        cells[i].style.background = `color-mix(in srgb, var(--unit) ${share}%, transparent)`;
      });
      const masses = bars.map((_, i) => cdf((i + 1) / BINS, p, t) - cdf(i / BINS, p, t));
      frame.yRange = [0, Math.max(0.2, Math.ceil(Math.max(...masses) * 10) / 10)];
      frame.drawAxes([0, 0.5, 1], [0, frame.yRange[1] / 2, frame.yRange[1]].map((v) => Number(v.toFixed(2))));
      bars.forEach((bar, i) => {
        const left = frame.x(i / BINS) + 0.5, top = frame.y(masses[i]);
        const sizes = { x: left, y: top, width: frame.x((i + 1) / BINS) - left - 0.5, height: frame.y(0) - top };
        for (const key in sizes) bar.setAttribute(key, Math.max(0, sizes[key]).toFixed(2));
      });
      const between = cdf(0.95, p, t) - cdf(0.05, p, t);
      const distance = between < 0.35 ? "close to" : "far from";
      const kind = between < 0.03 ? "all but Bernoulli" : `Concrete, ${distance} Bernoulli`;
      const text = `${(100 * between).toFixed(between < 0.1 ? 1 : 0)} % of masks lie between 0.05 and 0.95: ${kind}.`;
      const average = `On average it keeps ${mean(p, t).toFixed(3)}, a Bernoulli mask ${(1 - p).toFixed(3)}.`;
      const usual = "gumdrop trains at t = 0.1 unless told otherwise.";
      root.querySelector("[role=status]").textContent = `${text} ${average} ${usual}`;
      root.querySelector(".masks").setAttribute("aria-label", `48 units at drop probability ${p.toFixed(2)}. ${text}`);
    }
    show();
  }

  const start = () => { const root = document.getElementById("mask-widget"); if (root) build(root); };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
