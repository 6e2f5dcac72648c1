// The widget of the tug-of-war: a ball on the loss of one dropout rate, to push by hand.
(function () {
  "use strict";
  const { LOW, HIGH, TERMS, FORMULAS, TALES, objectives, clip, loss, optimum, descent, STEP_MS, placeAt } = self.Gumdrop.landscape;
  const { STYLE, TEMPLATE, Forces, draw, number, ticks, clearest } = self.Gumdrop.landscapeLook;

  const START = { N: 200, K: 500, p: 0.5 };
  const STATES = { rest: "at rest", held: "held", descending: "descending", arrived: "arrived at p*" };

  let style = null;
  let count = 0;

  class Landscape {
    constructor(host) {
      const root = host.attachShadow({ mode: "open" });
      if (style === null) (style = new CSSStyleSheet()).replaceSync(STYLE);
      root.adoptedStyleSheets = [style];
      root.innerHTML = TEMPLATE;
      this.find = (selector) => root.querySelector(selector);
      Object.assign(this, START, { host, svg: this.find("svg"), objective: "library" });
      this.name = `objective-${++count}`;
      this.forces = new Forces(this.find(".forces"));
      this.makeFrame();
      this.listen();
      this.reset();
      new ResizeObserver(() => this.redraw()).observe(this.svg);
    }

    // State

    /** The ball where it was at first. N and K stay. */
    reset() {
      this.stop();
      Object.assign(this, { p: START.p, state: "rest", dragging: false });
      this.redraw();
      this.announce();
    }

    place(p) {
      this.stop();
      this.p = clip(p);
      this.setState("held");
      this.soon();
    }

    /** Let the ball go down by the steps of gradient descent, to where they end. */
    release() {
      this.stop();
      const path = descent(this.objective, this.p, this.N, this.K), begin = performance.now();
      this.setState("descending");
      const roll = () => {
        const still = matchMedia("(prefers-reduced-motion: reduce)").matches || !this.host.isConnected;
        const stepAccumMs = still ? Infinity : performance.now() - begin;
        this.p = placeAt(path, stepAccumMs);
        if (stepAccumMs >= STEP_MS * (path.length - 1)) this.setState("arrived");
        else this.rolling = requestAnimationFrame(roll);
        this.paint();
      };
      roll();
    }

    stop() { cancelAnimationFrame(this.rolling); }

    setState(state) {
      if (this.state === state) return;
      this.state = state;
      this.announce();
    }

    /** For screen readers: what happened, once, and not at every step. */
    announce() {
      const place = `p ${number(this.p, 2)}, loss ${number(loss(this.objective, this.p, this.N, this.K), 2)}`;
      this.find("[role=status]").textContent = `Ball ${STATES[this.state]}: ${place}.`;
    }

    // Input

    listen() {
      const { svg } = this;
      let grip = 0, onBall = false;
      const at = (event) => {
        const box = svg.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
      };
      svg.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || !event.isPrimary) return;
        const [x, y] = at(event);
        onBall = Math.hypot(x - this.x(this.p), y - this.ballY()) <= 22;
        if (event.pointerType === "touch" && !onBall) return; // a swipe from elsewhere scrolls, and a tap places the ball
        grip = onBall ? x - this.x(this.p) : 0;
        svg.setPointerCapture(event.pointerId);
        this.hit.focus({ preventScroll: true, focusVisible: false });
        event.preventDefault();
        this.place(onBall ? this.p : this.pAt(x));
        this.dragging = true;
      });
      svg.addEventListener("click", (event) => {
        if (event.pointerType !== "touch" || onBall) return;
        this.place(this.pAt(at(event)[0]));
        this.release();
      });
      // Browsers take `touch-action` from the whole picture, not from the ball in it.
      svg.addEventListener("touchstart", (event) => { if (onBall) event.preventDefault(); }, { passive: false });
      svg.addEventListener("pointermove", (event) => {
        if (this.dragging && event.isPrimary) this.place(this.pAt(at(event)[0] - grip));
      });
      for (const kind of ["pointerup", "pointercancel"]) {
        svg.addEventListener(kind, (event) => {
          if (!this.dragging || !event.isPrimary) return;
          this.dragging = false;
          this.release();
        });
      }
      this.hit.addEventListener("keydown", (event) => this.press(event));
      this.find("[data-do=release]").addEventListener("click", () => this.release());
      this.find("[data-do=reset]").addEventListener("click", () => this.reset());
      const change = (set) => (event) => {
        set(Number(event.target.value));
        this.change();
      };
      this.find("#N").addEventListener("input", change((value) => (this.N = Math.round(10 ** value))));
      this.find("#K").addEventListener("input", change((value) => (this.K = value)));
      for (const radio of this.radios) {
        radio.name = this.name;
        radio.addEventListener("change", () => {
          this.objective = radio.value;
          this.change();
        });
      }
    }

    /** Another landscape: a ball that is on its way goes on in it. */
    change() {
      if (this.state === "arrived") this.setState("rest");
      this.redraw();
      if (this.state === "descending") this.release();
    }

    get radios() { return this.host.shadowRoot.querySelectorAll("input[type=radio]"); }

    press(event) {
      const small = { ArrowLeft: -0.01, ArrowDown: -0.01, ArrowRight: 0.01, ArrowUp: 0.01 };
      const moves = { ...small, PageDown: -0.1, PageUp: 0.1, Home: -1, End: 1 };
      if (event.key in moves) this.place(this.p + moves[event.key]);
      else if (event.key === "Enter" || event.key === " ") this.release();
      else return;
      event.preventDefault();
    }

    // The frame

    makeFrame() {
      const { svg } = this;
      this.grid = draw(svg, "g", { "aria-hidden": "true" });
      this.terms = TERMS.map((name) => draw(svg, "path", { class: `term ${name}` }));
      this.curve = draw(svg, "path", { class: "curve" });
      this.names = ["total", ...TERMS].map((name) => draw(svg, "text", { class: `name ${name}` }, name));
      this.line = draw(svg, "line", { class: "optimum" });
      this.label = draw(svg, "text", { class: "optimum-label", y: 14 });
      const group = draw(svg, "g", { class: "ball-group" });
      this.group = group;
      this.hit = draw(group, "circle", {
        class: "hit", r: 22, tabindex: 0, role: "slider", "aria-label": "Drop probability p: the ball",
        "aria-valuemin": LOW, "aria-valuemax": HIGH, "aria-orientation": "horizontal",
      });
      draw(group, "circle", { class: "ring", r: 19 });
      draw(group, "circle", { class: "ball", r: 14 });
    }

    x(p) { return this.left + p * this.across; }
    pAt(x) { return (x - this.left) / this.across; }
    y(value) { return this.bottom - ((value - this.low) / (this.high - this.low)) * (this.bottom - this.top); }
    ballY() {
      const y = this.y(loss(this.objective, this.p, this.N, this.K));
      return Math.min(this.bottom - 14, Math.max(this.top, y));
    }

    /** Draw everything anew: after a control, the objective or the size has changed. */
    redraw() {
      const width = Math.max(120, Math.round(this.svg.getBoundingClientRect().width));
      const height = Math.round(Math.min(400, Math.max(270, 0.5 * width)));
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`); // so that it shrinks where paper is narrower
      Object.assign(this, { left: 60, across: width - 60 - 24, top: 38, bottom: height - 42 });
      this.best = optimum(this.objective, this.N, this.K);
      this.drawCurves();
      this.drawGrid(width, height);
      this.drawOptimum();
      this.write();
      this.paint();
    }

    drawCurves() {
      const { objective, N, K } = this;
      const ps = Array.from({ length: 200 }, (_, i) => LOW + ((HIGH - LOW) * i) / 199);
      const values = ps.map((p) => objectives[objective](p, N, K));
      const sums = values.map((terms) => TERMS.reduce((sum, name) => sum + terms[name].value, 0));
      // The library's terms grow without bound towards p = 1: what lies beyond p = 0.8 does not set the frame.
      const seen = values.map((terms, i) => [sums[i], ...TERMS.map((name) => terms[name].value)]);
      const inside = seen.filter((_, i) => objective === "stylised" || ps[i] <= 0.8).flat();
      const low = Math.min(...inside), high = Math.max(...inside), margin = 0.06 * (high - low);
      Object.assign(this, { low: low - margin, high: high + margin });
      const floor = (y) => Math.max(-50, y).toFixed(2);
      const point = (value, i) => `${i ? "L" : "M"}${this.x(ps[i]).toFixed(2)} ${floor(this.y(value))}`;
      const path = (numbers) => numbers.map(point).join("");
      this.curve.setAttribute("d", path(sums));
      TERMS.forEach((name, i) => this.terms[i].setAttribute("d", path(values.map((terms) => terms[name].value))));
      this.nameCurves(ps, seen);
    }

    /** Write the name of each curve beside it, where there is room. */
    nameCurves(ps, seen) {
      const isFree = (i) => Math.abs(this.x(ps[i]) - this.x(this.best)) > Math.min(40, 0.1 * this.across); // of p*'s line
      const places = Array.from({ length: 30 }, (_, i) => 12 + 6 * i).filter(isFree);
      const taken = [{ x: this.x(START.p), y: this.y(loss(this.objective, START.p, this.N, this.K)) }]; // the ball, at first
      const xs = places.map((i) => this.x(ps[i]));
      const rows = this.names.map((_, k) => places.map((i) => this.y(seen[i][k])));
      this.names.forEach((label, k) => {
        const place = clearest(xs, rows, k, taken, this.top, this.bottom);
        taken.push(place);
        label.setAttribute("x", place.x.toFixed(1));
        label.setAttribute("y", place.y.toFixed(1));
        label.setAttribute("text-anchor", place.x < this.left + 50 ? "start" : "middle");
      });
    }

    drawGrid(width, height) {
      this.grid.replaceChildren();
      const decimals = (size) => Math.max(0, -Math.floor(Math.log10(size) + 1e-9));
      const levels = ticks(this.low, this.high, 4);
      const digits = decimals(levels[1] - levels[0]);
      for (const value of levels) {
        const y = this.y(value);
        draw(this.grid, "line", { class: "grid", x1: this.left, x2: this.left + this.across, y1: y, y2: y });
        const text = value.toFixed(digits).replace("-", "−");
        draw(this.grid, "text", { x: this.left - 18, y: y + 4, "text-anchor": "end" }, text);
      }
      for (const p of [0, 0.25, 0.5, 0.75, 1]) {
        draw(this.grid, "text", { x: this.x(p), y: height - 24, "text-anchor": "middle" }, String(p));
      }
      draw(this.grid, "text", { x: this.x(0.5), y: height - 5, "text-anchor": "middle" }, "drop probability p");
      draw(this.grid, "text", { x: 2, y: 14 }, "nats");
    }

    drawOptimum() {
      const x = this.x(this.best);
      const ends = { x1: x, x2: x, y1: 20, y2: this.bottom };
      for (const key in ends) this.line.setAttribute(key, ends[key]);
      const anchor = this.best < 0.12 ? "start" : this.best > 0.88 ? "end" : "middle";
      this.label.setAttribute("x", x);
      this.label.setAttribute("text-anchor", anchor);
      this.label.textContent = `p* = ${number(this.best, 3)}`;
    }

    /** Words and controls that change with the settings. */
    write() {
      this.find(".formula").textContent = FORMULAS[this.objective].total;
      this.find(".which").textContent = this.objective === "stylised" ? "A sketch" : "The true terms";
      this.find(".tale").textContent = TALES[this.objective];
      for (const name of TERMS) this.forces.bars[name].label.title = FORMULAS[this.objective][name];
      for (const [id, value, position] of [["N", this.N, Math.log10(this.N)], ["K", this.K, this.K]]) {
        const input = this.find(`#${id}`), text = value.toLocaleString("en");
        if (id === "K" || Math.round(10 ** input.value) !== value) input.value = position;
        input.setAttribute("aria-valuetext", text);
        input.previousElementSibling.querySelector("output").textContent = text;
      }
    }

    /** Paint the ball with the next frame, however many events come before it. */
    soon() {
      this.frame ??= requestAnimationFrame(() => {
        this.frame = null;
        this.paint();
      });
    }

    paint() {
      const { objective, p, N, K } = this;
      this.group.setAttribute("transform", `translate(${this.x(p).toFixed(2)} ${this.ballY().toFixed(2)})`);
      for (const state of ["held", "descending"]) this.svg.classList.toggle(state, this.state === state);
      const value = loss(objective, p, N, K);
      this.hit.setAttribute("aria-valuenow", p.toFixed(3));
      this.hit.setAttribute("aria-valuetext", `p ${p.toFixed(2)}, loss ${number(value, 2)}`);
      const facts = { p: number(p), loss: number(value), optimum: number(this.best), state: STATES[this.state] };
      for (const name in facts) this.find(`[data-of=${name}]`).textContent = facts[name];
      this.forces.show(objectives[objective](p, N, K));
    }
  }

  const mount = (host) => { if (!host.shadowRoot) new Landscape(host); };
  const mountAll = () => document.querySelectorAll('.ml-widget[data-algo="concrete-dropout"]').forEach(mount);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
  else mountAll();

  self.Gumdrop.landscape.mount = mount;
})();
