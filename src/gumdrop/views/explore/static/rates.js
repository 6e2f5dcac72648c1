// The learned rates of both layers over the steps of training.
(function () {
  "use strict";
  const SIZES = [100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000], MOST = 800;

  class Rates {
    constructor(svg) {
      this.frame = new Gumdrop.plot.Frame(svg, {
        x: [0, 100], y: [0, 0.6], ratio: 0.5, least: 150, most: 210, xLabel: "steps of training",
        margins: { left: 34, right: 20, top: 10, bottom: 42 }, redraw: () => this.redraw(),
      });
      this.lines = [1, 2].map((layer) => Gumdrop.plot.draw(this.frame.marks, "path", { class: `rate layer${layer}` }));
      this.clear();
    }

    clear() {
      this.history = [];
      this.redraw();
    }

    /** Remember a frame; of a long history every second one is forgotten. */
    add(steps, rates) {
      const last = this.history.at(-1);
      if (last && steps < last[0]) this.history = []; // training has begun again
      if (last && last[0] === steps) this.history.pop();
      this.history.push([steps, rates]);
      if (this.history.length > MOST) this.history = this.history.filter((_, i) => i % 2 === 0);
      this.redraw();
    }

    redraw() {
      if (!this.history) return;
      const steps = this.history.map(([step]) => step), values = this.history.flatMap(([, rates]) => rates);
      const last = steps.at(-1) ?? 0, size = SIZES.find((top) => top >= last) ?? last;
      this.frame.xRange = [0, size];
      this.frame.yRange = [0, Math.max(0, ...values) > 0.58 ? 1 : 0.6];
      this.frame.drawAxes([0, size / 2, size], this.frame.yRange[1] === 1 ? [0, 0.5, 1] : [0, 0.2, 0.4, 0.6]);
      this.lines.forEach((line, i) => line.setAttribute("d", this.frame.line(steps, this.history.map(([, p]) => p[i]))));
    }
  }

  Gumdrop.Rates = Rates;
})();
