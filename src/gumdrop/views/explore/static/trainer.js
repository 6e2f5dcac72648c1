// One visitor's posterior: the points, the settings, and what learns from them. Same seed and requests, same frames.
(function () {
  "use strict";
  const { network: { Network, initialise, setRate, rates }, process, random: { uniform, normal } } = self.Gumdrop;

  const EXTENT = 3, GRID = 121, UNITS = 64;
  /** Rows of a step, to which the points are repeated: each row has a mask of its own, so the gradient is quieter. */
  const ROWS = 128;
  const MEMBERS = 8, DRAWN = 8, AVERAGED = 40;
  /** Steps after the last change before training rests, and those after which steps are half as long. */
  const SETTLED = 4000, SLOWER = 800;
  const NOISE_VARIANCE = 0.04;
  const DEFAULTS = { model: "dropout", rates: "learned", p: 0.1, repeat: 1, lengthscale: 0.5, temperature: 0.1, seed: 0 };

  const grid = Float64Array.from({ length: GRID }, (_, i) => -EXTENT + (2 * EXTENT * i) / (GRID - 1));

  const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  class Trainer {
    constructor() {
      Object.assign(this, { points: [], settings: DEFAULTS });
      this.restart();
    }

    /** Begin again with untrained weights. */
    restart() {
      this.steps = this.sinceChange = 0;
      this.losses = {};
      this.next = uniform(this.settings.seed);
      this.networks = Array.from({ length: this.count() }, () => new Network(UNITS, 1));
      for (const { theta } of this.networks) initialise(theta, this.next);
      const own = uniform(this.settings.seed + 1e6); // the same masks in every frame: draws move, and do not flicker
      this.masks = Array.from({ length: AVERAGED }, () => Array.from({ length: 2 * UNITS }, own));
      this.normals = Array.from({ length: DRAWN }, () => Array.from({ length: GRID }, normal(own)));
      this.useSettings();
      this.usePoints();
    }

    count() { return { dropout: 1, ensemble: MEMBERS, process: 0 }[this.settings.model]; }

    setPoints(points) {
      this.points = points;
      this.sinceChange = 0;
      this.usePoints();
    }

    usePoints() {
      const { points } = this, times = this.drops ? Math.max(1, Math.floor(ROWS / Math.max(1, points.length))) : 1;
      const rows = Array.from({ length: times }, () => points).flat();
      this.x = Float64Array.from(rows, ([x]) => x);
      this.y = Float64Array.from(rows, ([, y]) => y);
      for (const network of this.networks) network.resize(rows.length);
      this.noise = [0, 1].map(() => new Float64Array(rows.length * UNITS));
      this.exact = process.posterior(points, grid, NOISE_VARIANCE / this.settings.repeat, this.normals);
    }

    setSettings(settings) {
      const before = this.settings;
      this.settings = { ...DEFAULTS, ...settings };
      this.sinceChange = 0;
      if (before.model !== this.settings.model || before.seed !== this.settings.seed) return this.restart();
      this.useSettings();
      this.usePoints();
    }

    useSettings() {
      if (this.settings.rates === "fixed") for (const { theta } of this.networks) setRate(theta, this.settings.p);
    }

    get drops() { return this.settings.model === "dropout" && this.settings.rates !== "off"; }
    get numData() { return Math.max(1, Math.round(this.settings.repeat * this.points.length)); }

    get state() {
      if (!this.points.length) return "prior";
      if (this.settings.model === "process") return "exact";
      return this.sinceChange >= SETTLED ? "settled" : "training";
    }

    train(steps) {
      const { drops, settings, numData } = this, { lengthscale, temperature } = settings;
      const chosen = { numData, lengthscale, temperature, noise: drops ? this.noise : null };
      for (let i = 0; i < steps && this.state === "training"; i++) {
        const all = this.networks.map((network) => {
          if (drops) for (const each of this.noise) for (let k = 0; k < each.length; k++) each[k] = this.next();
          const losses = network.evaluate(this.x, this.y, chosen);
          network.step(1 / (1 + this.sinceChange / SLOWER), drops && settings.rates === "learned");
          return losses;
        });
        this.losses = { nll: average(all.map(({ nll }) => nll)), kl: average(all.map(({ kl }) => kl)) };
        this.steps += 1;
        this.sinceChange += 1;
      }
    }

    /** The posterior now, on the grid, with what it belongs to and the exact standard deviation for comparison. */
    frame() {
      const { points, settings, steps, state, exact } = this, known = points.length > 0;
      const shown = { points, settings, steps, state, exact: exact.epistemic, numData: known ? this.numData : 0 };
      shown.losses = known ? this.losses : {};
      shown.rates = this.drops && known ? rates(this.networks[0].theta) : [];
      const same = (variance) => new Array(GRID).fill(Math.sqrt(variance));
      if (settings.model === "process") return { ...exact, ...shown, aleatoric: same(NOISE_VARIANCE) };
      const functions = this.functions(), noise = this.networks.map(({ theta }) => Math.exp(theta.logVariance[0]));
      const mean = Array.from(grid, (_, i) => average(functions.map((values) => values[i])));
      const epistemic = mean.map((m, i) => Math.sqrt(average(functions.map((values) => (values[i] - m) ** 2))));
      return { ...shown, mean, epistemic, aleatoric: same(average(noise)), draws: functions.slice(0, DRAWN) };
    }

    functions() {
      if (!this.points.length && this.settings.model === "dropout") return this.prior();
      if (this.settings.model === "ensemble") return this.networks.map(({ theta }) => evaluate(theta));
      return this.masks.slice(0, this.drops ? AVERAGED : 1).map((mask) => evaluate(this.networks[0].theta, this.drops ? mask : null));
    }

    /** Functions of the prior N(0, 1/l^2) on the weights behind masks; the first layer, which has none, is untrained. */
    prior() {
      const draw = normal(uniform(this.settings.seed + 2e6)), { theta } = this.networks[0];
      return this.masks.map(() => {
        const one = { ...theta };
        for (const name of ["w2", "b2", "w3", "b3"]) one[name] = theta[name].map(() => draw() / this.settings.lengthscale);
        return evaluate(one, null);
      });
    }
  }

  /** One function on the grid: that of a Bernoulli mask, made from uniform noise, or without dropout. */
  function evaluate(theta, mask) {
    const { w1, b1, w2, b2, w3, b3 } = theta, [p1, p2] = mask ? rates(theta) : [0, 0];
    const scale = (p, at) => (i) => (mask && mask[at + i] < p ? 0 : 1 / (1 - p));
    const index = Array.from({ length: UNITS }, (_, i) => i), keep1 = index.map(scale(p1, 0)), keep2 = index.map(scale(p2, UNITS));
    const sum = new Float64Array(UNITS);
    return Array.from(grid, (x) => {
      sum.set(b2);
      for (let i = 0; i < UNITS; i++) {
        const value = keep1[i] * Math.max(0, w1[i] * x + b1[i]), row = i * UNITS;
        if (value !== 0) for (let j = 0; j < UNITS; j++) sum[j] += value * w2[row + j];
      }
      let total = b3[0];
      for (let j = 0; j < UNITS; j++) if (sum[j] > 0) total += keep2[j] * w3[j] * sum[j];
      return total;
    });
  }

  self.Gumdrop.trainer = { Trainer, DEFAULTS, EXTENT, GRID };
})();
