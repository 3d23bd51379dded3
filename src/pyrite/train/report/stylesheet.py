"""The style of a page: light or dark as the reader's system is, for screens of any width."""

from __future__ import annotations

from pyrite.train.report.palette import DARK, PALETTE


def stylesheet() -> str:
    """Return the style, with a variable and a class for each series' colour."""
    light = "".join(f"--series-{i}:{colour};" for i, colour in enumerate(PALETTE))
    dark = "".join(f"--series-{i}:{colour};" for i, colour in enumerate(DARK))
    swatches = "".join(f".s{i}{{background:var(--series-{i})}}" for i in range(len(PALETTE)))
    return _STYLE.replace("/*light*/", light).replace("/*dark*/", dark) + swatches


_STYLE = """
:root { color-scheme: light dark;
  --paper: #ffffff; --raised: #f6f7f9; --ink: #202124; --soft: #5f6368; --lines: #dadce0;
  --mark: #fff4d6; /*light*/ }
@media (prefers-color-scheme: dark) { :root {
  --paper: #16181c; --raised: #1f2227; --ink: #e6e8eb; --soft: #9aa0a6; --lines: #3a3e45;
  --mark: #3a3320; /*dark*/ } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 16px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 32px 0 10px; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; }
th, td { text-align: left; padding: 5px 16px 5px 0; border-bottom: 1px solid var(--lines);
  white-space: nowrap; max-width: 420px; overflow: hidden; text-overflow: ellipsis;
  font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 500; }
tr.differs td { background: var(--mark); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr));
  gap: 16px; }
figure { margin: 0; padding: 10px; background: var(--raised); border: 1px solid var(--lines);
  border-radius: 8px; min-width: 0; }
figure svg { display: block; width: 100%; height: auto; }
figure svg text { font-family: system-ui, -apple-system, "Segoe UI", sans-serif !important; }
figcaption { margin-top: 6px; font-size: 13px; color: var(--soft); overflow-wrap: anywhere; }
figcaption b { color: var(--ink); font-weight: 600; }
.samples { display: flex; flex-wrap: wrap; gap: 12px; align-items: flex-start; }
.samples figure { max-width: 100%; }
.samples figcaption { max-width: 480px; }
.samples figcaption small { display: block; }
.samples pre { max-width: 480px; }
img { display: block; max-width: 100%; height: auto; image-rendering: pixelated; background: #fff; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.45 ui-monospace,
  SFMono-Regular, Menlo, Consolas, monospace; }
details { margin-top: 24px; }
summary { cursor: pointer; font-weight: 600; margin-bottom: 8px; overflow-wrap: anywhere; }
.note { border-left: 4px solid #d9822b; background: var(--raised); padding: 8px 14px;
  margin: 0 0 16px; overflow-wrap: anywhere; }
.note ul { margin: 4px 0 0; padding-left: 20px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 10px; font-size: 14px; }
.swatch { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 7px;
  vertical-align: -1px; }
footer { margin-top: 40px; color: var(--soft); font-size: 13px; }
"""
