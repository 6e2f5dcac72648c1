// The posterior section in front of a server: a network trains on the visitor's points. Without one, recorded.js plays.
(function () {
  "use strict";

  const { PICTURE, FACTS, RATES } = Gumdrop.SessionView;

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
      this.view = new Gumdrop.SessionView(root, { editable: true, changed: () => this.pointsChanged() });
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

  const start = () => {
    if (document.body.dataset.mode === "live") Gumdrop.live = new Live(document.getElementById("live"));
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
