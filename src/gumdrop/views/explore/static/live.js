// The posterior section: in front of a server the network trains on the visitor's points; elsewhere a recorded
// session is played.
(function () {
  "use strict";

  const LAYERS = { 2: "hidden layer 1", 4: "hidden layer 2" };
  const COLOURS = ["var(--blue)", "var(--candy)"];
  const WORDS = {
    training: "training", settled: "at rest", paused: "paused", empty: "waiting for points",
    connecting: "connecting …", lost: "no connection", recorded: "recorded",
  };

  const PICTURE = `
    <svg class="plot" aria-label="Posterior over functions: mean, draws, bands and points"></svg>
    <ul class="legend"><li><i class="line" style="color:var(--blue)"></i>mean</li>
      <li><i class="line thin" style="color:var(--ink)"></i>functions drawn</li>
      <li><i style="background:var(--blue);opacity:.4"></i>what it does not know (epistemic, ±2 sd)</li>
      <li><i style="background:var(--orange);opacity:.3"></i>and noise (aleatoric)</li></ul>`;
  const FACTS = `
    <dl class="facts"><div><dt>state</dt><dd data-of="state"></dd></div>
      <div><dt>steps</dt><dd data-of="steps"></dd></div><div><dt>N</dt><dd data-of="N"></dd></div>
      <div><dt>nll, nats</dt><dd data-of="nll"></dd></div><div><dt>KL / N</dt><dd data-of="kl"></dd></div></dl>
    <p class="hidden" role="status"></p><p class="message" role="alert"></p>`;
  const LEGEND = Object.values(LAYERS).map(
    (name, i) => `<li><i class="line" style="color:${COLOURS[i]}"></i>${name} <b data-rate="${i}"></b></li>`,
  );
  const RATES = `<div><h3>Dropout rate p of each layer</h3>
    <svg class="rates" role="img" aria-label="Rates over the steps of training"></svg>
    <ul class="legend">${LEGEND.join("")}</ul></div>`;

  /** What live and recorded sessions show alike. */
  class View {
    constructor(root, { editable, changed }) {
      this.root = root;
      this.picture = new Gumdrop.Posterior(root.querySelector(".plot"), { editable, changed });
      this.rates = new Gumdrop.Rates(root.querySelector(".rates"), COLOURS);
    }

    fact(name, text) { this.root.querySelector(`[data-of=${name}]`).textContent = text; }

    setState(state) {
      if (this.state === state) return;
      this.state = state;
      this.fact("state", WORDS[state]);
      this.root.querySelector("[role=status]").textContent = `Training: ${WORDS[state]}.`;
    }

    show(frame) {
      this.picture.show(frame);
      this.fact("steps", frame.steps.toLocaleString("en"));
      const minus = (value) => (value === undefined ? "–" : value.toFixed(2).replace("-", "−"));
      this.fact("nll", minus(frame.losses.nll));
      this.fact("kl", minus(frame.losses.kl));
      Object.values(frame.rates).forEach((p, i) => {
        this.root.querySelector(`[data-rate="${i}"]`).textContent = p.toFixed(3);
      });
    }
  }

  // ---- Live ----------------------------------------------------------------------------------------------------

  const wave = (x) => Math.sin(2 * x) + 0.15 * Math.sin(41 * x);
  const between = (low, high, count) => Array.from({ length: count }, (_, i) => low + ((high - low) * i) / (count - 1));
  const EXAMPLES = {
    "Two clumps": [...between(-2.6, -1, 9), ...between(0.6, 1.8, 7)],
    "All along": between(-2.8, 2.8, 40),
    "Four points": [-1.5, -0.5, 0.5, 1.5],
    "No points": [],
  };
  const example = (name) => EXAMPLES[name].map((x) => [Math.round(1000 * x) / 1000, Math.round(1000 * wave(x)) / 1000]);

  class Live {
    constructor(root) {
      const examples = Object.keys(EXAMPLES).map((name) => `<button type="button" data-example="${name}">${name}</button>`);
      root.innerHTML = `${PICTURE}${FACTS}<div class="row" style="margin-top:1rem">
          <button type="button" data-do="pause" aria-pressed="false">Pause</button>
          <button type="button" data-do="restart">Forget and start again</button>
          <button type="button" data-do="add">Add a point</button></div>
        <div class="row" style="margin-top:.6rem" role="group" aria-label="Examples">${examples.join("")}</div>
        <p class="soft" style="margin-top:.8rem">Keys: Tab goes to a point, arrows move it, Delete removes it.</p>
        <div class="columns">${RATES}<div class="settings"><h3>What you choose</h3></div></div>`;
      this.root = root;
      this.view = new View(root, { editable: true, changed: () => this.pointsChanged() });
      this.makeSettings(root.querySelector(".settings"));
      this.listen();
      this.setPoints(example("Two clumps"));
      this.connect(500);
    }

    makeSettings(box) {
      box.insertAdjacentHTML("beforeend", `<fieldset class="switch"><legend class="hidden">Rates</legend>
        <label><input type="radio" name="learned" value="yes" checked><span>Learned p</span></label>
        <label><input type="radio" name="learned" value="no"><span>Fixed p</span></label></fieldset>
        <div class="controls"></div>`);
      const controls = box.querySelector(".controls"), change = () => this.settingsChanged();
      const make = (options) => Gumdrop.plot.slider(controls, { log: true, change, ...options });
      this.sliders = {
        p: make({
          label: "p, where it is fixed", low: 0.01, high: 0.9, value: 0.1, log: false, step: 0.01,
          text: (p) => p.toFixed(2),
        }),
        weight: make({
          label: "each point counts as", low: 1, high: 100, value: 6, text: (w) => `${Gumdrop.plot.short(w)} ×`,
        }),
        lengthscale: make({ label: "prior lengthscale l", low: 0.05, high: 10, value: 0.5 }),
        temperature: make({ label: "mask temperature t", low: 0.02, high: 2, value: 0.1 }),
      };
      for (const radio of box.querySelectorAll("[name=learned]")) radio.addEventListener("change", change);
      this.sliders.p.input.disabled = true;
    }

    listen() {
      const on = (selector, act) => this.root.querySelector(selector).addEventListener("click", act);
      on("[data-do=pause]", (event) => {
        this.paused = !this.paused;
        event.target.setAttribute("aria-pressed", this.paused);
        event.target.textContent = this.paused ? "Go on" : "Pause";
        this.sendPause();
      });
      on("[data-do=restart]", () => {
        this.send({ type: "restart" });
        this.view.rates.clear();
      });
      on("[data-do=add]", () => {
        const index = this.view.picture.add(0, 0);
        if (index !== null) this.view.picture.focus(index);
      });
      for (const button of this.root.querySelectorAll("[data-example]")) {
        button.addEventListener("click", () => this.setPoints(example(button.dataset.example)));
      }
      document.addEventListener("visibilitychange", () => this.sendPause()); // a tab that nobody sees rests
    }

    get settings() {
      const numbers = Object.fromEntries(Object.entries(this.sliders).map(([name, slider]) => [name, slider.value]));
      const learned = this.root.querySelector("[name=learned]:checked").value === "yes";
      return { type: "settings", learned, ...numbers };
    }

    setPoints(points) {
      this.view.picture.setPoints(points);
      this.pointsChanged();
    }

    pointsChanged() {
      this.showSize();
      this.soon("points", () => ({ type: "points", points: this.view.picture.points }));
    }

    settingsChanged() {
      this.sliders.p.input.disabled = this.settings.learned;
      this.showSize();
      this.soon("settings", () => this.settings);
    }

    showSize() {
      const count = Math.round(this.settings.weight * this.view.picture.points.length);
      this.view.fact("N", Math.max(count, this.view.picture.points.length ? 1 : 0).toLocaleString("en"));
    }

    /** Send at most every 60 ms, and always the last. */
    soon(name, make) {
      this.due = this.due || {};
      if (this.due[name]) return;
      this.due[name] = setTimeout(() => {
        delete this.due[name];
        this.send(make());
      }, 60);
    }

    send(message) {
      if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
    }

    sendPause() {
      this.send({ type: "pause", paused: Boolean(this.paused) || document.hidden });
    }

    connect(delay) {
      this.view.setState("connecting");
      const scheme = location.protocol === "https:" ? "wss:" : "ws:";
      this.socket = new WebSocket(`${scheme}//${location.host}/live`);
      this.socket.addEventListener("open", () => {
        delay = 500;
        this.view.rates.clear();
        this.warn("");
        this.send(this.settings);
        this.send({ type: "points", points: this.view.picture.points });
        this.sendPause();
      });
      this.socket.addEventListener("message", (event) => this.receive(JSON.parse(event.data)));
      this.socket.addEventListener("close", () => {
        this.view.setState("lost");
        if (!this.told) this.warn("The connection to the server is gone. Is it still running? Trying again …");
        setTimeout(() => this.connect(Math.min(2 * delay, 15000)), delay);
      });
    }

    receive(message) {
      if (message.type === "error") {
        this.told = true;
        this.warn(message.message);
        return;
      }
      this.told = false;
      this.view.show(message);
      this.view.rates.add(message.steps, message.rates);
      this.view.setState(message.state);
    }

    warn(text) { this.root.querySelector(".message").textContent = text; }
  }

  // ---- Recorded ------------------------------------------------------------------------------------------------

  class Recorded {
    constructor(root, recording) {
      const chapters = recording.chapters.map(
        ({ title }, i) => `<button type="button" data-chapter="${i}">${i + 1}. ${title}</button>`,
      );
      root.innerHTML = `${PICTURE}<div class="player"><button type="button" data-do="play">Play</button>
          <input type="range" aria-label="Moment of the recording" min="0" step="1" value="0">
          <p class="caption soft"></p><div class="row chapters">${chapters.join("")}</div></div>${FACTS}
        <div class="columns">${RATES}<div><h3>What was chosen</h3><dl class="facts chosen"></dl></div></div>`;
      Object.assign(this, { root, recording, timer: null });
      this.frames = recording.chapters.flatMap((chapter, c) => chapter.frames.map((frame) => ({ chapter: c, frame })));
      this.range = root.querySelector("input[type=range]");
      this.range.max = this.frames.length - 1;
      this.view = new View(root, { editable: false, changed() {} });
      this.view.setState("recorded");
      this.listen();
      this.goTo(this.chapterEnd(0)); // a still picture that says something, before anybody presses Play
    }

    start(chapter) { return this.frames.findIndex((each) => each.chapter === chapter); }
    chapterEnd(chapter) { return this.frames.findLastIndex((each) => each.chapter === chapter); }

    listen() {
      this.root.querySelector("[data-do=play]").addEventListener("click", () => this.play(this.timer === null));
      this.range.addEventListener("input", () => { this.play(false); this.goTo(Number(this.range.value)); });
      for (const button of this.root.querySelectorAll("[data-chapter]")) {
        const chapter = Number(button.dataset.chapter);
        button.addEventListener("click", () => {
          const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
          this.goTo(still ? this.chapterEnd(chapter) : this.start(chapter));
          this.play(!still);
        });
      }
    }

    play(on) {
      clearInterval(this.timer);
      this.timer = null;
      if (on) {
        if (this.at === this.frames.length - 1) this.goTo(0);
        this.timer = setInterval(() => {
          if (this.at === this.frames.length - 1) this.play(false);
          else this.goTo(this.at + 1);
        }, 90);
      }
      this.root.querySelector("[data-do=play]").textContent = on ? "Stop" : "Play";
    }

    goTo(index) {
      this.at = index;
      const { chapter, frame } = this.frames[index], { points, settings, caption } = this.recording.chapters[chapter];
      this.range.value = index;
      this.range.setAttribute("aria-valuetext", `chapter ${chapter + 1}, ${frame.steps} steps`);
      this.view.picture.setPoints(points);
      this.view.show(this.expand(frame));
      this.view.fact("N", Math.round(settings.weight * points.length).toLocaleString("en"));
      const until = this.frames.slice(0, index + 1);
      this.view.rates.setHistory(until.map((each) => [each.frame.steps, Object.values(each.frame.rates)]));
      if (this.chapter !== chapter) this.showChapter(chapter, settings, caption);
    }

    /** The recording holds whole numbers of a small unit. */
    expand(frame) {
      const scaled = (values) => values.map((value) => value * this.recording.unit);
      const { mean, epistemic, aleatoric, draws, ...rest } = frame;
      const curves = { mean: scaled(mean), epistemic: scaled(epistemic), aleatoric: scaled(aleatoric) };
      return { ...rest, ...curves, draws: draws.map(scaled) };
    }

    showChapter(chapter, settings, caption) {
      this.chapter = chapter;
      this.root.querySelector(".caption").textContent = caption;
      for (const button of this.root.querySelectorAll("[data-chapter]")) {
        button.setAttribute("aria-current", Number(button.dataset.chapter) === chapter);
      }
      const chosen = {
        rates: settings.learned ? "learned" : `fixed at ${settings.p}`, "each point counts as": `${settings.weight} ×`,
        "prior lengthscale l": settings.lengthscale, "mask temperature t": settings.temperature,
      };
      this.root.querySelector(".chosen").replaceChildren(...Object.entries(chosen).map(([name, value]) => {
        const box = document.createElement("div");
        for (const [tag, text] of [["dt", name], ["dd", value]]) {
          box.appendChild(document.createElement(tag)).textContent = text;
        }
        return box;
      }));
    }
  }

  const start = () => {
    const root = document.getElementById("live");
    if (document.body.dataset.mode === "live") Gumdrop.live = new Live(root);
    else Gumdrop.live = new Recorded(root, Gumdrop.recording);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
