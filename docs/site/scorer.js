// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The order of what the search finds: guides first, decisions and what only developers read last. And its excerpts, which Sphinx fetches from
// pages: a browser refuses that in a folder, so they come from `pages.js`, which `tools/docs.py` writes and which the page of the search loads.

const WEIGHTS = [["docs/guide/", 20], ["docs/reference/", 8], ["docs/models/", 6], ["studies/", 4], ["docs/decisions/", -20], ["CHANGELOG", -20]];
const OTHERS = -8;

var Scorer = {
  score: ([page, , , , score]) => score + (WEIGHTS.find(([begin]) => page.startsWith(begin))?.[1] ?? OTHERS),
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};

window.fetch = async (address) => ({ text: async () => PAGES[new URL(address, location).href.split("#")[0]] ?? "" });
