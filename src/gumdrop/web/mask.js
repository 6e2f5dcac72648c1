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

  window.Gumdrop = window.Gumdrop || {};
  window.Gumdrop.mask = { softKeep, hardKeep, cdf };
})();
