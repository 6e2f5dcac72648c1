// A regression network of two hidden layers with dropout in front of the second and the third: its loss, the gradient by
// hand, and Adam. The same numbers as `gumdrop.negative_elbo` and `torch.optim.AdamW`, to which tests hold it.
(function () {
  "use strict";

  /** Logits that the parameter of a rate counts in ones: see `gumdrop.layers.site.UNIT`. */
  const UNIT = 10;
  const NOISE_SHAPE = 100, NOISE_VARIANCE = 0.04;
  const LR = 4e-3, RATE_LR = 2e-3, BETA1 = 0.9, BETA2 = 0.999, EPSILON = 1e-8;

  const sigmoid = (a) => 1 / (1 + Math.exp(-a));
  const softplus = (a) => Math.max(a, 0) + Math.log1p(Math.exp(-Math.abs(a)));
  const entropy = (a) => sigmoid(a) * softplus(-a) + sigmoid(-a) * softplus(a);

  /** All parameters in one array, and views of its parts. Weights of the second layer: row of an input, its outputs. */
  function parameters(units) {
    const sizes = { w1: units, b1: units, w2: units * units, b2: units, w3: units, b3: 1, rates: 2, logVariance: 1 };
    const all = new Float64Array(Object.values(sizes).reduce((sum, size) => sum + size, 0));
    const views = { all, units };
    let start = 0;
    for (const name in sizes) views[name] = all.subarray(start, (start += sizes[name]));
    return views;
  }

  /** Untrained weights as PyTorch's `Linear` has them, and bends of the function all over the frame. */
  function initialise(theta, next, p = 0.2) {
    const spread = (view, bound) => view.forEach((_, i) => (view[i] = bound * (2 * next() - 1)));
    const bound = 1 / Math.sqrt(theta.units);
    spread(theta.w1, 1);
    spread(theta.b1, 2);
    for (const name of ["w2", "b2", "w3", "b3"]) spread(theta[name], bound);
    setRate(theta, p);
    theta.logVariance[0] = Math.log(NOISE_VARIANCE);
  }

  const setRate = (theta, p) => theta.rates.fill((Math.log(p) - Math.log1p(-p)) / UNIT);
  const rates = (theta) => Array.from(theta.rates, (scaled) => sigmoid(UNIT * scaled));

  /** Network, optimiser and the memory that a step of `rows` examples works in. */
  class Network {
    constructor(units, rows) {
      this.theta = parameters(units);
      this.gradient = parameters(units);
      this.first = new Float64Array(this.theta.all.length);
      this.second = new Float64Array(this.theta.all.length);
      this.steps = 0;
      this.resize(rows);
    }

    resize(rows) {
      const size = rows * this.theta.units;
      if (this.rows === rows) return;
      this.rows = rows;
      for (const name of ["out1", "out2", "keep1", "keep2", "back2"]) this[name] = new Float64Array(size);
      this.mean = new Float64Array(rows);
    }

    /**
     * Loss and gradient at one batch. `noise` holds two arrays of uniform numbers, one for each row and unit; without it
     * nothing is dropped, and the KL is that of the weights alone. Returns { nll, kl } in nats per datum.
     */
    evaluate(x, y, { noise, numData, lengthscale, temperature }) {
      this.gradient.all.fill(0);
      this.forward(x, noise, temperature);
      const nll = this.likelihood(y);
      this.backward(x, noise, temperature);
      return { nll, kl: this.prior(numData, lengthscale ** 2, Boolean(noise)) };
    }

    forward(x, noise, temperature) {
      const { theta, rows, out1, out2, mean } = this, { units, w1, b1, w2, b2, w3, b3 } = theta;
      const sum = new Float64Array(units);
      for (let r = 0, at = 0; r < rows; r++, at += units) {
        for (let i = 0; i < units; i++) out1[at + i] = Math.max(0, w1[i] * x[r] + b1[i]);
        if (noise) this.drop(out1, this.keep1, noise[0], at, 0, temperature);
        sum.set(b2);
        for (let i = 0; i < units; i++) {
          const value = out1[at + i], row = i * units;
          if (value !== 0) for (let j = 0; j < units; j++) sum[j] += value * w2[row + j];
        }
        for (let j = 0; j < units; j++) out2[at + j] = Math.max(0, sum[j]);
        if (noise) this.drop(out2, this.keep2, noise[1], at, 1, temperature);
        let total = b3[0];
        for (let j = 0; j < units; j++) total += out2[at + j] * w3[j];
        mean[r] = total;
      }
    }

    /** Multiply one row by its Concrete mask over 1 - p, and remember the mask. */
    drop(values, keep, noise, at, site, temperature) {
      const logit = UNIT * this.theta.rates[site], full = 1 + Math.exp(logit);
      for (let i = at, end = at + this.theta.units; i < end; i++) {
        if (values[i] === 0) continue;
        keep[i] = sigmoid((Math.log(noise[i] / (1 - noise[i])) - logit) / temperature);
        values[i] *= keep[i] * full;
      }
    }

    /** Mean Gaussian negative log likelihood; leaves its slope by each mean in `slope`. */
    likelihood(y) {
      const { rows, mean, theta, gradient } = this, s = theta.logVariance[0], precision = Math.exp(-s);
      this.slope = new Float64Array(rows);
      let squares = 0;
      for (let r = 0; r < rows; r++) {
        const residual = mean[r] - y[r];
        squares += residual * residual;
        this.slope[r] = (residual * precision) / rows;
      }
      const standardised = (squares * precision) / rows;
      gradient.logVariance[0] += 0.5 * (1 - standardised);
      return 0.5 * (Math.log(2 * Math.PI) + s + standardised);
    }

    backward(x, noise, temperature) {
      const { theta, gradient, rows, slope, out1, out2, keep1, keep2, back2 } = this, { units, w1, w2, w3, rates: by } = theta;
      const full = [0, 1].map((site) => (noise ? 1 + Math.exp(UNIT * by[site]) : 1));
      const p = rates(theta), pull = [0, 0];
      for (let r = 0, at = 0; r < rows; r++, at += units) {
        gradient.b3[0] += slope[r];
        for (let j = 0; j < units; j++) {
          const value = out2[at + j];
          back2[j] = 0;
          if (value === 0) continue;
          gradient.w3[j] += slope[r] * value;
          const above = slope[r] * w3[j];
          if (noise) pull[1] += value * above * (p[1] - (1 - keep2[at + j]) / temperature);
          back2[j] = above * (noise ? keep2[at + j] : 1) * full[1];
          gradient.b2[j] += back2[j];
        }
        for (let i = 0; i < units; i++) {
          const value = out1[at + i], row = i * units;
          if (value === 0) continue;
          let above = 0;
          for (let j = 0; j < units; j++) {
            gradient.w2[row + j] += value * back2[j];
            above += w2[row + j] * back2[j];
          }
          if (noise) pull[0] += value * above * (p[0] - (1 - keep1[at + i]) / temperature);
          const below = above * (noise ? keep1[at + i] : 1) * full[0];
          gradient.w1[i] += below * x[r];
          gradient.b1[i] += below;
        }
      }
      pull.forEach((value, site) => (gradient.rates[site] += value / UNIT)); // divided: see `gumdrop.functional.logit_of`
    }

    /** KL over N of weights behind masks, and the prior on the noise; the first layer, never dropped, has none. */
    prior(numData, precision, dropped) {
      const { theta, gradient } = this, { units, logVariance } = theta;
      let kl = 0;
      [["w2", "b2"], ["w3", "b3"]].forEach(([weight, bias], site) => {
        const logit = UNIT * theta.rates[site], odds = dropped ? Math.exp(logit) : 0, p = odds / (1 + odds);
        const norm = addDecay(theta[weight], gradient[weight], (precision * (1 + odds)) / numData);
        kl += 0.5 * precision * (norm * (1 + odds) + addDecay(theta[bias], gradient[bias], precision / numData));
        if (!dropped) return;
        kl -= units * entropy(logit);
        gradient.rates[site] += (0.5 * precision * norm * odds + units * logit * p * (1 - p)) / numData / UNIT;
      });
      const rate = NOISE_SHAPE * NOISE_VARIANCE * Math.exp(-logVariance[0]);
      gradient.logVariance[0] += (NOISE_SHAPE - rate) / numData;
      return (kl + NOISE_SHAPE * logVariance[0] + rate) / numData;
    }

    /** One step of Adam, `pace` times as long as usual; rates stay where they are unless `learned`. */
    step(pace, learned) {
      const { theta, gradient, first, second } = this, all = theta.all, count = all.length;
      this.steps += 1;
      const fix1 = 1 - BETA1 ** this.steps, fix2 = Math.sqrt(1 - BETA2 ** this.steps);
      for (let i = 0; i < count; i++) {
        const isRate = i >= count - 3 && i < count - 1, g = gradient.all[i];
        if (isRate && !learned) continue;
        first[i] += (1 - BETA1) * (g - first[i]);
        second[i] = BETA2 * second[i] + (1 - BETA2) * g * g;
        all[i] -= (pace * (isRate ? RATE_LR : LR) * first[i]) / fix1 / (Math.sqrt(second[i]) / fix2 + EPSILON);
      }
    }
  }

  /** Add the gradient of half a sum of squares, `factor` times; return the sum of squares. */
  function addDecay(values, gradient, factor) {
    let sum = 0;
    for (let i = 0; i < values.length; i++) {
      sum += values[i] * values[i];
      gradient[i] += factor * values[i];
    }
    return sum;
  }

  self.Gumdrop = self.Gumdrop || {};
  self.Gumdrop.network = { Network, initialise, setRate, rates, parameters };
})();
