// The worker: trains in slices, shows where it is after each, and listens in between.
(function () {
  "use strict";
  if (typeof importScripts !== "function") return; // in the page itself these scripts only define things

  const SLICE = 40; // milliseconds
  const trainer = new self.Gumdrop.trainer.Trainer();
  let paused = false, timer = null;

  function turn() {
    timer = null;
    const end = performance.now() + SLICE;
    while (!paused && trainer.state === "training" && performance.now() < end) trainer.train(1);
    postMessage(trainer.frame());
    if (!paused && trainer.state === "training") timer = setTimeout(turn);
  }

  /** Any of: points, settings, restart, paused. */
  onmessage = ({ data }) => {
    if (data.settings) trainer.setSettings(data.settings);
    if (data.points) trainer.setPoints(data.points);
    if (data.restart) trainer.restart();
    paused = data.paused ?? paused;
    timer ??= setTimeout(turn);
  };
})();
