// SPDX-License-Identifier: GPL-2.0-only OR MIT
// Keeps the number of runs and their time beside what is filled in. Without it they are those of the study as it stands.

const PAUSE_MS = 250;
const form = document.getElementById("run");
let timer, last = 0;

async function ask() {
  const mine = ++last;
  const answer = await fetch(form.dataset.outlook, { method: "POST", body: new URLSearchParams(new FormData(form)) });
  if (!answer.ok || mine !== last) return;
  const said = await answer.json();
  document.getElementById("wrong").textContent = said.error ?? "";
  for (const place of form.querySelectorAll("[data-size]")) place.textContent = said[place.dataset.size] ?? "";
}

if (form) {
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
  });
}
