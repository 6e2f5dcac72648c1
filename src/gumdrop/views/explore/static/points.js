// Points that can be placed and moved: by mouse, by touch (a tap adds, a swipe scrolls), and by keys.
(function () {
  "use strict";
  const EXTENT = 3, MOST = 200, REACH = 18, TAP = 8;
  const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const clip = (value) => Math.round(1000 * Math.min(EXTENT, Math.max(-EXTENT, value))) / 1000;
  const outside = (place) => Math.max(...place.map(Math.abs)) > EXTENT * 1.06;
  const words = (value) => String(Math.round(100 * value) / 100).replace("-", "−");

  class Points {
    /** In the frame of a picture; `changed(points)` is called whenever the visitor moves one. */
    constructor(svg, frame, changed) {
      Object.assign(this, { svg, frame, changed, list: [], current: 0 });
      this.dots = Gumdrop.plot.draw(svg, "g", { role: "listbox", "aria-label": "Points", "aria-describedby": "keys" });
      this.dots.setAttribute("tabindex", -1); // what hears of the focus would else be a stop of its own
      this.listen();
      this.dots.addEventListener("keydown", (event) => this.press(event));
      this.dots.addEventListener("focusin", (event) => this.choose([...this.dots.children].indexOf(event.target)));
    }

    set(points) {
      this.list = points.map((place) => place.map(clip));
      this.show();
    }

    show() {
      const { dots, list, frame } = this, { draw } = Gumdrop.plot;
      while (dots.childElementCount > list.length) dots.lastElementChild.remove();
      while (dots.childElementCount < list.length) {
        const dot = draw(dots, "g", { class: "point", role: "option", "aria-roledescription": "movable point" });
        draw(dot, "circle", { r: REACH });
        draw(dot, "circle", { r: 5.5 });
      }
      list.forEach(([x, y], i) => {
        const dot = dots.children[i];
        dot.setAttribute("transform", `translate(${frame.x(x).toFixed(1)} ${frame.y(y).toFixed(1)})`);
        dot.setAttribute("aria-label", `Point ${i + 1} of ${list.length}: x ${words(x)}, y ${words(y)}`);
      });
      this.choose(Math.min(this.current, list.length - 1));
    }

    /** One stop of the Tab key for all points: the one that was last in use. */
    choose(index) {
      this.current = Math.max(0, index);
      [...this.dots.children].forEach((dot, i) => {
        dot.setAttribute("tabindex", i === this.current ? 0 : -1);
        dot.setAttribute("aria-selected", i === this.current);
      });
    }

    focus(index) { this.dots.children[index]?.focus({ preventScroll: true }); }

    add(x, y) {
      if (this.list.length >= MOST) return;
      this.list.push([clip(x), clip(y)]);
      this.moved();
      this.focus(this.list.length - 1);
    }

    remove(index) {
      this.list.splice(index, 1);
      this.moved();
    }

    moved() {
      this.show();
      this.changed(this.list);
    }

    press(event) {
      const at = this.current, count = this.list.length;
      if (event.key in MOVES) {
        const size = event.shiftKey ? 0.5 : 0.1;
        this.list[at] = this.list[at].map((value, i) => clip(value + size * MOVES[event.key][i]));
        this.moved();
      } else if (event.key === "Delete" || event.key === "Backspace") {
        this.remove(at);
        this.focus(this.current);
      } else if (event.key === "PageDown") this.focus((at + 1) % count);
      else if (event.key === "PageUp") this.focus((at + count - 1) % count);
      else if (event.key === "Home") this.focus(0);
      else if (event.key === "End") this.focus(count - 1);
      else if (event.key === "Enter" || event.key === " ") this.add(this.list[at][0] + 0.2, this.list[at][1]);
      else return;
      event.preventDefault();
    }

    /** The point under a finger or the mouse, or -1. */
    nearest(event) {
      const box = this.svg.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const far = this.list.map(([a, b]) => Math.hypot(this.frame.x(a) - x, this.frame.y(b) - y));
      const least = Math.min(...far);
      return least <= REACH ? far.indexOf(least) : -1;
    }

    listen() {
      const { svg, frame } = this;
      let held = -1, grip = [0, 0], pressed = null;
      const dot = () => this.dots.children[held];
      svg.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || !event.isPrimary) return;
        const place = frame.at(event);
        held = this.nearest(event);
        pressed = held < 0 && !outside(place) ? [event.clientX, event.clientY] : null;
        if (held < 0) return;
        event.preventDefault();
        grip = [this.list[held][0] - place[0], this.list[held][1] - place[1]];
        svg.setPointerCapture(event.pointerId);
        dot().classList.add("dragged");
        this.focus(held);
      });
      // Browsers take `touch-action` from the whole picture, not from a point in it.
      svg.addEventListener("touchstart", (event) => { if (held >= 0) event.preventDefault(); }, { passive: false });
      svg.addEventListener("pointermove", (event) => {
        if (held < 0 || !event.isPrimary) return;
        const place = frame.at(event).map((value, i) => value + grip[i]);
        dot().classList.toggle("leaving", outside(place));
        this.list[held] = place.map(clip);
        this.moved();
      });
      svg.addEventListener("pointerup", (event) => {
        if (!event.isPrimary) return;
        if (held >= 0) return drop();
        const still = pressed && Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) <= TAP;
        if (still) this.add(...frame.at(event));
        pressed = null;
      });
      svg.addEventListener("pointercancel", () => { pressed = null; drop(); }); // the browser took the swipe to scroll
      const drop = () => {
        if (held < 0) return;
        const leaves = dot().classList.contains("leaving");
        dot().classList.remove("dragged", "leaving");
        if (leaves) this.remove(held);
        held = -1;
      };
    }
  }

  Gumdrop.Points = Points;
})();
