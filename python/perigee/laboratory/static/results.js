// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Sorts tables by the head that is pressed, lets two results be compared, and says how long a form is being answered. Without it the list is sorted by time.

const WANTED = 2;

function keyOf(cell) {
  const text = cell.dataset.sort ?? cell.textContent.trim();
  return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text.toLowerCase();
}

function sort(table, column, head) {
  const body = table.tBodies[0];
  const isDown = head.ariaSort === "ascending" || (!head.ariaSort && typeof keyOf(body.rows[0].cells[column]) === "number");
  const rows = [...body.rows].map((row) => [keyOf(row.cells[column]), row]);
  rows.sort(([a], [b]) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1) * (isDown ? -1 : 1));
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  head.ariaSort = isDown ? "descending" : "ascending";
  body.append(...rows.map(([, row]) => row));
}

for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (head.tagName !== "TH") return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, column, head));
    head.append(button);
  });
}

const compare = document.getElementById("compare");
if (compare) {
  const said = document.getElementById("chosen");
  const show = () => {
    const ticked = [...compare.form.querySelectorAll("input[name=result]:checked")];
    const areAlike = new Set(ticked.map((one) => one.dataset.study)).size < 2;
    compare.disabled = ticked.length !== WANTED || !areAlike;
    said.textContent = !areAlike ? "These are of different studies."
      : ticked.length === WANTED ? "The older one becomes A."
      : ticked.length > WANTED ? `${ticked.length} are ticked; two can be compared.`
      : "Tick two results of one study.";
  };
  compare.form.addEventListener("change", show);
  show();
}

for (const form of document.querySelectorAll("form[data-busy]")) {
  form.addEventListener("submit", (event) => {
    const button = event.submitter, begun = performance.now();
    const tell = () => { button.textContent = `${form.dataset.busy}, ${Math.round((performance.now() - begun) / 1000)} s`; };
    tell();
    setInterval(tell, 1000);
    setTimeout(() => { button.disabled = true; });
  });
}
