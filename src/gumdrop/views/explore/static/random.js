// Random numbers from a seed: the same in every browser.
(function () {
  "use strict";

  /** A generator of uniform numbers in (0, 1): mulberry32, whose state is one 32-bit number. */
  function uniform(seed) {
    let state = Math.imul(seed + 1, 0x9e3779b9) | 0;
    return function next() {
      state = (state + 0x6d2b79f5) | 0;
      let bits = Math.imul(state ^ (state >>> 15), 1 | state);
      bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
      return (((bits ^ (bits >>> 14)) >>> 0) + 0.5) / 4294967296; // never 0, which has no odds
    };
  }

  /** Standard normal numbers from uniform ones (Box and Muller 1958). */
  const normal = (next) => () => Math.sqrt(-2 * Math.log(next())) * Math.cos(2 * Math.PI * next());

  self.Gumdrop = self.Gumdrop || {};
  self.Gumdrop.random = { uniform, normal };
})();
