// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The views by their address; `*` stands for any name.

import { staysInside } from "./server.js";
import { Algorithm } from "./views/algorithm.js";
import { Algorithms } from "./views/algorithms.js";
import { Compared } from "./views/compared.js";
import { Edit } from "./views/edit.js";
import { Enter } from "./views/enter.js";
import { Entry } from "./views/entry.js";
import { GraphsView } from "./views/graphs.js";
import { Home } from "./views/home.js";
import { Keys } from "./views/keys.js";
import { Link } from "./views/link.js";
import { Links } from "./views/links.js";
import { Machines } from "./views/machines.js";
import { Queue } from "./views/queue.js";
import { ReportView } from "./views/report.js";
import { Result } from "./views/result.js";
import { Results } from "./views/results.js";
import { Rows } from "./views/rows.js";
import { Standing } from "./views/standing.js";
import { Studies } from "./views/studies.js";
import { Study } from "./views/study.js";
import { Lessons, Try } from "./views/tab.js";

const ROUTES = {
  "": Home,
  "enter": Enter,
  "try": Try,
  "lessons": Lessons,

  // Studies and queue.
  "studies": Studies,
  "studies/*": Study,
  "edit": Edit,
  "edit/*": Edit,
  "keys": Keys,
  "queue": Queue,
  "queue/*": Entry,

  // Results.
  "results": Results,
  "results/*": Result,
  "results/*/report": ReportView,
  "results/*/graphs": GraphsView,
  "results/*/rows": Rows,
  "compared/*": Compared,

  // Links, algorithms, machines.
  "links": Links,
  "links/*": Link,
  "algorithms": Algorithms,
  "algorithms/*": Algorithm,
  "standing": Standing,
  "machines": Machines,
};

// The pages of the navigation: address, name, `also` its further addresses, and where it has something to show `in`: a page that is `alone` (in a folder,
// or a stranger's), `served` to somebody who is signed in, or published with files `beside` it.
export const PAGES = [
  { address: "lessons", title: "Lessons", in: ["alone", "served", "beside"] },
  { address: "try", title: "Try", in: ["alone", "served", "beside"] },
  { address: "studies", title: "Studies", also: ["edit", "keys"], in: ["served", "beside"] },
  { address: "queue", title: "Queue", in: ["served"] },
  { address: "results", title: "Results", also: ["compared"], in: ["served", "beside"] },
  { address: "links", title: "Links", in: ["served", "beside"] },
  { address: "algorithms", title: "Algorithms", also: ["standing"], in: ["alone", "served", "beside"] },
  { address: "machines", title: "Machines", in: ["served"] },
];

// Returns the route of a fragment; of `#study=..` and the like that of the tab's own pages.
export function routeOf(fragment) {
  const text = fragment.replace(/^#/, "");
  if (text && !text.startsWith("/")) {
    const query = new URLSearchParams(text);
    return { path: [query.has("lesson") ? "lessons" : "try"], query };
  }
  const [path, asked] = text.replace(/^\//, "").split(/\?(.*)/s);
  return { path: path.split("/").filter(Boolean).map(named), query: new URLSearchParams(asked ?? "") };
}

function named(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// Returns the view of a path; undefined where there is none, or a name would lead elsewhere.
export function viewOf(path) {
  if (!path.every(staysInside)) return undefined;
  const first = path[0] ?? "";
  const route = [first, ...path.slice(1).map((part, at) => at === 0 ? "*" : part)].join("/");
  return Object.hasOwn(ROUTES, route) ? ROUTES[route] : undefined;
}
