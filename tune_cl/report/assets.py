"""Style and behaviour of the page, which contains both, so that it opens without a network."""

STYLE = """
:root { color-scheme: light dark; --bg: #fff; --card: #f5f6f8; --text: #1a1f25; --muted: #57616c; --rule: #d6dbe1;
  --trial: #9aa5b1; --best: #c2410c; --baseline: #1d4ed8; --good: #15803d; --bad: #b91c1c; --low: #b3bcc7;
  --shade: #0005; --under: var(--bg); }
@media (prefers-color-scheme: dark) { :root { --bg: #12161b; --card: #1b2129; --text: #e6e9ed; --muted: #9da7b3;
  --rule: #353e49; --trial: #5d6977; --best: #fb923c; --baseline: #6ea8fe; --good: #4ade80; --bad: #f87171;
  --low: #4b5563; --shade: #fff5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1120px; padding: 1rem; background: var(--bg); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
p { margin: .5rem 0; max-width: 46rem; } .muted, figcaption + p, figure p { color: var(--muted); font-size: .9rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem .9rem; margin: 1rem 0; font-size: .9rem; }
a { color: var(--baseline); }
pre { background: var(--card); padding: .6rem .8rem; border-radius: 6px; overflow-x: auto; font-size: .85rem; }
.verdict { border-left: 6px solid var(--muted); background: var(--card); padding: .6rem 1rem; border-radius: 6px; }
.verdict.better { border-color: var(--good); } .verdict.worse { border-color: var(--bad); }
.verdict strong { font-size: 1.25rem; display: block; }
.charts { display: grid; gap: 1.2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 534px)); }
figure { margin: 0; min-width: 0; max-width: 534px; } figcaption { font-weight: 600; margin-bottom: .2rem; }
svg { display: block; width: 100%; height: auto; background: var(--card); border-radius: 6px; }
svg text { fill: var(--muted); font-size: 12.5px; } svg text.axis, svg text.name { fill: var(--text); }
svg text.halo { paint-order: stroke; stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; }
@media (max-width: 520px) { svg text { font-size: 14.5px; } }
.grid { stroke: var(--rule); } .zero { stroke: var(--muted); }
.level { stroke: var(--baseline); stroke-dasharray: 5 4; }
.line path { fill: none; } .line .hit { stroke: transparent; stroke-width: 9; pointer-events: stroke; }
.stroke { stroke: var(--trial); stroke-width: 1.3; stroke-linejoin: round; } .failed .stroke { stroke-dasharray: 2 3; }
.best .stroke { stroke: var(--best); stroke-width: 2.6; }
.baseline .stroke { stroke: var(--baseline); stroke-width: 2.6; }
.way .stroke { stroke: color-mix(in oklab, var(--best) var(--mix), var(--low)); stroke-width: 1.8; }
.line.hot .stroke { stroke: var(--text); stroke-width: 3; }
.curriculum { fill: var(--trial); stroke: var(--card); } .best .curriculum { fill: var(--best); }
.found, .ring { fill: var(--card); stroke: var(--best); stroke-width: 2; } .ring { stroke: var(--muted); }
.line .cross { stroke: var(--muted); stroke-width: 1.5; } .best .cross { stroke: var(--best); }
.interval .bar { stroke-width: 2.5; } .interval.best .bar { stroke: var(--best); }
.interval.best .dot { fill: var(--best); }
.interval.baseline .bar { stroke: var(--baseline); } .interval.baseline .dot { fill: var(--baseline); }
.share.trial { fill: var(--trial); } .share.best { fill: var(--best); }
.chance { stroke: var(--text); stroke-width: 2; stroke-dasharray: 3 2; }
.gain { fill: var(--best); } .loss { fill: var(--baseline); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .3rem 0; padding: 0;
  font-size: .85rem; color: var(--muted); }
.key { display: inline-block; width: 1.3em; height: 0; margin-right: .4em; vertical-align: middle;
  border-top: 3px solid var(--trial); } .key.best { border-color: var(--best); }
.key.baseline { border-color: var(--baseline); } .key.level { border-top: 2px dashed var(--baseline); }
.key.chance { border-top: 2px dashed var(--text); } .key.failed { border-top: 2px dotted var(--trial); }
.key.curriculum, .key.found { width: .7em; height: .7em; border: 0; border-radius: 50%; background: var(--trial); }
.key.found { background: none; border: 2px solid var(--best); }
.key.cross { border: 0; height: auto; width: auto; vertical-align: baseline; } .key.cross::before { content: "✕"; }
.scroll { overflow-x: auto; background: no-repeat local left / 2.5rem 100%
    linear-gradient(90deg, var(--under) 40%, transparent),
  no-repeat local right / 2.5rem 100% linear-gradient(270deg, var(--under) 40%, transparent),
  no-repeat left top / .9rem calc(100% - 1px) linear-gradient(90deg, var(--shade), transparent),
  no-repeat right top / .9rem calc(100% - 1px) linear-gradient(270deg, var(--shade), transparent); }
table { border-collapse: collapse; font-size: .9rem; overflow-wrap: normal; }
th, td { padding: .3rem .7rem .3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }
th { color: var(--muted); font-weight: 600; white-space: nowrap; }
.wide { min-width: 7rem; max-width: 34rem; overflow-wrap: break-word; }
sup { line-height: 0; } .n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
details { background: var(--card); --under: var(--card); border-radius: 6px; padding: .5rem .8rem; margin: .4rem 0; }
details p { font-size: .92rem; } summary { cursor: pointer; } summary b { font-variant-numeric: tabular-nums; }
#tip { position: fixed; z-index: 1; display: none; max-width: 18rem; padding: .3rem .5rem; border-radius: 4px;
  background: var(--text); color: var(--bg); font-size: .8rem; pointer-events: none; }
@media print { body { max-width: none; } figure, details { break-inside: avoid; } }
"""

SCRIPT = """
const tip = document.getElementById("tip");
function point(event) {
  const at = event.target.closest("[data-tip]");
  document.querySelectorAll(".hot").forEach(line => line.classList.remove("hot"));
  tip.style.display = at ? "block" : "none";
  if (!at) return;
  const line = at.closest("[data-trial]");
  if (line) document.querySelectorAll(".line[data-trial]").forEach(other =>
    other.classList.toggle("hot", other.dataset.trial === line.dataset.trial));
  tip.textContent = at.dataset.tip;
  tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)) + "px";
}
document.addEventListener("pointerover", point);
document.addEventListener("click", point);
"""
