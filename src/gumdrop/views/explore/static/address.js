// What is on the page, as the part of its address behind #: to keep it, and to send it to somebody.
(function () {
  "use strict";
  const NUMBERS = ["p", "repeat", "lengthscale", "temperature", "seed"];
  const CHOICES = { model: ["dropout", "ensemble", "process"], rates: ["learned", "fixed", "off"] };

  /** Text of an address: the points, and the settings that are not the usual ones. */
  function write(points, settings, usual) {
    const parts = [`points=${points.map((place) => place.map((value) => Math.round(100 * value) / 100).join(",")).join(";")}`];
    for (const name in usual) {
      if (settings[name] === usual[name]) continue;
      parts.push(`${name}=${typeof usual[name] === "number" ? Number(settings[name].toPrecision(4)) : settings[name]}`);
    }
    return `#${parts.join("&")}`;
  }

  /** Points and settings of an address; null where it holds none. What is no number in its limits is left out. */
  function read(hash, usual, limits) {
    const found = new URLSearchParams(hash.slice(1)), settings = { ...usual };
    if (!found.has("points")) return null;
    for (const name in CHOICES) if (CHOICES[name].includes(found.get(name))) settings[name] = found.get(name);
    for (const name of NUMBERS) {
      const value = Number(found.get(name)), [low, high] = limits[name];
      if (found.has(name) && value >= low && value <= high) settings[name] = value;
    }
    const places = found.get("points").split(";").map((text) => text.split(",").map(Number));
    const points = places.filter((place) => place.length === 2 && place.every((value) => Math.abs(value) <= 3)).slice(0, 200);
    return { points: found.get("points") ? points : [], settings };
  }

  Gumdrop.address = { write, read };
})();
