// An exact Gaussian process on the same points: what a posterior over functions is when nothing is approximated.
(function () {
  "use strict";

  const WIDTH = 0.5;
  /** Variance that keeps the root of a smooth covariance stable: a thousandth in standard deviation, which nobody sees. */
  const JITTER = 1e-6;
  /** Squared exponential kernel of standard deviation 1. */
  const kernel = (a, b) => Math.exp(-0.5 * ((a - b) / WIDTH) ** 2);

  /** Lower triangle L with L L' = A, in place of A; rows of `size`. */
  function cholesky(a, size) {
    for (let j = 0; j < size; j++) {
      for (let i = j; i < size; i++) {
        let sum = a[i * size + j];
        for (let k = 0; k < j; k++) sum -= a[i * size + k] * a[j * size + k];
        a[i * size + j] = i === j ? Math.sqrt(sum) : sum / a[j * size + j];
      }
    }
    return a;
  }

  /** Solve L b = b, in place. */
  function forward(lower, size, b) {
    for (let i = 0; i < size; i++) {
      let sum = b[i];
      for (let k = 0; k < i; k++) sum -= lower[i * size + k] * b[k];
      b[i] = sum / lower[i * size + i];
    }
    return b;
  }

  /**
   * Posterior on a grid, given points, the variance of one observation, and standard normal numbers for each function to
   * draw. With no points it is the prior.
   */
  function posterior(points, grid, variance, normals) {
    const n = points.length, size = grid.length;
    const gram = new Float64Array(n * n);
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) gram[i * n + j] = kernel(points[i][0], points[j][0]) + (i === j ? variance : 0);
    }
    const lower = cholesky(gram, n), target = forward(lower, n, Float64Array.from(points, ([, y]) => y));
    const seen = Array.from(grid, (x) => forward(lower, n, Float64Array.from(points, ([at]) => kernel(at, x))));
    const dot = (a, b) => { let sum = 0; for (let k = 0; k < n; k++) sum += a[k] * b[k]; return sum; };
    const mean = seen.map((row) => dot(row, target));
    const covariance = new Float64Array(size * size);
    for (let i = 0; i < size; i++) {
      for (let j = 0; j <= i; j++) covariance[i * size + j] = kernel(grid[i], grid[j]) - dot(seen[i], seen[j]);
    }
    const epistemic = mean.map((_, i) => Math.sqrt(Math.max(0, covariance[i * size + i])));
    for (let i = 0; i < size; i++) covariance[i * size + i] += JITTER;
    const root = cholesky(covariance, size);
    const draws = normals.map((z) => mean.map((value, i) => {
      for (let k = 0; k <= i; k++) value += root[i * size + k] * z[k];
      return value;
    }));
    return { mean, epistemic, draws };
  }

  self.Gumdrop = self.Gumdrop || {};
  self.Gumdrop.process = { posterior };
})();
