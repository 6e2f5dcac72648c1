// The tug-of-war over one dropout rate, to push by hand. One script, no dependencies; put
//     <div class="ml-widget" data-algo="concrete-dropout"></div>
// anywhere in a page that loads it. Colours follow the page's `color-scheme`.
(function () {
  "use strict";

  // ---- The two objectives. Each term comes with its first and second derivative by p. -------------------------

  const LOW = 0.01, HIGH = 0.99;
  const STEP = 0.003, TICK = 42, STILL = 1e-5;
  const SQUARE_NORM = 0.25, NOISE_VARIANCE = 1;
  const DEFAULTS = { N: 200, K: 500, p: 0.5 };

  const entropy = (p) => -p * Math.log(p) - (1 - p) * Math.log1p(-p);
  const entropyTerm = (p, factor) => ({
    value: -factor * entropy(p),
    slope: -factor * Math.log((1 - p) / p),
    curvature: factor / (p * (1 - p)),
  });

  /** A sketch: L(p) = p/N + 0.8 (1-p)^2 - (K/N) H(p). */
  function stylised(p, N, K) {
    const weight = 0.8;
    return {
      likelihood: { value: p / N, slope: 1 / N, curvature: 0 },
      weights: { value: weight * (1 - p) ** 2, slope: -2 * weight * (1 - p), curvature: 2 * weight },
      entropy: entropyTerm(p, K / N),
    };
  }

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

  function total(objective, p, N, K, part) {
    const terms = OBJECTIVES[objective](p, N, K);
    return TERMS.reduce((sum, name) => sum + terms[name][part], 0);
  }
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

  // ---- Words ---------------------------------------------------------------------------------------------------

  const NAMES = { likelihood: "likelihood", weights: "weights", entropy: "entropy" };
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
  const STATES = { rest: "at rest", held: "held", descending: "descending", arrived: "arrived at p*" };

  const number = (value, digits = 3) => {
    const size = Math.abs(value);
    const text = size !== 0 && (size >= 1e4 || size < 1e-3) ? value.toExponential(1) : value.toFixed(size >= 100 ? 1 : digits);
    return text.replace("-", "−");
  };

  // ---- Drawing -------------------------------------------------------------------------------------------------

  const STYLE = `
    :host { display:block; color:inherit; font-family:inherit;
      --ink:light-dark(#1f2328,#e9e7e2); --soft:light-dark(#59606b,#a5acb7); --rule:light-dark(#e4e0d9,#30363e);
      --card:light-dark(#fff,#1b1f25); --tint:light-dark(#eef4f9,#1a2835);
      --likelihood:light-dark(#0b6cab,#62b0e8); --weights:light-dark(#b84a0a,#f0915a); --entropy:light-dark(#08795b,#48c3a0);
      --ball:light-dark(#a4548d,#d98fc2) }
    * { box-sizing:border-box }
    .widget { background:var(--card); color:var(--ink); border:1px solid var(--rule); border-radius:12px;
      padding:clamp(.9rem,3vw,1.5rem); font-size:1rem; line-height:1.5; font-variant-numeric:tabular-nums; container-type:inline-size }
    .bar { display:flex; flex-wrap:wrap; gap:.7rem 1.2rem; align-items:center; justify-content:space-between; margin-bottom:.8rem }
    fieldset { border:0; margin:0; padding:0; min-width:0 }
    .switch { display:flex; border:1px solid var(--rule); border-radius:9px; padding:3px }
    .switch label { display:block; position:relative }
    .switch input { position:absolute; inset:0; width:100%; height:100%; opacity:0; margin:0; cursor:pointer }
    .switch span { display:block; padding:.35rem .8rem; border-radius:6px; font-size:.92rem; color:var(--soft) }
    .switch input:checked + span { background:var(--tint); color:var(--ink); font-weight:600 }
    .switch input:focus-visible + span { outline:2px solid var(--likelihood) }
    .formula { font:italic 1.02rem/1.4 Georgia,"Times New Roman",serif; margin:0 }
    svg { display:block; width:100%; touch-action:pan-y; cursor:pointer; user-select:none; -webkit-user-select:none; overflow:hidden }
    svg text { font-size:12px; fill:var(--soft); font-family:inherit }
    .grid { stroke:var(--rule); stroke-width:1 }
    .curve { fill:none; stroke:var(--ink); stroke-width:2.5; stroke-linejoin:round }
    .term { fill:none; stroke-width:1.8; stroke-dasharray:6 5; opacity:.6 }
    [data-of=likelihood] { stroke:var(--likelihood) } [data-of=weights] { stroke:var(--weights) } [data-of=entropy] { stroke:var(--entropy) }
    .optimum { stroke:var(--ink); stroke-width:1.3; stroke-dasharray:3 4 }
    svg text.optimum-label { fill:var(--ink); font-size:13px; font-weight:600 }
    .hit { fill:transparent; cursor:grab; touch-action:none; outline:none } .held .hit { cursor:grabbing }
    .ball { fill:var(--ball); stroke:var(--card); stroke-width:2.5; pointer-events:none }
    .ring { fill:none; stroke:var(--ball); stroke-width:2; opacity:0; pointer-events:none }
    .hit:focus-visible ~ .ring, .held .ring { opacity:.55 }
    .status { display:grid; grid-template-columns:repeat(4,minmax(0,auto)); gap:.2rem 1.6rem; justify-content:start; margin:.9rem 0 0 }
    .status dt { color:var(--soft); font-size:.82rem; line-height:1.3 } .status dd { margin:0; font-size:1.15rem; font-weight:600; white-space:nowrap }
    .status div { min-width:5.2rem }
    .controls { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,15rem),1fr)); gap:.9rem 2rem; margin:1.1rem 0 0; align-items:end }
    .control label { display:flex; justify-content:space-between; gap:1rem; font-size:.92rem } .control output { font-weight:600 }
    input[type=range] { width:100%; margin:.35rem 0 0; accent-color:var(--ball); height:1.6rem; cursor:pointer }
    button { font:inherit; font-size:.95rem; color:inherit; background:transparent; border:1px solid var(--rule); border-radius:8px;
      padding:.45rem 1rem; min-height:2.75rem; cursor:pointer } button:hover { background:var(--tint) }
    button:focus-visible, input[type=range]:focus-visible { outline:2px solid var(--likelihood); outline-offset:2px }
    .buttons { display:flex; gap:.6rem }
    .lower { display:grid; grid-template-columns:minmax(0,1.1fr) minmax(0,1fr); gap:1.2rem 2.4rem; margin-top:1.3rem; border-top:1px solid var(--rule); padding-top:1.1rem }
    h3 { margin:0 0 .5rem; font-size:.95rem }
    .forces { display:grid; grid-template-columns:auto minmax(3.5rem,1fr) auto; gap:.45rem .8rem; align-items:center; font-size:.9rem }
    .forces .name { display:flex; align-items:center; gap:.5rem } .forces .name i { width:1.1rem; border-top:3px dashed; flex:none }
    .forces .value { text-align:right; color:var(--soft); min-width:4.2rem }
    .track { position:relative; height:1rem; background:linear-gradient(var(--rule),var(--rule)) 50% 0/1px 100% no-repeat }
    .track b { position:absolute; top:.15rem; bottom:.15rem; border-radius:2px }
    .forces .ends { grid-column:2; display:flex; justify-content:space-between; color:var(--soft); font-size:.78rem; line-height:1.2 }
    .tale, .hint { margin:0; font-size:.92rem; color:var(--soft) } .hint { margin-top:.5rem; font-size:.88rem }
    .hidden { position:absolute; width:1px; height:1px; overflow:hidden; clip-path:inset(50%); white-space:nowrap }
    @container (max-width:38rem) { .lower { grid-template-columns:minmax(0,1fr) } .status { grid-template-columns:repeat(2,minmax(0,1fr)) } .buttons button { flex:1 } }
  `;

  const SVG = "http://www.w3.org/2000/svg";
  function draw(parent, name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  }

  /** Round numbers that cut a range into about `count` parts. */
  function ticks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const size = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
    const found = [];
    for (let i = Math.ceil(low / size); i * size <= high; i++) found.push(i * size);
    return found;
  }

  const TEMPLATE = `
    <div class="widget" role="group" aria-label="Loss landscape of one dropout rate">
      <div class="bar"><p class="formula"></p>
        <fieldset class="switch"><legend class="hidden">Objective</legend>
          <label><input type="radio" value="stylised" checked><span>Sketch</span></label>
          <label><input type="radio" value="library"><span>gumdrop’s true terms</span></label></fieldset></div>
      <svg></svg>
      <p class="hint">Drag the ball and let it go. Keys: arrows move it, Enter lets it go.</p>
      <dl class="status"><div><dt>p</dt><dd data-of="p"></dd></div><div><dt>L(p), nats</dt><dd data-of="loss"></dd></div>
        <div><dt>p*</dt><dd data-of="optimum"></dd></div><div><dt>ball</dt><dd data-of="state"></dd></div></dl>
      <p class="hidden" role="status"></p>
      <div class="controls">
        <div class="control"><label for="N">N, training examples<output></output></label><input id="N" type="range" min="1" max="4" step="0.001"></div>
        <div class="control"><label for="K">K, units that can be dropped<output></output></label><input id="K" type="range" min="50" max="5000" step="10"></div>
        <div class="buttons"><button type="button" data-do="release">Let go</button><button type="button" data-do="reset">Reset</button></div></div>
      <div class="lower"><div><h3>Forces on p, where the ball is</h3><div class="forces"></div></div><div><h3 class="which"></h3><p class="tale"></p></div></div>
    </div>`;

  let style = null;
  let count = 0;

  class Landscape {
    constructor(host) {
      const root = host.attachShadow({ mode: "open" });
      if (style === null) (style = new CSSStyleSheet()).replaceSync(STYLE);
      root.adoptedStyleSheets = [style];
      root.innerHTML = TEMPLATE;
      this.find = (selector) => root.querySelector(selector);
      this.host = host;
      this.svg = this.find("svg");
      this.timer = null;
      this.objective = "stylised";
      this.name = `objective-${++count}`;
      this.makeForces();
      this.makeFrame();
      this.listen();
      this.reset();
      new ResizeObserver(() => this.redraw()).observe(this.svg);
    }

    // State

    reset() {
      this.stop();
      Object.assign(this, DEFAULTS, { state: "rest", dragging: false });
      this.redraw();
      this.announce();
    }

    place(p) {
      this.stop();
      this.p = clip(p);
      this.setState("held");
      this.soon();
    }

    release() {
      this.stop();
      this.setState("descending");
      if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
        while (this.descend());
      } else {
        this.timer = setInterval(() => this.descend(), TICK);
      }
      this.soon();
    }

    descend() {
      const { objective, p, N, K } = this;
      if (!this.host.isConnected || isStill(objective, p, N, K)) {
        this.stop();
        this.setState("arrived");
      } else {
        this.p = step(objective, p, N, K);
      }
      this.soon();
      return this.state === "descending";
    }

    stop() {
      clearInterval(this.timer);
      this.timer = null;
    }

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
      let grip = 0;
      const at = (event) => {
        const box = svg.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
      };
      svg.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || !event.isPrimary) return;
        const [x, y] = at(event);
        const onBall = Math.hypot(x - this.x(this.p), y - this.ballY()) <= 22;
        grip = onBall ? x - this.x(this.p) : 0;
        svg.setPointerCapture(event.pointerId);
        this.hit.focus({ preventScroll: true, focusVisible: false });
        event.preventDefault();
        this.place(onBall ? this.p : this.pAt(x));
        this.dragging = true;
      });
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
        if (this.state === "arrived") this.setState("rest");
        this.redraw();
      };
      this.find("#N").addEventListener("input", change((value) => (this.N = Math.round(10 ** value))));
      this.find("#K").addEventListener("input", change((value) => (this.K = value)));
      for (const radio of this.radios) {
        radio.name = this.name;
        radio.addEventListener("change", () => {
          this.objective = radio.value;
          if (this.state === "arrived") this.setState("rest");
          this.redraw();
        });
      }
    }

    get radios() {
      return this.host.shadowRoot.querySelectorAll("input[type=radio]");
    }

    press(event) {
      const small = { ArrowLeft: -0.01, ArrowDown: -0.01, ArrowRight: 0.01, ArrowUp: 0.01 };
      const moves = { ...small, PageDown: -0.1, PageUp: 0.1, Home: -1, End: 1 };
      if (event.key in moves) this.place(this.p + moves[event.key]);
      else if (event.key === "Enter" || event.key === " ") this.release();
      else return;
      event.preventDefault();
    }

    // The frame

    makeForces() {
      const box = this.find(".forces");
      this.bars = {};
      for (const name of TERMS) {
        const colour = `var(--${name})`;
        const label = box.appendChild(document.createElement("span"));
        label.className = "name";
        const dash = label.appendChild(document.createElement("i"));
        dash.style.borderColor = colour;
        label.append(NAMES[name]);
        const track = box.appendChild(document.createElement("span"));
        track.className = "track";
        const bar = track.appendChild(document.createElement("b"));
        bar.style.background = colour;
        const value = box.appendChild(document.createElement("span"));
        value.className = "value";
        this.bars[name] = { bar, value, label };
      }
      const ends = "<span>← less</span><span>more →</span>";
      box.insertAdjacentHTML("beforeend", `<span class="ends" aria-hidden="true">${ends}</span>`);
    }

    makeFrame() {
      const { svg } = this;
      this.grid = draw(svg, "g", { "aria-hidden": "true" });
      this.terms = TERMS.map((name) => draw(svg, "path", { class: "term", "data-of": name }));
      this.curve = draw(svg, "path", { class: "curve", "data-of": "total" });
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
      const width = Math.max(240, Math.round(this.svg.getBoundingClientRect().width));
      const height = Math.round(Math.min(400, Math.max(270, 0.5 * width)));
      this.svg.setAttribute("height", height);
      Object.assign(this, { left: 60, across: width - 60 - 24, top: 38, bottom: height - 42 });
      this.drawCurves();
      this.drawGrid(width, height);
      this.drawOptimum();
      this.write();
      this.paint();
    }

    drawCurves() {
      const { objective, N, K } = this;
      const ps = Array.from({ length: 200 }, (_, i) => LOW + ((HIGH - LOW) * i) / 199);
      const values = ps.map((p) => OBJECTIVES[objective](p, N, K));
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
      this.best = optimum(this.objective, this.N, this.K);
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
      for (const name of TERMS) this.bars[name].label.title = FORMULAS[this.objective][name];
      for (const [id, value, position] of [["N", this.N, Math.log10(this.N)], ["K", this.K, this.K]]) {
        const input = this.find(`#${id}`), text = value.toLocaleString("en");
        if (id === "K" || Math.round(10 ** input.value) !== value) input.value = position;
        input.setAttribute("aria-valuetext", text);
        input.previousElementSibling.querySelector("output").textContent = text;
      }
    }

    /** Paint the ball with the next frame, however many events come before it. */
    soon() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = null;
        this.paint();
      });
    }

    paint() {
      const { objective, p, N, K } = this;
      this.group.setAttribute("transform", `translate(${this.x(p).toFixed(2)} ${this.ballY().toFixed(2)})`);
      this.svg.classList.toggle("held", this.state === "held");
      const value = loss(objective, p, N, K);
      this.hit.setAttribute("aria-valuenow", p.toFixed(3));
      this.hit.setAttribute("aria-valuetext", `p ${p.toFixed(2)}, loss ${number(value, 2)}`);
      const facts = { p: number(p), loss: number(value), optimum: number(this.best), state: STATES[this.state] };
      for (const name in facts) this.find(`[data-of=${name}]`).textContent = facts[name];
      const terms = OBJECTIVES[objective](p, N, K);
      const largest = Math.max(...TERMS.map((name) => Math.abs(terms[name].slope)), 1e-12);
      for (const name of TERMS) {
        const force = -terms[name].slope, length = (50 * Math.abs(force)) / largest;
        const { bar, value: text } = this.bars[name];
        bar.style.left = `${force < 0 ? 50 - length : 50}%`;
        bar.style.width = `${length}%`;
        text.textContent = force === 0 ? "0" : (force > 0 ? "+" : "") + number(force, 3);
      }
    }
  }

  function mount(host) {
    if (!host.shadowRoot) new Landscape(host);
  }
  const mountAll = () => document.querySelectorAll('.ml-widget[data-algo="concrete-dropout"]').forEach(mount);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
  else mountAll();

  window.Gumdrop = window.Gumdrop || {};
  window.Gumdrop.landscape = { mount, objectives: OBJECTIVES, loss, slope, optimum, step, isStill };
})();
