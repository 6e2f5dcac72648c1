// What the widget of the tug-of-war looks like: its style, its parts, and where its labels go.
(function () {
  "use strict";
  const { TERMS } = self.Gumdrop.landscape;

  const STYLE = `
    :host { display:block; color:inherit; font-family:inherit;
      --ink:light-dark(#1f2328,#e9e7e2); --soft:light-dark(#59606b,#a5acb7); --rule:light-dark(#e4e0d9,#30363e);
      --card:light-dark(#fff,#1b1f25); --tint:light-dark(#f8eff5,#2b2130);
      --likelihood:light-dark(#08795b,#48c3a0); --weights:light-dark(#7d5f0a,#dcb454); --entropy:light-dark(#6a51c7,#a99cf5);
      --accent:light-dark(#a4548d,#d98fc2) }
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
    .switch input:focus-visible + span { outline:2px solid var(--accent) }
    .formula { font:italic 1.02rem/1.4 Georgia,"Times New Roman",serif; margin:0 }
    svg { display:block; width:100%; touch-action:pan-y; cursor:pointer; user-select:none; -webkit-user-select:none; overflow:hidden }
    svg text { font-size:12px; fill:var(--soft); font-family:inherit }
    .grid { stroke:var(--rule); stroke-width:1 }
    .curve { fill:none; stroke:var(--accent); stroke-width:2.8; stroke-linejoin:round }
    .term { fill:none; stroke-width:2 }
    .likelihood { stroke:var(--likelihood); stroke-dasharray:9 5 } .weights { stroke:var(--weights); stroke-dasharray:2 4 }
    .entropy { stroke:var(--entropy); stroke-dasharray:11 4 2 4 }
    svg text.name { stroke:var(--card); stroke-width:3; stroke-dasharray:none; paint-order:stroke; font-weight:600 }
    svg text.name.likelihood { fill:var(--likelihood) } svg text.name.weights { fill:var(--weights) } svg text.name.entropy { fill:var(--entropy) }
    svg text.name.total { fill:var(--accent) } svg.key { width:1.8rem; height:6px; flex:none }
    .optimum { stroke:var(--ink); stroke-width:1.3; stroke-dasharray:3 4 }
    svg text.optimum-label { fill:var(--ink); font-size:13px; font-weight:600 }
    .hit { fill:transparent; cursor:grab; outline:none } .held .hit { cursor:grabbing }
    .ball { fill:var(--ink); stroke:var(--card); stroke-width:2.5; pointer-events:none }
    .descending .ball { fill:var(--accent) } .ring { fill:none; stroke:var(--accent); stroke-width:2; opacity:0; pointer-events:none }
    .hit:focus-visible ~ .ring, .held .ring { opacity:.55 }
    .status { display:grid; grid-template-columns:repeat(4,minmax(0,auto)); gap:.2rem 1.6rem; justify-content:start; margin:.9rem 0 0 }
    .status dt { color:var(--soft); font-size:.82rem; line-height:1.3 } .status dd { margin:0; font-size:1.15rem; font-weight:600; white-space:nowrap }
    .status div { min-width:min(5.2rem,100%) }
    .controls { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,15rem),1fr)); gap:.9rem 2rem; margin:1.1rem 0 0; align-items:end }
    .control label { display:flex; justify-content:space-between; gap:1rem; font-size:.92rem } .control output { font-weight:600 }
    input[type=range] { width:100%; margin:.35rem 0 0; accent-color:var(--accent); height:1.6rem; cursor:pointer }
    button { font:inherit; font-size:.95rem; color:inherit; background:transparent; border:1px solid var(--rule); border-radius:8px;
      padding:.45rem 1rem; min-height:2.75rem; cursor:pointer } button:hover { background:var(--tint) }
    button:focus-visible, input[type=range]:focus-visible { outline:2px solid var(--accent); outline-offset:2px }
    .buttons { display:flex; flex-wrap:wrap; gap:.6rem }
    .lower { display:grid; grid-template-columns:minmax(0,1.1fr) minmax(0,1fr); gap:1.2rem 2.4rem; margin-top:1.3rem; border-top:1px solid var(--rule); padding-top:1.1rem }
    h3 { margin:0 0 .5rem; font-size:.95rem }
    .forces { display:grid; grid-template-columns:auto minmax(1rem,1fr) auto; gap:.45rem .8rem; align-items:center; font-size:.9rem }
    .forces .name { display:flex; align-items:center; gap:.5rem }
    .forces .value { text-align:right; color:var(--soft); min-width:3.6rem }
    .track { position:relative; height:1rem; background:linear-gradient(var(--rule),var(--rule)) 50% 0/1px 100% no-repeat }
    .track b { position:absolute; top:.15rem; bottom:.15rem; border-radius:2px }
    .forces .ends { grid-column:2; display:flex; justify-content:space-between; color:var(--soft); font-size:.78rem; line-height:1.2 }
    .tale, .hint { margin:0; font-size:.92rem; color:var(--soft) } .hint { margin-top:.5rem; font-size:.88rem }
    .hidden { position:absolute; width:1px; height:1px; overflow:hidden; clip-path:inset(50%); white-space:nowrap }
    @container (max-width:38rem) { .lower { grid-template-columns:minmax(0,1fr) } .status { grid-template-columns:repeat(2,minmax(0,1fr)) } .buttons button { flex:1 } }
    @container (max-width:16rem) { .forces .name { flex-wrap:wrap; gap:0 } .forces { font-size:.8rem; gap:.45rem .3rem } }
    @media (forced-colors:active) { .track b, .switch input:checked + span { forced-color-adjust:none } svg { forced-color-adjust:none } }
    @media print { .buttons, .hint, .switch { display:none } }
  `;

  const SVG = "http://www.w3.org/2000/svg";
  function draw(parent, name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  }

  const number = (value, digits = 3) => {
    const size = Math.abs(value);
    const text = size !== 0 && (size >= 1e4 || size < 1e-3) ? value.toExponential(1) : value.toFixed(size >= 100 ? 1 : digits);
    return text.replace("-", "−");
  };

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
          <label><input type="radio" value="library" checked><span>True terms</span></label>
          <label><input type="radio" value="stylised"><span>Sketch</span></label></fieldset></div>
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

  /** Where a label is farthest from all curves: the place among `xs` for row `own` of `rows` of heights, and its height. */
  function clearest(xs, rows, own, taken, top, bottom) {
    let best = { room: -1, at: 0 };
    xs.forEach((x, i) => {
      const y = rows[own][i] - 9;
      if (y < top + 12 || y > bottom - 6) return;
      const others = rows.filter((_, k) => k !== own).map((row) => Math.abs(row[i] - y));
      const labels = taken.filter((each) => Math.abs(each.x - x) < 90).map((each) => Math.abs(each.y - y));
      const room = Math.min(60, ...others, ...labels);
      if (room > best.room) best = { room, at: i };
    });
    return { x: xs[best.at], y: rows[own][best.at] - 9 };
  }

  /** The forces on p, a bar for each term: to the right where it pushes p up. */
  class Forces {
    constructor(box) {
      this.bars = {};
      const add = (parent, tag, kind) => Object.assign(parent.appendChild(document.createElement(tag)), { className: kind });
      for (const name of TERMS) {
        const label = add(box, "span", "name"), key = draw(label, "svg", { class: "key", viewBox: "0 0 30 6", "aria-hidden": "true" });
        draw(key, "line", { class: `term ${name}`, x2: 30, y1: 3, y2: 3 });
        label.append(name);
        const bar = add(add(box, "span", "track"), "b", "");
        bar.style.background = `var(--${name})`;
        this.bars[name] = { bar, label, value: add(box, "span", "value") };
      }
      const ends = "<span>← less</span><span>more →</span>";
      box.insertAdjacentHTML("beforeend", `<span class="ends" aria-hidden="true">${ends}</span>`);
    }

    show(terms) {
      const largest = Math.max(...TERMS.map((name) => Math.abs(terms[name].slope)), 1e-12);
      for (const name of TERMS) {
        const force = -terms[name].slope, length = (50 * Math.abs(force)) / largest, { bar, value } = this.bars[name];
        bar.style.left = `${force < 0 ? 50 - length : 50}%`;
        bar.style.width = `${length}%`;
        value.textContent = force === 0 ? "0" : (force > 0 ? "+" : "") + number(force, 3);
      }
    }
  }

  self.Gumdrop = self.Gumdrop || {};
  self.Gumdrop.landscapeLook = { STYLE, TEMPLATE, Forces, draw, number, ticks, clearest };
})();
