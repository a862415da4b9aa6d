"use strict";
(() => {
  // Text is copied as it is, and the button says so.
  document.addEventListener("click", async (e) => {
    const button = e.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "copied";
    } catch {
      button.textContent = "not copied";
    }
  });
  // A key opens a view, or leads to a button that Enter presses, unless somebody writes.
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea")) return;
    if (e.key === "/") {
      const first = document.querySelector(".search input");
      if (first) { e.preventDefault(); first.focus(); }
      return;
    }
    for (const one of document.querySelectorAll("[data-key]")) {
      if (one.dataset.key === e.key) { e.preventDefault(); if (one.tagName === "A") one.click(); else one.focus(); return; }
    }
  });
  // A chart that is drawn anew is destroyed first: it listens to the window.
  const charted = new WeakMap();
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  async function draw(place) {
    const answer = await fetch(place.dataset.chart);
    if (!answer.ok || !window.uPlot) return;
    const data = await answer.json();
    charted.get(place)?.destroy();
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") } };
    // Times are in UTC, as everywhere on a page.
    const time = (s) => (s == null ? "" : new Date(s * 1e3).toISOString().slice(11, 16));
    const line = (label, stroke, width) => ({ label, stroke, width, points: { show: false }, value: (_, n) => n ?? "" });
    charted.set(place, new uPlot({
      width: place.clientWidth, height: 160,
      axes: [{ ...axis, values: (_, all) => all.map(time) }, axis],
      series: [{ label: "UTC", value: (_, s) => time(s) }, line("calls", color("--bar"), 2), line("failures", color("--bad"), 1)],
    }, data, place));
  }
  function charts() { document.querySelectorAll("[data-chart]").forEach(draw); }
  document.addEventListener("DOMContentLoaded", charts);
  let later;
  window.addEventListener("resize", () => { clearTimeout(later); later = setTimeout(charts, 200); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", charts);
  setInterval(() => { if (!document.hidden) charts(); }, 30000);
})();
