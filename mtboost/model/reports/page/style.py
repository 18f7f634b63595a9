# SPDX-License-Identifier: Apache-2.0
"""Style of the page, light and dark, on screens and on paper."""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f5f6f8; --card: #ffffff; --ink: #1c2430; --quiet: #5a6675; --line: #d9dee5;
  --accent: #0b5cad; --warn: #8a4b00; --warn-card: #fff6e5;
  --faint: #b9b9b9; --muted: #8a8a8a;
  --way0: #4393c3; --way1: #b2490a; --way2: #1f3a5f;
  --color0: #0072b2; --color1: #d55e00; --color2: #009e73; --color3: #cc79a7;
  --color4: #56b4e9; --color5: #b8860b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161c; --card: #1b2129; --ink: #e4e9ef; --quiet: #9fabb9; --line: #333c48;
    --accent: #7ab8ff; --warn: #ffc66d; --warn-card: #2c2415;
    --faint: #5b6570; --muted: #8f99a5;
    --way0: #6db6e6; --way1: #ff9a52; --way2: #d3e0f5;
    --color0: #4da3e0; --color1: #ff8c3f; --color2: #3fc79e; --color3: #e3a0c4;
    --color4: #8ccbf2; --color5: #dcb24a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 68rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
header h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .25rem; overflow-wrap: anywhere; }
header p { margin: 0; color: var(--quiet); }
nav { margin: 1.25rem 0 0; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; }
a { color: var(--accent); }
section { margin-top: 2.5rem; }
h2 { font-size: 1.35rem; margin: 0 0 .75rem; }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .5rem; }
p { max-width: 46rem; margin: .5rem 0; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr));
  gap: .75rem; margin: 1.75rem 0 0; }
dl.facts div { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: .7rem .9rem; }
dl.facts dt { color: var(--quiet); font-size: .82rem; }
dl.facts dd { margin: 0; font-size: 1.3rem; font-weight: 600; font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere; }
ul.warnings { list-style: none; padding: 0; margin: 0; }
ul.warnings li { background: var(--warn-card); border-left: 4px solid var(--warn);
  border-radius: .3rem; padding: .55rem .9rem; margin: .5rem 0; overflow-wrap: anywhere; }
.quiet, figcaption { color: var(--quiet); font-size: .92rem; }
figure { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  margin: 1rem 0; padding: 1rem; }
figure svg { display: block; width: 100%; height: auto; margin: 0 auto; color: var(--ink); }
figure svg text { font-family: "DejaVu Sans", Verdana, Arial, sans-serif; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figcaption { max-width: 46rem; margin: 0 0 .75rem; }
figcaption strong { color: var(--ink); }
.scroll { overflow: auto; max-height: 28rem; background: var(--card);
  border: 1px solid var(--line); border-radius: .6rem; }
table { border-collapse: collapse; width: 100%; font-size: .88rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .8rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
thead th { position: sticky; top: 0; background: var(--card); color: var(--quiet);
  font-weight: 600; }
th:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 9rem; }
tbody th { font-weight: 500; }
tbody tr:last-child > * { border-bottom: 0; }
table.words th:first-child { width: 40%; }
table.words thead th { text-align: left; }
table.words td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
code { font: .92em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  overflow-wrap: anywhere; }
@media print {
  :root { --page: #fff; }
  .scroll { max-height: none; overflow: visible; }
  figure, tr { break-inside: avoid; }
  nav { display: none; }
}
"""
