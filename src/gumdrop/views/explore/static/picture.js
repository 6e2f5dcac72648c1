// The picture of a posterior over functions: mean, bands and drawn functions in one frame, gliding from one to the next.
(function () {
  "use strict";
  const EXTENT = 3, GLIDE = 8;

  class Picture {
    /** `redrawn` is called whenever the size has changed. */
    constructor(svg, redrawn) {
      const { draw, Frame } = Gumdrop.plot;
      Object.assign(this, { svg, redrawn });
      this.frame = new Frame(svg, {
        x: [-EXTENT, EXTENT], y: [-EXTENT, EXTENT], ratio: 0.56, least: 190, most: 480, xLabel: "x",
        margins: { left: 30, right: 8, top: 8, bottom: 38 }, redraw: () => this.redraw(),
      });
      this.clip = draw(draw(svg, "clipPath", { id: "picture-frame" }), "rect");
      this.frame.marks.setAttribute("clip-path", "url(#picture-frame)");
      const layer = (name) => draw(this.frame.marks, "path", { class: name });
      this.layers = { noise: layer("noise"), epistemic: layer("epistemic") };
      this.draws = draw(this.frame.marks, "g");
      this.layers.mean = layer("mean");
      this.redraw();
    }

    redraw() {
      const { frame } = this, ticks = [-3, -2, -1, 0, 1, 2, 3];
      frame.drawAxes(frame.width < 200 ? [-3, 0, 3] : ticks, ticks);
      const box = { x: frame.left, y: frame.top, width: frame.width, height: frame.depth };
      for (const key in box) this.clip.setAttribute(key, box[key]);
      if (this.shown) this.paint(this.shown);
      this.redrawn();
    }

    /** Show a frame of training: means and standard deviations on an even grid. */
    show(data) {
      this.data = data;
      const target = [data.mean, data.epistemic, data.aleatoric, ...data.draws];
      const glides = this.shown?.length === target.length && !matchMedia("(prefers-reduced-motion: reduce)").matches;
      cancelAnimationFrame(this.gliding);
      if (glides) this.glide(target, GLIDE);
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
      while (this.draws.childElementCount > draws.length) this.draws.lastElementChild.remove();
      while (this.draws.childElementCount < draws.length) Gumdrop.plot.draw(this.draws, "path", { class: "draw" });
      draws.forEach((values, i) => this.draws.children[i].setAttribute("d", this.frame.line(xs, values)));
    }
  }

  Gumdrop.Picture = Picture;
})();
