// What the picture says, in words that are measured from it.
(function () {
  "use strict";
  const EXTENT = 3, GAP = 0.8;
  /** Times as wide as at the points from which on a band is said to open, and share of the exact one to be no narrow one. */
  const OPENS = 3, WIDE = 0.5;

  const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  /** The widest place without points: between two of them if that is wide enough, else beyond them; or null. */
  function emptiest(points) {
    const xs = points.map(([x]) => x).sort((a, b) => a - b);
    const gaps = xs.slice(1).map((x, i) => ({ where: "between", low: xs[i], high: x }));
    const edges = [{ where: "beyond", low: -EXTENT, high: xs[0] }, { where: "beyond", low: xs.at(-1), high: EXTENT }];
    const widest = (places) => places.toSorted((a, b) => b.high - b.low - (a.high - a.low)).find((p) => p.high - p.low >= GAP);
    return widest(gaps) ?? widest(edges) ?? null;
  }

  /** Mean standard deviation at the points, and in the middle half of the widest place without any. */
  function openness(points, epistemic) {
    const place = points.length ? emptiest(points) : null;
    if (!place) return null;
    const step = (2 * EXTENT) / (epistemic.length - 1), quarter = (place.high - place.low) / 4;
    const inside = (_, i) => Math.abs(i * step - EXTENT - (place.low + place.high) / 2) <= quarter;
    const atPoints = average(points.map(([x]) => epistemic[Math.round((x + EXTENT) / step)]));
    const away = average(epistemic.filter(inside));
    return { ...place, atPoints, away, ratio: away / atPoints };
  }

  const short = (value) => value.toLocaleString("en", { maximumSignificantDigits: 2 });
  const times = (ratio) => `${short(ratio)} times`;

  const PRIORS = {
    dropout: (frame, { lengthscale }) => {
      const spread = short(average(frame.epistemic));
      return `No points: functions of the prior N(0, 1/l²) on the weights. At l = ${short(lengthscale)} their standard `
        + `deviation is ${spread}: anything goes. Raise l, and the functions get flatter.`;
    },
    ensemble: () => "No points: eight untrained networks. What an ensemble believes beforehand is how its weights are drawn.",
    process: () => "No points: the prior, functions whose standard deviation is 1 everywhere.",
  };

  const NAMES = { dropout: "learned dropout", ensemble: "eight networks", process: "the exact Gaussian process" };
  const nameOf = ({ model, rates }) => (model === "dropout" && rates === "fixed" ? "dropout at a fixed rate" : NAMES[model]);

  /** The caption of a frame. */
  function caption(frame, points, settings) {
    if (!points.length) return PRIORS[settings.model](frame, settings);
    if (settings.model === "dropout" && settings.rates === "off") {
      return "Without dropout there is one function. It says nothing of how sure it is: its spread is 0 everywhere.";
    }
    const own = openness(points, frame.epistemic), exact = openness(points, frame.exact);
    if (!own) {
      const spreads = [frame.epistemic, frame.exact].map((values) => short(average(values)));
      return `There are points everywhere. The functions of ${nameOf(settings)} spread by ${spreads[0]} (SD), those of an exact `
        + `Gaussian process by ${spreads[1]}.`;
    }
    const where = own.where === "between" ? "Between the points" : "Beyond the points";
    const measured = `${where}, the functions of ${nameOf(settings)} spread ${times(own.ratio)} as wide as at them (SD ${short(own.away)})`;
    if (settings.model === "process") return `${measured}: it knows where it has not looked.`;
    const beside = `those of an exact Gaussian process, ${times(exact.ratio)} (${short(exact.away)})`;
    return `${measured}; ${beside}. ${verdict(own, exact)}`;
  }

  function verdict(own, exact) {
    if (own.ratio < 1.2) return "The band does not open.";
    if (own.ratio < OPENS) return "The band hardly opens.";
    return own.away < WIDE * exact.away ? "The band opens, and stays narrow beside the exact one." : "The band opens.";
  }

  Gumdrop.captions = { caption, openness, emptiest };
})();
