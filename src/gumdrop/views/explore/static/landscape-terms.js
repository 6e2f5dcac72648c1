// The loss of one dropout rate, in two forms, its slope, its minimum and the way down to it. First of the three scripts of
// the widget, which `gumdrop explore --out` writes as one, `loss-landscape.js`; put
//     <div class="ml-widget" data-algo="concrete-dropout"></div>
// anywhere in a page that loads it. Colours follow the page's `color-scheme`.
(function () {
  "use strict";

  const LOW = 0.01, HIGH = 0.99;
  const STEP = 0.003, STILL = 1e-5, MOST = 20000;
  const STEP_MS = 42, UNSEEN = 5e-4;
  const SQUARE_NORM = 0.25, NOISE_VARIANCE = 1;

  const entropy = (p) => -p * Math.log(p) - (1 - p) * Math.log1p(-p);
  const entropyTerm = (p, factor) => ({
    value: -factor * entropy(p),
    slope: -factor * Math.log((1 - p) / p),
    curvature: factor / (p * (1 - p)),
  });

  /** The specification's sketch: L(p) = cLik p + cW (1-p)^2 - cE H(p), its three terms. */
  function sketch(p, cLik, cW, cE) {
    return {
      likelihood: { value: cLik * p, slope: cLik, curvature: 0 },
      weights: { value: cW * (1 - p) ** 2, slope: -2 * cW * (1 - p), curvature: 2 * cW },
      entropy: entropyTerm(p, cE),
    };
  }
  const coefficients = (N, K) => [1 / N, 0.8, K / N];
  const stylised = (p, N, K) => sketch(p, ...coefficients(N, K));

  /**
   * What gumdrop minimises, per datum, for a linear layer of K inputs whose stored weights W stay put:
   * S p / (2 v (1-p)) + (l^2 S / (2 (1-p)) - K H(p)) / N with S = |W|^2, noise variance v and l^2 = K ("fan_in").
   */
  function library(p, N, K) {
    const keep = 1 - p;
    const likelihood = SQUARE_NORM / (2 * NOISE_VARIANCE);
    const weights = (K * SQUARE_NORM) / (2 * N);
    const odds = (factor, value) => ({ value, slope: factor / keep ** 2, curvature: (2 * factor) / keep ** 3 });
    return {
      likelihood: odds(likelihood, (likelihood * p) / keep),
      weights: odds(weights, weights / keep),
      entropy: entropyTerm(p, K / N),
    };
  }

  const OBJECTIVES = { stylised, library };
  const TERMS = ["likelihood", "weights", "entropy"];

  const summed = (terms, part) => TERMS.reduce((sum, name) => sum + terms[name][part], 0);
  const total = (objective, p, N, K, part) => summed(OBJECTIVES[objective](p, N, K), part);
  const loss = (objective, p, N, K) => total(objective, p, N, K, "value");
  const slope = (objective, p, N, K) => total(objective, p, N, K, "slope");
  const clip = (p) => Math.min(HIGH, Math.max(LOW, p));

  /** p* by bisection on the slope, which rises with p: both objectives are convex. */
  function optimum(objective, N, K) {
    let low = LOW, high = HIGH;
    for (let i = 0; i < 60; i++) {
      const middle = (low + high) / 2;
      if (slope(objective, middle, N, K) < 0) low = middle; else high = middle;
    }
    return (low + high) / 2;
  }

  /** One step down. Never further than Newton's step, because the plain one overshoots where K/N is large. */
  function step(objective, p, N, K) {
    const bound = 1 / total(objective, p, N, K, "curvature");
    return clip(p - Math.min(STEP, bound) * slope(objective, p, N, K));
  }

  /** Whether there is nowhere left to go: the slope is 0, or points out of the frame. */
  function isStill(objective, p, N, K) {
    const push = slope(objective, p, N, K);
    return Math.abs(push) < STILL || (p <= LOW && push > 0) || (p >= HIGH && push < 0);
  }

  /** The way down: p after each step, to the place where there is nowhere left to go. */
  function descent(objective, p, N, K) {
    const path = [p];
    while (!isStill(objective, p, N, K) && path.length < MOST) path.push((p = step(objective, p, N, K)));
    return [...path.slice(0, path.findLastIndex((q) => Math.abs(q - p) > UNSEEN) + 1), p];
  }

  /** The ball after some milliseconds: a step takes STEP_MS. */
  function placeAt(path, ms) {
    const at = ms / STEP_MS, step = Math.floor(at), [from, to] = path.slice(step);
    return to === undefined ? path.at(-1) : from + (at - step) * (to - from);
  }

  const FORMULAS = {
    stylised: {
      total: "L(p) = p/N + 0.8 (1−p)² − (K/N) H(p)",
      likelihood: "p / N", weights: "0.8 (1−p)²", entropy: "−(K/N) H(p)",
    },
    library: {
      total: "L(p) = ‖W‖²/2σ² · p/(1−p) + [ l²/2 · ‖W‖²/(1−p) − K H(p) ] / N",
      likelihood: "‖W‖²/2σ² · p/(1−p)", weights: "l²/2N · ‖W‖²/(1−p)", entropy: "−(K/N) H(p)",
    },
  };
  const TALES = {
    stylised: "For the feel of it. The likelihood’s cost is p/N and fades as data grow; the weight term holds "
      + "the weights before the mask, and gets cheaper as p grows. Likelihood pulls left, weights push right, entropy "
      + "draws towards ½. Take care: here p* is never below ½, and more data move it up. Real training does the opposite.",
    library: "What gumdrop minimises, for a linear layer whose stored weights stay put (‖W‖² = 0.25, noise variance "
      + "σ² = 1, prior l² = K). Two things differ from the sketch. Masks are noise in every prediction, so the "
      + "likelihood’s cost per datum does not fade with N. And the stored weight already holds the keep probability, "
      + "so its cost grows with p. Both push p down; entropy alone draws it towards ½, and loses as data grow.",
  };

  // The names of the specification, whose objective is the sketch.
  self.MLMath = Object.assign(self.MLMath ?? {}, {
    cdObjective: (p, cLik, cW, cE) => summed(sketch(p, cLik, cW, cE), "value"),
    cdGradient: (p, cLik, cW, cE) => summed(sketch(p, cLik, cW, cE), "slope"),
    cdCoefficients: coefficients,
    argmin: (values) => values.indexOf(Math.min(...values)),
  });
  self.Gumdrop = self.Gumdrop || {};
  self.Gumdrop.landscape = {
    LOW, HIGH, TERMS, FORMULAS, TALES, objectives: OBJECTIVES, clip, loss, slope, optimum, step, isStill, descent,
    STEP_MS, placeAt,
  };
})();
