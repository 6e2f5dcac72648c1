// A film of the picture, to send to somebody: frames painted on a canvas, recorded by the browser itself.
(function () {
  "use strict";
  const WIDTH = 960, HEIGHT = 540, EXTENT = 3, SECONDS = 6;
  /** Bytes of a part that holds no picture yet. */
  const HEADER = 1000;
  const KINDS = ["video/mp4", "video/webm"];

  const x = (value) => ((value + EXTENT) / (2 * EXTENT)) * WIDTH, y = (value) => ((EXTENT - value) / (2 * EXTENT)) * HEIGHT;

  /** Paint what the picture shows (rows of mean, standard deviations and draws) and the points. */
  function paint(canvas, rows, points, colours, words) {
    const pen = canvas.getContext("2d"), [mean, epistemic, aleatoric, ...draws] = rows;
    const at = (i) => x(-EXTENT + (2 * EXTENT * i) / (mean.length - 1));
    const trace = (values) => values.forEach((value, i) => pen.lineTo(at(i), y(value)));
    const band = (spread, colour, opacity) => {
      pen.beginPath();
      trace(mean.map((value, i) => value + 2 * spread(i)));
      for (let i = mean.length - 1; i >= 0; i--) pen.lineTo(at(i), y(mean[i] - 2 * spread(i)));
      Object.assign(pen, { fillStyle: colour, globalAlpha: opacity });
      pen.fill();
      pen.globalAlpha = 1;
    };
    const line = (values, colour, width) => {
      pen.beginPath();
      trace(values);
      Object.assign(pen, { strokeStyle: colour, lineWidth: width, lineJoin: "round" });
      pen.stroke();
    };
    Object.assign(pen, { fillStyle: colours.card });
    pen.fillRect(0, 0, WIDTH, HEIGHT);
    band((i) => Math.hypot(epistemic[i], aleatoric[i]), colours.aleatoric, 0.2);
    band((i) => epistemic[i], colours.epistemic, 0.35);
    for (const values of draws) line(values, colours.draw, 1.4);
    line(mean, colours.epistemic, 4);
    for (const place of points) {
      pen.beginPath();
      pen.arc(x(place[0]), y(place[1]), 7, 0, 2 * Math.PI);
      Object.assign(pen, { fillStyle: colours.ink, strokeStyle: colours.card, lineWidth: 2.5 });
      pen.fill();
      pen.stroke();
    }
    Object.assign(pen, { fillStyle: colours.ink, font: "600 22px system-ui, sans-serif" });
    pen.fillText(words, 18, HEIGHT - 20);
  }

  /** Colours of the page as they are now, which a canvas does not read from style sheets by itself. */
  function coloursOf(element) {
    const probe = element.appendChild(document.createElement("i"));
    const colour = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
    const found = Object.fromEntries(["card", "ink", "draw", "epistemic", "aleatoric"].map((name) => [name, colour(name)]));
    probe.remove();
    return found;
  }

  /** Whether this browser can. */
  const kind = () => (self.MediaRecorder ? KINDS.find((each) => MediaRecorder.isTypeSupported(each)) : undefined);

  /** Record `look()`, which gives [rows, points, words], for some seconds. A promise of the film. */
  function record(element, look, seconds = SECONDS) {
    const canvas = Object.assign(document.createElement("canvas"), { width: WIDTH, height: HEIGHT });
    const colours = coloursOf(element), type = kind();
    const recorder = new MediaRecorder(canvas.captureStream(30), { mimeType: type, videoBitsPerSecond: 2.5e6 });
    const show = () => paint(canvas, ...look().toSpliced(2, 0, colours));
    const timer = setInterval(show, 1000 / 30), parts = [];
    let ending = null;
    recorder.addEventListener("dataavailable", ({ data }) => {
      parts.push(data); // the first holds a header alone; a busy machine takes a second to encode anything
      if (data.size > HEADER) ending ??= setTimeout(() => recorder.stop(), 1000 * seconds);
    });
    const done = new Promise((resolve) => recorder.addEventListener("stop", () => {
      clearInterval(timer);
      resolve(new File(parts, `gumdrop.${type.slice(6)}`, { type }));
    }));
    show();
    recorder.start(250);
    return done;
  }

  Gumdrop.film = { kind, record, SECONDS };
})();
