// The posterior of the page: controls on one side, a worker that trains on the other, the picture between them.
(function () {
  "use strict";
  const { DEFAULTS } = Gumdrop.trainer;
  const LIMITS = { p: [0.01, 0.9], repeat: [1, 100], lengthscale: [0.05, 10], temperature: [0.02, 2], seed: [0, 9999] };
  const WORDS = { training: "training", settled: "at rest", paused: "paused", prior: "no points", exact: "exact" };

  const wave = (x) => Math.sin(2 * x) + 0.15 * Math.sin(41 * x);
  const between = (low, high, count) => Array.from({ length: count }, (_, i) => low + ((high - low) * i) / (count - 1));
  const EXAMPLES = {
    "Two clumps": [...between(-2.6, -1, 9), ...between(0.6, 1.8, 7)],
    "All along": between(-2.8, 2.8, 40),
    "Four points": [-1.5, -0.5, 0.5, 1.5],
    "No points": [],
  };
  const example = (name) => EXAMPLES[name].map((x) => [Math.round(100 * x) / 100, Math.round(100 * wave(x)) / 100]);

  /** A worker from the scripts of this page, because a page that was opened from a file may load none. */
  function startWorker() {
    const sources = [...document.querySelectorAll("script[data-worker]")].map((script) => script.textContent);
    const address = URL.createObjectURL(new Blob(sources, { type: "text/javascript" }));
    return new Worker(address);
  }

  class Posterior {
    constructor(root) {
      Object.assign(this, { root, paused: false, settings: { ...DEFAULTS } });
      this.find = (selector) => root.querySelector(selector);
      const plot = this.find(".plot");
      this.picture = new Gumdrop.Picture(plot, () => this.points?.show());
      this.points = new Gumdrop.Points(plot, this.picture.frame, () => this.pointsChanged());
      this.rates = new Gumdrop.Rates(this.find(".rates"));
      this.worker = startWorker();
      this.worker.onmessage = ({ data }) => this.show(data);
      this.makeControls();
      this.listen();
      if (!this.open(location.hash)) this.setPoints(example("Two clumps"), "Two clumps");
    }

    makeControls() {
      const row = this.find("[aria-label=Examples]");
      for (const name in EXAMPLES) {
        const button = Object.assign(document.createElement("button"), { type: "button", textContent: name });
        button.addEventListener("click", () => {
          this.settings.seed = DEFAULTS.seed;
          this.setPoints(example(name), name);
        });
        row.append(button);
      }
      const make = (name, label, options = {}) => Gumdrop.plot.slider(this.find(`[data-sliders~=${name}]`), {
        label, low: LIMITS[name][0], high: LIMITS[name][1], value: this.settings[name], log: true,
        change: (value) => this.set({ [name]: value }), ...options,
      });
      this.sliders = {
        p: make("p", "p, where it is fixed", { log: false, step: 0.01, text: (p) => p.toFixed(2) }),
        repeat: make("repeat", "each point counts", { text: (times) => `${Math.round(times)} ×` }),
        lengthscale: make("lengthscale", "prior lengthscale l"),
        temperature: make("temperature", "mask temperature t"),
      };
      for (const radio of this.root.querySelectorAll("[type=radio]")) {
        radio.addEventListener("change", () => this.set({ [radio.name]: radio.value }));
      }
      this.showSettings();
    }

    listen() {
      const on = (name, act) => this.find(`[data-do=${name}]`).addEventListener("click", act);
      on("pause", () => this.pause(!this.paused));
      on("restart", () => { this.set({ seed: this.settings.seed + 1 }); this.pause(false); });
      on("link", () => { this.writeAddress(); this.take(location.href, "The link is copied."); });
      on("code", () => this.take(Gumdrop.snippet(this.points.list, this.settings), "The code is copied."));
      on("film", () => this.film());
      this.find("[data-do=film]").hidden = !Gumdrop.film.kind();
      document.addEventListener("visibilitychange", () => this.worker.postMessage({ paused: this.resting }));
      addEventListener("hashchange", () => this.open(location.hash));
    }

    get resting() { return this.paused || document.hidden; } // a page that nobody sees rests

    /** Show what an address holds; false where it holds nothing. */
    open(hash) {
      const found = Gumdrop.address.read(hash, DEFAULTS, LIMITS);
      if (!found || hash === this.written) return false;
      this.set(found.settings);
      this.setPoints(found.points);
      return true;
    }

    set(change) {
      const { settings } = this;
      if ("repeat" in change) change.repeat = Math.round(change.repeat);
      if ("rates" in change && change.rates !== settings.rates) change.model ??= "dropout"; // others have no rates
      Object.assign(settings, change);
      this.showSettings();
      this.send("settings", () => ({ settings }));
    }

    showSettings() {
      const { settings, sliders } = this, others = settings.model !== "dropout";
      for (const name in sliders) sliders[name].value = settings[name];
      for (const radio of this.root.querySelectorAll("[type=radio]")) radio.checked = settings[radio.name] === radio.value;
      sliders.p.input.disabled = others || settings.rates !== "fixed";
      sliders.lengthscale.input.disabled = settings.model === "process";
      sliders.temperature.input.disabled = others || settings.rates === "off";
      this.keep();
    }

    /** Other points, and an untrained network: so an example is the same whatever was there before. */
    setPoints(points, name) {
      this.points.set(points);
      this.mark(name);
      this.keep();
      this.worker.postMessage({ settings: this.settings, points: this.points.list, restart: true, paused: this.resting });
    }

    pointsChanged() {
      this.mark(null);
      this.keep();
      this.send("points", () => ({ points: this.points.list }));
    }

    mark(name) {
      for (const button of this.find("[aria-label=Examples]").children) {
        button.setAttribute("aria-pressed", button.textContent === name);
      }
    }

    /** Tell the worker at most every 50 ms, and always the last. */
    send(name, make) {
      this.due ??= {};
      this.due[name] ??= setTimeout(() => { delete this.due[name]; this.worker.postMessage(make()); }, 50);
    }

    /** Keep the state in the address, a moment after the last change: browsers allow few in a second. */
    keep() {
      clearTimeout(this.keeping);
      this.keeping = setTimeout(() => this.writeAddress(), 400);
      this.find("pre code").textContent = Gumdrop.snippet(this.points.list, this.settings);
    }

    writeAddress() {
      this.written = Gumdrop.address.write(this.points.list, this.settings, DEFAULTS);
      history.replaceState(null, "", this.written);
    }

    pause(paused) {
      this.paused = paused;
      const button = this.find("[data-do=pause]");
      button.setAttribute("aria-pressed", paused);
      button.textContent = paused ? "Go on" : "Pause";
      this.worker.postMessage({ paused: this.resting });
      this.showState();
    }

    show(frame) {
      this.frame = frame;
      this.picture.show(frame);
      const signed = (value) => (value === undefined ? "–" : value.toFixed(2).replace("-", "−"));
      const facts = { steps: frame.steps.toLocaleString("en"), N: frame.numData.toLocaleString("en") };
      Object.assign(facts, { nll: signed(frame.losses.nll), kl: signed(frame.losses.kl) });
      facts.size = facts.N;
      facts.both = frame.rates.length ? ` · p = ${frame.rates.map((p) => p.toFixed(2)).join(", ")}` : "";
      [1, 2].forEach((layer, i) => (facts[`p${layer}`] = frame.rates[i]?.toFixed(3) ?? "–"));
      for (const name in facts) this.find(`[data-of=${name}]`).textContent = facts[name];
      if (frame.rates.length) this.rates.add(frame.steps, frame.rates);
      else this.rates.clear();
      this.find(".caption").textContent = Gumdrop.captions.caption(frame, frame.points, frame.settings);
      this.showState();
    }

    showState() {
      const state = this.paused && this.frame?.state === "training" ? "paused" : this.frame?.state ?? "training";
      if (state === this.state) return;
      this.state = state;
      this.find("[data-of=state]").textContent = WORDS[state];
      this.find(".stage [role=status]").textContent = `${WORDS[state]}. ${this.find(".caption").textContent}`;
    }

    say(text) { this.find("[data-of=taken]").textContent = text; }

    async take(text, done) {
      try {
        await navigator.clipboard.writeText(text);
        this.say(done);
      } catch { // without permission, or in a page that was opened from a file
        this.say("This browser does not let a page copy. The address is above, the code below.");
      }
    }

    /** Film the training from its first step, and give the film to keep. */
    async film() {
      const button = this.find("[data-do=film]");
      button.disabled = true;
      this.say(`Filming for ${Gumdrop.film.SECONDS} seconds …`);
      this.pause(false);
      this.worker.postMessage({ restart: true });
      const words = () => `N = ${this.find("[data-of=size]").textContent}${this.find("[data-of=both]").textContent}`;
      const film = await Gumdrop.film.record(this.root, () => [this.picture.shown, this.points.list, words()]);
      const address = URL.createObjectURL(film);
      Object.assign(document.createElement("a"), { href: address, download: film.name }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60000);
      this.say(`The film is ${film.name}, ${Math.round(film.size / 1000)} kB.`);
      button.disabled = false;
    }
  }

  Gumdrop.posterior = new Posterior(document.getElementById("posterior"));
})();
