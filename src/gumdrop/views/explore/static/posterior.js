// The picture of a posterior over functions, with points that can be placed and dragged, and the rates over time.
(function () {
  "use strict";
  const EXTENT = 3, MAX_POINTS = 200, GRAB = 18;

  /** Functions, bands and points in one frame. `changed(points)` is called whenever the visitor moves a point. */
  class Posterior {
    constructor(svg, { editable, changed }) {
      const { draw, Frame } = Gumdrop.plot;
      Object.assign(this, { svg, editable, changed, points: [], draw });
      this.frame = new Frame(svg, {
        x: [-EXTENT, EXTENT], y: [-EXTENT, EXTENT], ratio: 0.52, least: 300, most: 480, xLabel: "x",
        margins: { left: 36, right: 10, top: 10, bottom: 42 }, redraw: () => this.redraw(),
      });
      const clip = `frame-${Math.random().toString(36).slice(2)}`;
      this.clip = draw(draw(svg, "clipPath", { id: clip }), "rect");
      this.frame.marks.setAttribute("clip-path", `url(#${clip})`);
      const layer = (name) => draw(this.frame.marks, "path", { class: name });
      this.layers = { noise: layer("noise"), epistemic: layer("epistemic") };
      this.draws = draw(this.frame.marks, "g");
      this.layers.mean = layer("mean");
      this.dots = draw(svg, "g", { role: "group", "aria-label": "Points" });
      if (editable) this.listen();
      this.redraw();
    }

    redraw() {
      const { frame } = this;
      frame.drawAxes([-3, -2, -1, 0, 1, 2, 3], [-3, -2, -1, 0, 1, 2, 3]);
      const box = { x: frame.left, y: frame.top, width: frame.width, height: frame.depth };
      for (const key in box) this.clip.setAttribute(key, box[key]);
      if (this.shown) this.paint(this.shown);
      this.showPoints();
    }

    /** Show what a frame of training says (means and standard deviations on an even grid), gliding to it. */
    show(data) {
      this.frameData = data;
      const target = [data.mean, data.epistemic, data.aleatoric, ...data.draws];
      const glides = this.shown?.length === target.length && !matchMedia("(prefers-reduced-motion: reduce)").matches;
      cancelAnimationFrame(this.gliding);
      if (glides) this.glide(target, 8);
      else this.paint(target);
    }

    /** Go an equal part of the way with each frame of the screen, so that frames of training do not jump. */
    glide(target, left) {
      this.paint(this.shown.map((row, i) => row.map((value, j) => value + (target[i][j] - value) / left)));
      if (left > 1) this.gliding = requestAnimationFrame(() => this.glide(target, left - 1));
    }

    paint(rows) {
      this.shown = rows;
      const [mean, epistemic, aleatoric, ...draws] = rows;
      const xs = mean.map((_, i) => -EXTENT + (2 * EXTENT * i) / (mean.length - 1));
      const edge = (sign, spread) => mean.map((value, i) => value + 2 * sign * spread(i));
      const inner = (i) => epistemic[i], total = (i) => Math.hypot(epistemic[i], aleatoric[i]);
      this.layers.noise.setAttribute("d", this.frame.band(xs, edge(-1, total), edge(1, total)));
      this.layers.epistemic.setAttribute("d", this.frame.band(xs, edge(-1, inner), edge(1, inner)));
      this.layers.mean.setAttribute("d", this.frame.line(xs, mean));
      while (this.draws.childElementCount < draws.length) this.draw(this.draws, "path", { class: "draw" });
      draws.forEach((values, i) => this.draws.children[i].setAttribute("d", this.frame.line(xs, values)));
    }

    setPoints(points) {
      this.points = points.map(([x, y]) => [x, y]);
      this.showPoints();
    }

    showPoints() {
      while (this.dots.childElementCount > this.points.length) this.dots.lastElementChild.remove();
      while (this.dots.childElementCount < this.points.length) this.addDot();
      this.points.forEach(([x, y], i) => {
        const dot = this.dots.children[i];
        dot.setAttribute("transform", `translate(${this.frame.x(x).toFixed(1)} ${this.frame.y(y).toFixed(1)})`);
        if (this.editable) dot.setAttribute("aria-label", `Point ${i + 1}: x ${x.toFixed(1)}, y ${y.toFixed(1)}`);
      });
    }

    addDot() {
      const reach = this.editable ? { tabindex: 0, role: "button", "aria-roledescription": "movable point" } : {};
      const dot = this.draw(this.dots, "g", { class: "point", ...reach });
      this.draw(dot, "circle", { r: GRAB });
      this.draw(dot, "circle", { r: 5.5 });
    }

    /** Points with one place more; null where there is no room. */
    add(x, y) {
      if (this.points.length >= MAX_POINTS) return null;
      this.points.push([clip(x), clip(y)]);
      this.moved();
      return this.points.length - 1;
    }

    remove(index) {
      this.points.splice(index, 1);
      this.moved();
    }

    moved() {
      this.showPoints();
      this.changed(this.points);
    }

    focus(index) {
      this.dots.children[index]?.focus({ preventScroll: true });
    }

    nearest(event) {
      const box = this.svg.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const far = this.points.map(([a, b]) => Math.hypot(this.frame.x(a) - x, this.frame.y(b) - y));
      const least = Math.min(...far);
      return least <= GRAB ? far.indexOf(least) : -1;
    }

    listen() {
      const { svg, frame } = this;
      const outside = ([x, y]) => Math.max(Math.abs(x), Math.abs(y)) > EXTENT * 1.06;
      let held = -1, grip = [0, 0];
      const dot = () => this.dots.children[held];
      svg.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || !event.isPrimary) return;
        const place = frame.at(event);
        held = this.nearest(event);
        if (held < 0 && outside(place)) return;
        event.preventDefault();
        if (held < 0) held = this.add(...place) ?? -1;
        if (held < 0) return;
        grip = [this.points[held][0] - place[0], this.points[held][1] - place[1]];
        svg.setPointerCapture(event.pointerId);
        dot().classList.add("dragged");
        this.focus(held);
      });
      svg.addEventListener("pointermove", (event) => {
        if (held < 0 || !event.isPrimary) return;
        const place = frame.at(event).map((value, i) => value + grip[i]);
        dot().classList.toggle("leaving", outside(place));
        this.points[held] = place.map(clip);
        this.moved();
      });
      const end = (event) => {
        if (held < 0 || !event.isPrimary) return;
        const leaves = dot().classList.contains("leaving");
        dot().classList.remove("dragged", "leaving");
        if (leaves) this.remove(held);
        held = -1;
      };
      svg.addEventListener("pointerup", end);
      svg.addEventListener("pointercancel", end);
      this.dots.addEventListener("keydown", (event) => this.press(event));
    }

    press(event) {
      const index = [...this.dots.children].indexOf(event.target);
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      if (event.key in moves) {
        const size = event.shiftKey ? 0.5 : 0.1;
        this.points[index] = this.points[index].map((value, i) => clip(value + size * moves[event.key][i]));
        this.moved();
      } else if (event.key === "Delete" || event.key === "Backspace") {
        this.remove(index);
        this.focus(Math.min(index, this.points.length - 1));
      } else return;
      event.preventDefault();
    }
  }
  const clip = (value) => Math.round(1000 * Math.min(EXTENT, Math.max(-EXTENT, value))) / 1000;

  /** The rates of all layers over the steps of training. */
  class Rates {
    constructor(svg, colours) {
      this.frame = new Gumdrop.plot.Frame(svg, {
        x: [0, 100], y: [0, 0.6], ratio: 0.5, least: 180, most: 240, xLabel: "steps of training",
        margins: { left: 36, right: 20, top: 10, bottom: 42 }, redraw: () => this.redraw(),
      });
      const line = (colour) => Gumdrop.plot.draw(this.frame.marks, "path", { class: "rate", style: `stroke:${colour}` });
      this.lines = colours.map(line);
      this.clear();
    }

    clear() { this.setHistory([]); }

    /** Show rates over steps: pairs of a number of steps and the rates of all layers. */
    setHistory(history) {
      this.history = history;
      this.redraw();
    }

    /** Remember a frame; of a long history every second one is forgotten. */
    add(steps, rates) {
      const last = this.history.at(-1);
      if (last && last[0] === steps) this.history.pop();
      this.history.push([steps, Object.values(rates)]);
      this.setHistory(this.history.length > 800 ? this.history.filter((_, i) => i % 2 === 0) : this.history);
    }

    redraw() {
      const steps = this.history.map(([step]) => step), values = this.history.flatMap(([, rates]) => rates);
      const last = steps.at(-1) ?? 0;
      const size = [100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000].find((top) => top >= last) ?? last;
      this.frame.xRange = [0, size];
      this.frame.yRange = [0, Math.max(0, ...values) > 0.58 ? 1 : 0.6];
      this.frame.drawAxes([0, size / 2, size], this.frame.yRange[1] === 1 ? [0, 0.5, 1] : [0, 0.2, 0.4, 0.6]);
      this.lines.forEach((line, i) => line.setAttribute("d", this.frame.line(steps, this.history.map(([, p]) => p[i]))));
    }
  }

  window.Gumdrop = window.Gumdrop || {};
  Object.assign(window.Gumdrop, { Posterior, Rates });
})();
