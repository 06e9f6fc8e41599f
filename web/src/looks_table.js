// SPDX-License-Identifier: GPL-2.0-only OR MIT
// The table algorithms/looks.toml, written by tools/looks.py.

export const INKS = {"ink": {"light": "#16191d", "dark": "#e6e9ec"}, "soft": {"light": "#57606a", "dark": "#a3acb6"}, "line": {"light": "#dde2e7", "dark": "#2f363e"}, "paper": {"light": "#ffffff", "dark": "#111418"}, "pale": {"light": "#f5f7f9", "dark": "#1a1f25"}};
export const DASHES = {"solid": [], "dashed": [5.0, 1.5], "dotted": [1.2, 1.2], "dash-dot": [6.0, 1.5, 1.2, 1.5], "dash-dot-dot": [3.0, 1.0, 1.0, 1.0, 1.0, 1.0]};
export const ROWS = [
  {"key": "cubic", "name": "Cubic", "light": "#0d6abb", "dark": "#2888e5", "dash": "solid", "marker": "circle"},
  {"key": "bbr", "name": "BBR", "light": "#e46910", "dark": "#fe8743", "dash": "solid", "marker": "square"},
  {"key": "hybla", "name": "Hybla", "light": "#2ea374", "dark": "#2cdc9b", "dash": "solid", "marker": "triangle"},
  {"key": "reno", "name": "Reno", "light": "#a10d7c", "dark": "#c657a2", "dash": "solid", "marker": "diamond"},
  {"key": "bbr3", "name": "BBRv3", "light": "#a91b43", "dark": "#d6536b", "dash": "dashed", "marker": "square"},
  {"key": "vivace", "name": "PCC Vivace", "light": "#7e5d07", "dark": "#ffc128", "dash": "solid", "marker": "wedge"},
  {"key": "copa", "name": "Copa", "light": "#b16af1", "dark": "#ca9cfb", "dash": "solid", "marker": "plus"},
  {"key": "vegas", "name": "Vegas", "light": "#028a9b", "dark": "#2ae4fe", "dash": "dashed", "marker": "cross"},
  {"key": "westwood_plus", "name": "Westwood+", "light": "#71841f", "dark": "#a0bb27", "dash": "dashed", "marker": "diamond"},
  {"key": "illinois", "name": "Illinois", "light": "#7c22a6", "dark": "#af6cd5", "dash": "dotted", "marker": "plus"},
  {"key": "htcp", "name": "H-TCP", "light": "#5341c8", "dark": "#807dee", "dash": "dashed", "marker": "cross"},
  {"key": "bic", "name": "BIC", "light": "#15a0ce", "dark": "#1fbcf1", "dash": "dotted", "marker": "square"},
  {"key": "compound", "name": "Compound", "light": "#bf5914", "dark": "#d2600c", "dash": "dotted", "marker": "triangle"},
  {"key": "highspeed", "name": "HighSpeed", "light": "#d5305a", "dark": "#f97389", "dash": "dash-dot", "marker": "circle"},
  {"key": "westwood", "name": "Westwood", "light": "#307609", "dark": "#94e577", "dash": "dash-dot", "marker": "plus"},
  {"key": "ledbat_pp", "name": "LEDBAT++", "light": "#a29427", "dark": "#a79701", "dash": "dash-dot", "marker": "wedge"},
  {"key": "sicc", "name": "SICC", "light": "#457cfd", "dark": "#77a2fc", "dash": "dash-dot-dot", "marker": "diamond"},
  {"key": "dctcp", "name": "DCTCP", "light": "#1e8163", "dark": "#46ffc7", "dash": "dotted", "marker": "triangle"},
  {"key": "fast", "name": "FAST", "light": "#d147a7", "dark": "#e876c1", "dash": "dash-dot-dot", "marker": "wedge"},
  {"light": "#000000", "dark": "#ffffff", "dash": "solid", "marker": "circle"},
  {"light": "#4d5e7a", "dark": "#a7d3e1", "dash": "solid", "marker": "circle"},
  {"light": "#977a62", "dark": "#977a62", "dash": "dashed", "marker": "square"},
  {"light": "#1e3b4f", "dark": "#89a9c1", "dash": "dotted", "marker": "triangle"},
  {"light": "#5c493a", "dark": "#c5bf9a", "dash": "dash-dot", "marker": "diamond"},
  {"light": "#7191a8", "dark": "#6b8ba2", "dash": "dash-dot-dot", "marker": "wedge"},
  {"light": "#3e3818", "dark": "#aa9c86", "dash": "solid", "marker": "plus"},
  {"light": "#735f4f", "dark": "#dfd9b3", "dash": "dashed", "marker": "cross"},
];
export const OWN = 19;
