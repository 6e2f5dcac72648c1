// A run: shows the report that it left. Those given on the command line are listed; any other is chosen from disk.
(function () {
  "use strict";

  const PAGE = `
    <div class="row"><label class="button">Choose a folder<input class="hidden" type="file" webkitdirectory></label>
      <label class="button">Choose a report.html<input class="hidden" type="file" accept=".html"></label></div>
    <div class="row listed" role="group" aria-label="Runs" style="margin-top:.8rem"></div>
    <p class="soft" role="status" style="margin-top:.8rem">No run is open.</p>
    <div class="opened" hidden>
      <p style="margin:.6rem 0 0"><a target="_blank" rel="noopener">Open the report in a tab of its own</a></p></div>`;

  function build(root, runs) {
    root.innerHTML = PAGE;
    const find = (selector) => root.querySelector(selector);
    const say = (text) => (find("[role=status]").textContent = text);
    let blob = null;

    function show(address, title, note) {
      const frame = find("iframe") ?? find(".opened").appendChild(document.createElement("iframe"));
      frame.setAttribute("sandbox", ""); // a report has no scripts, and gets none
      frame.title = `Report: ${title}`;
      frame.src = find("a").href = address;
      find(".opened").hidden = false;
      say(note ? `${title}: ${note}` : title);
    }

    for (const run of runs) {
      const button = find(".listed").appendChild(document.createElement("button"));
      button.type = "button";
      button.textContent = run.title;
      button.addEventListener("click", () => {
        for (const other of find(".listed").children) other.setAttribute("aria-current", other === button);
        run.address ??= URL.createObjectURL(new Blob([run.html], { type: "text/html" }));
        show(run.address, run.title, run.note);
      });
    }

    async function open(files) {
      const report = files.find((file) => file.name === "report.html");
      const results = files.find((file) => file.name === "results.json");
      if (!report) {
        const hint = results
          ? "It holds results.json: gumdrop explore --run FOLDER can show it."
          : "Choose a folder that gumdrop fit or gumdrop reproduce left.";
        say(`There is no report.html. ${hint}`);
        return;
      }
      if (blob) URL.revokeObjectURL(blob);
      blob = URL.createObjectURL(new Blob([await report.arrayBuffer()], { type: "text/html" }));
      let title = report.webkitRelativePath.split("/")[0] || report.name;
      try {
        const content = results ? JSON.parse(await results.text()) : {};
        if (content.experiment) title = `Experiment ${content.experiment}`;
        else if (content.target) title = `Predicting ${content.target.name}`;
      } catch {
        say("Its results.json is damaged; the report may still tell.");
      }
      show(blob, title, "");
    }

    const [folder, single] = root.querySelectorAll("input[type=file]");
    const top = (file) => file.webkitRelativePath.split("/").length === 2;
    folder.addEventListener("change", () => open([...folder.files].filter(top)));
    single.addEventListener("change", () => {
      const [file] = single.files;
      if (file) open([new File([file], "report.html")]);
    });
    if (runs.length) find(".listed").firstElementChild.click();
  }

  const start = () => build(document.getElementById("run-view"), Gumdrop.runs);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
