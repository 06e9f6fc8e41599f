// SPDX-License-Identifier: GPL-2.0-only OR MIT
// What stands behind the page: the server of a laboratory, or the data files beside a published page, read in the same way.

const ROLES = ["look", "run"];
const FIRST_PAUSE_S = 5;
const LONGEST_PAUSE_S = 60;

// Whether a name of an address stays where it stands in a path; the others would lead to files and routes that nobody meant.
export function staysInside(name) {
  return name !== "." && name !== ".." && !/[/\\]/.test(name);
}

// A path whose names may have any other letters, with a query of what is not empty; a list repeats its field.
export function addressOf(path, query = {}) {
  if (!path.split("/").every(staysInside)) throw new Error(`${path.slice(0, 80)}: leads elsewhere`);
  const each = Object.entries(query).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  const given = each.filter(([, value]) => value !== undefined && value !== null && value !== "");
  const asked = new URLSearchParams(given).toString();
  return `${path.split("/").map(encodeURIComponent).join("/")}${asked ? `?${asked}` : ""}`;
}

// The server of `perigee serve`.
class Server {
  kind = "served";
  #ended;
  #say;
  me = { person: null, forms: "", compiler: null };

  // `ended()` is called where the session is none any more; `say(text)` shows a sentence above the view.
  constructor(ended = () => {}, say = () => {}) {
    this.#ended = ended;
    this.#say = say;
  }

  // Asks who is signed in.
  async begin() {
    this.me = await this.get("me");
    return this.me;
  }

  // Whether there is anything to read for who is here.
  get isOpen() {
    return this.me.person !== null;
  }

  may(role) {
    return this.isOpen && ROLES.indexOf(this.me.person.role) >= ROLES.indexOf(role);
  }

  async get(path, query) {
    return (await this.#asked(addressOf(path, query))).json();
  }

  async bytes(path, query) {
    return (await this.#asked(addressOf(path, query))).arrayBuffer();
  }

  // Sends a form: of a field with several values, a list.
  async post(path, fields = {}) {
    const body = new URLSearchParams(Object.entries(fields).flatMap(([name, value]) => [value].flat().map((each) => [name, each])));
    return (await this.#asked(addressOf(path), { method: "POST", body, headers: { "x-perigee-forms": this.me.forms } })).json();
  }

  // The address of a file, for links, images and frames.
  file(path, query) {
    return `files/${addressOf(path, query)}`;
  }

  // Calls `take` with each state of the queue; returns what ends that. A browser goes on by itself after a break,
  // and not after a refusal: that is tried again here after a pause, which grows, unless the session has ended.
  events(take) {
    let source, timer, pause_s = FIRST_PAUSE_S, isOver = false, isRefused = false;
    const follow = () => {
      source = new EventSource("api/events");
      source.onmessage = ({ data }) => {
        if (isRefused) this.#say("");
        isRefused = false;
        pause_s = FIRST_PAUSE_S;
        take(JSON.parse(data));
      };
      source.onerror = () => { if (source.readyState === EventSource.CLOSED) refused(); };
    };
    const refused = async () => {
      const me = await this.get("me").catch(() => null);
      if (isOver) return;
      if (me && !me.person) {
        this.#left();
        return;
      }
      isRefused = true;
      this.#say(`This page cannot follow the queue now, and shows what was; it tries again in ${pause_s} s.`);
      timer = setTimeout(follow, pause_s * 1000);
      pause_s = Math.min(2 * pause_s, LONGEST_PAUSE_S);
    };
    follow();
    return () => {
      isOver = true;
      clearTimeout(timer);
      source.close();
    };
  }

  // Signs in with a token, or with a link that has one.
  async enter(secret) {
    await this.post("enter", { secret });
    return this.begin();
  }

  async leave() {
    await this.post("leave");
    return this.begin();
  }

  async #asked(address, options = {}) {
    const answer = await fetch(`api/${address}`, options).catch(() => {
      throw new Error("The server does not answer.");
    });
    if (answer.ok) return answer;
    const said = await answer.json().catch(() => ({ error: `The server answers with ${answer.status}.` }));
    if (answer.status === 401) this.#left();
    // Where the server is busy, when to ask again.
    throw Object.assign(new Error(said.error), { busy_s: answer.status === 503 ? Number(answer.headers.get("retry-after")) : 0 });
  }

  // The session has ended.
  #left() {
    if (!this.isOpen) return;
    this.me = { ...this.me, person: null, forms: "" };
    this.#ended();
  }
}

// The files beside a page that `perigee publish` wrote: `data/PATH.js` calls `perigeeData` with what it has.
class Beside {
  kind = "beside";
  isOpen = true;
  #given = new Map();
  #taking = new Map();
  me = { person: null, forms: "", compiler: null };

  constructor() {
    globalThis.perigeeData = (path, content) => this.#taking.get(path)?.(content);
  }

  async begin() {
    this.me = { ...this.me, ...await this.get("me") };
    return this.me;
  }

  may() {
    return false;
  }

  // Each file is read once, whatever is asked of it: who asks chooses what they want of a list.
  get(path) {
    if (!this.#given.has(path)) this.#given.set(path, this.#read(path));
    return this.#given.get(path);
  }

  // The file of PATH and the values of the query, joined by "-", has the bytes in base64.
  async bytes(path, query = {}) {
    const code = await this.get([path, ...Object.values(query)].join("-"));
    return Uint8Array.from(atob(code), (letter) => letter.charCodeAt(0)).buffer;
  }

  file(path) {
    return `files/${addressOf(path)}`;
  }

  #read(path) {
    return new Promise((resolve, reject) => {
      const src = `data/${addressOf(path)}.js`;
      const script = document.createElement("script");
      this.#taking.set(path, resolve);
      script.addEventListener("error", () => reject(new Error(`${path} is not in this site.`)));
      script.addEventListener("load", () => script.remove());
      script.src = src;
      document.head.append(script);
    });
  }
}

// What stands behind this page: as its maker has written into it.
export function behind(ended, say) {
  const kind = document.querySelector('meta[name="perigee"]')?.content;
  return { served: () => new Server(ended, say), beside: () => new Beside() }[kind]?.() ?? null;
}
