// The posterior section without a server: the session in recording.js is played.
(function () {
  "use strict";

  const { PICTURE, FACTS, RATES } = Gumdrop.SessionView;

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
      this.view = new Gumdrop.SessionView(root, { editable: false, changed() {} });
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
    if (document.body.dataset.mode === "recorded") {
      Gumdrop.live = new Recorded(document.getElementById("live"), Gumdrop.recording);
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
