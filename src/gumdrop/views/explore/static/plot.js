// What the pictures of this page share: SVG elements, axes, ranges on a log scale.
(function () {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";

  /** Make an SVG element inside another. */
  function draw(parent, name, attributes = {}, text) {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  }

  /** A frame of axes in an SVG that follows its width; calls `redraw` whenever that changes. */
  class Frame {
    constructor(svg, { x, y, ratio, least, most, xLabel, margins, redraw }) {
      Object.assign(this, { svg, xRange: x, yRange: y, ratio, least, most, xLabel, margins });
      this.axes = draw(svg, "g", { "aria-hidden": "true" });
      this.marks = draw(svg, "g");
      new ResizeObserver(() => { this.measure(); redraw(); }).observe(svg);
      this.measure();
    }

    measure() {
      const width = Math.max(120, Math.round(this.svg.getBoundingClientRect().width));
      this.height = Math.round(Math.min(this.most, Math.max(this.least, this.ratio * width)));
      this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`); // so that it shrinks where paper is narrower
      const { left, right, top, bottom } = this.margins;
      Object.assign(this, { left, top, width: width - left - right, depth: this.height - top - bottom });
    }

    x(value) { return this.left + ((value - this.xRange[0]) / (this.xRange[1] - this.xRange[0])) * this.width; }
    y(value) { return this.top + ((this.yRange[1] - value) / (this.yRange[1] - this.yRange[0])) * this.depth; }
    /** The place of a point of the screen. */
    at(event) {
      const box = this.svg.getBoundingClientRect();
      const across = (event.clientX - box.left - this.left) / this.width;
      const down = (event.clientY - box.top - this.top) / this.depth;
      return [
        this.xRange[0] + across * (this.xRange[1] - this.xRange[0]),
        this.yRange[1] - down * (this.yRange[1] - this.yRange[0]),
      ];
    }

    drawAxes(xTicks, yTicks) {
      const text = (value) => String(value).replace("-", "−");
      this.axes.replaceChildren();
      for (const value of yTicks) {
        const y = this.y(value);
        draw(this.axes, "line", { class: "grid", x1: this.left, x2: this.left + this.width, y1: y, y2: y });
        draw(this.axes, "text", { x: this.left - 8, y: y + 4, "text-anchor": "end" }, text(value));
      }
      const bottom = this.top + this.depth;
      for (const value of xTicks) {
        draw(this.axes, "text", { x: this.x(value), y: bottom + 18, "text-anchor": "middle" }, text(value));
      }
      draw(this.axes, "text", { x: this.left + this.width / 2, y: bottom + 37, "text-anchor": "middle" }, this.xLabel);
    }

    line(xs, ys) {
      return xs.map((x, i) => `${i ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(ys[i]).toFixed(1)}`).join("");
    }

    band(xs, low, high) {
      const back = xs.map((x, i) => `L${this.x(x).toFixed(1)} ${this.y(low[i]).toFixed(1)}`).reverse().join("");
      return `${this.line(xs, high)}${back}Z`;
    }
  }

  /** Short text of a number of any size. */
  const short = (value) => value.toFixed([9.95, 0.995, 0.0995].filter((size) => value < size).length);

  /** A slider with its label: on a log scale where `log` is set. Returns { value, input }. */
  function slider(parent, { label, low, high, value, log = false, step, text = short, change }) {
    const box = parent.appendChild(document.createElement("div"));
    box.className = "control";
    const id = `slider-${++made}`;
    box.innerHTML = `<label for="${id}"><span></span><output></output></label><input id="${id}" type="range">`;
    const input = box.querySelector("input"), output = box.querySelector("output");
    box.querySelector("span").textContent = label;
    const inner = log ? Math.log : (number) => number, outer = log ? Math.exp : (number) => number;
    Object.assign(input, { min: inner(low), max: inner(high), step: step ?? "any" });
    const control = {
      input,
      get value() { return Math.min(high, Math.max(low, outer(Number(input.value)))); },
      set value(number) { input.value = inner(number); show(); },
    };
    const show = () => {
      output.textContent = text(control.value);
      input.setAttribute("aria-valuetext", output.textContent);
    };
    control.value = value;
    input.addEventListener("input", () => { show(); change(control.value); });
    return control;
  }
  let made = 0;

  self.Gumdrop = self.Gumdrop || {};
  self.Gumdrop.plot = { draw, Frame, slider, short };
})();
