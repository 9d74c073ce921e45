// The timeline of one step: lanes of computation and of buckets, drawn as SVG from the spans in #data
// (report/timeline_data.h). A span is [activity, bucket, begin, end, bytes, thread], in microseconds.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const view = byId("view"), tip = byId("tip"), stepBox = byId("step"), rankBox = byId("rank");
  if (data.steps.length === 0) {
    byId("timeline").replaceChildren(document.createTextNode("No step was sampled yet."));
    byId("timeline").hidden = false;
    return;
  }

  const PARTS = { "data wait": "p5", "forward": "p0", "backward": "p1", "optimizer": "p4", "graph": "p6", "other": "p7" };
  const LEFT = 150, RIGHT = 12, TOP = 8;
  const ALL = "all";
  let shown = [];  // what the lanes hold: {name, items}
  let whole = [0, 1], range = [0, 1];  // microseconds

  const svgNode = (name, attributes, parent) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(node);
    return node;
  };
  const ms = (us) => {
    const value = us / 1000, size = Math.abs(value);
    return value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0) + " ms";
  };
  const spansOf = (rank) => data.spans[rank][stepBox.value] || [];
  const bucketName = (bucket) => {
    const known = data.buckets[bucket];
    return "bucket " + bucket + (known ? " · " + known.mb.toFixed(known.mb < 9.95 ? 2 : 1) + " MB" : "");
  };
  const isWait = (span) => span[0] === "communication wait";

  // The parts of [begin, end) inside and outside of the waits, which do not overlap each other.
  const cut = (begin, end, waits) => {
    const pieces = [];
    let at = begin;
    for (const wait of waits) {
      const from = Math.max(at, wait[2]), to = Math.min(end, wait[3]);
      if (from >= to) continue;
      if (from > at) pieces.push([at, from, false]);
      pieces.push([from, to, true]);
      at = to;
    }
    if (at < end) pieces.push([at, end, false]);
    return pieces;
  };

  const computeLane = (spans, waits, transfers, name) => {
    const items = [];
    for (const span of spans) {
      if (!(span[0] in PARTS) || span[0] === "other") continue;
      for (const [begin, end, waiting] of cut(span[2], span[3], waits)) {
        if (!waiting) {
          items.push({ begin, end, type: PARTS[span[0]], label: span[0], text: span[0] + ": " + ms(span[3] - span[2]) });
        }
      }
    }
    for (const wait of waits) {
      for (const [begin, end, moving] of cut(wait[2], wait[3], transfers)) {
        const what = moving ? "exposed communication" : "waiting for other ranks";
        items.push({ begin, end, type: moving ? "p2" : "p3", label: moving ? "exposed" : "waits",
          text: what + ": " + ms(end - begin) + (wait[1] >= 0 ? "\nbackward's end waits for bucket " + wait[1] : "") });
      }
    }
    return { name, items };
  };
  const transferItems = (span, waits) => cut(span[2], span[3], waits).map(([begin, end, waiting]) => ({
    begin, end, type: waiting ? "p2" : "hidden", label: String(span[1]),
    text: bucketName(span[1]) + "\ntransfer: " + ms(span[3] - span[2]) + ", from " + ms(span[2]) + " to " + ms(span[3]) +
      "\nsent: " + (span[4] / 1e6).toFixed(2) + " MB" + (waiting ? "\nhere exposed" : "\nhere hidden") }));

  const lanesOf = (rank) => {
    const spans = spansOf(rank);
    const sorted = (name) => spans.filter((span) => span[0] === name).sort((a, b) => a[2] - b[2]);
    const waits = sorted("communication wait"), transfers = sorted("communication");
    // Transfers of one group follow each other; where several groups carry them they overlap.
    const union = [];
    for (const span of transfers) {
      const last = union[union.length - 1];
      if (last && span[2] <= last[3]) last[3] = Math.max(last[3], span[3]);
      else union.push(span.slice());
    }
    return { spans, waits, transfers, compute: (name) => computeLane(spans, waits, union, name) };
  };

  const buildLanes = () => {
    shown = [];
    const ranks = rankBox.value === ALL ? data.ranks : [rankBox.value];
    let low = Infinity, high = 1;
    for (const rank of ranks) {
      const { spans, waits, transfers, compute } = lanesOf(rank);
      for (const span of spans) {
        low = Math.min(low, span[2]);
        high = Math.max(high, span[3]);
      }
      shown.push(compute(ranks.length > 1 ? "rank " + rank + " computes" : "computation"));
      if (ranks.length > 1) {
        shown.push({ name: "… its transfers", items: transfers.flatMap((span) => transferItems(span, waits)) });
        continue;
      }
      const buckets = spans.reduce((most, span) => Math.max(most, span[1] + 1), 0);
      for (let bucket = 0; bucket < buckets; ++bucket) {
        const of = (name) => spans.find((span) => span[0] === name && span[1] === bucket);
        const ready = of("bucket ready"), launch = of("bucket launch"), transfer = of("communication");
        if (!ready && !launch && !transfer) continue;
        shown.push({ name: bucketName(bucket), ready: ready && ready[2], launch: launch && launch[2],
          items: transfer ? transferItems(transfer, waits) : [], start: transfer && transfer[2] });
      }
    }
    if (low === Infinity) low = 0;
    const margin = (high - low) * 0.01;
    whole = [low - margin, high + margin];
  };

  const tickStep = (span, count) => {
    const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999);
  };

  const drawLane = (svg, lane, top, height, x) => {
    const middle = top + height / 2, bar = Math.max(3, height - 6);
    if (height >= 8) svgNode("line", { class: "lane", x1: LEFT, x2: x(range[1]), y1: top + height, y2: top + height }, svg);
    if (height >= 11) {
      svgNode("text", { x: LEFT - 8, y: middle + 4, "text-anchor": "end" }, svg).textContent = lane.name;
    }
    const marks = svgNode("g", { "clip-path": "url(#lanes)" }, svg);
    for (const item of lane.items) {
      if (item.end < range[0] || item.begin > range[1]) continue;
      const left = Math.max(x(item.begin), LEFT - 2), right = Math.min(x(item.end), x(range[1]) + 2);
      const box = { x: left, y: middle - bar / 2, width: Math.max(right - left, 0.8), height: bar };
      const rect = svgNode("rect", { ...box, class: "seg " + item.type }, marks);
      rect.dataset.text = item.text;
      if (item.type === "p2" || item.type === "p3") svgNode("rect", { ...box, class: "hatch " + item.type }, marks);
      if (item.type !== "hidden" && lane.items[0].label.length > 2 && right - left > 7 * item.label.length + 8 && height >= 16) {
        svgNode("text", { class: "on " + item.type, x: (left + right) / 2, y: middle + 4, "text-anchor": "middle" }, marks)
          .textContent = item.label;
      }
    }
    if (lane.ready !== undefined && lane.ready !== null) {
      const at = x(lane.ready), until = x(lane.start ?? lane.launch ?? lane.ready), size = Math.min(5, bar / 2);
      if (until > at) svgNode("line", { class: "life", x1: at, x2: until, y1: middle, y2: middle }, marks);
      const mark = svgNode("path", { class: "ready", d: `M${at - size} ${middle + size}L${at + size} ${middle + size}L${at} ${middle - size}Z` }, marks);
      mark.dataset.text = lane.name + "\nready at " + ms(lane.ready) +
        (lane.launch != null ? "\nlaunched " + ms(lane.launch - lane.ready) + " later" : "") +
        (lane.start != null ? "\ntravels " + ms(lane.start - (lane.launch ?? lane.ready)) + " after that" : "");
    }
    if (lane.launch !== undefined && lane.launch !== null) {
      const at = x(lane.launch);
      svgNode("line", { class: "launch", x1: at, x2: at, y1: middle - bar / 2, y2: middle + bar / 2 }, marks);
    }
  };

  const draw = () => {
    const width = Math.max(view.clientWidth, 320);
    const lane = shown.length > 100 ? 5 : shown.length > 60 ? 8 : shown.length > 30 ? 13 : 20;
    const heights = shown.map((one) => (one.ready === undefined && one.launch === undefined ? Math.max(lane, 26) : lane));
    const bottom = TOP + heights.reduce((sum, height) => sum + height, 0);
    const svg = svgNode("svg", { width, height: bottom + 40, viewBox: `0 0 ${width} ${bottom + 40}` });
    const x = (us) => LEFT + (us - range[0]) / (range[1] - range[0]) * (width - LEFT - RIGHT);
    const clip = svgNode("clipPath", { id: "lanes" }, svgNode("defs", {}, svg));
    svgNode("rect", { x: LEFT, y: 0, width: width - LEFT - RIGHT, height: bottom }, clip);
    const step = tickStep((range[1] - range[0]) / 1000, Math.max(3, width / 110));
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    for (let at = Math.ceil(range[0] / 1000 / step); at * step * 1000 <= range[1]; ++at) {
      const place = x(at * step * 1000);
      svgNode("line", { class: "grid", x1: place, x2: place, y1: TOP, y2: bottom + 4 }, svg);
      svgNode("text", { class: "note", x: place, y: bottom + 17, "text-anchor": "middle" }, svg).textContent = (at * step).toFixed(digits);
    }
    svgNode("text", { class: "note", x: (LEFT + width) / 2, y: bottom + 33, "text-anchor": "middle" }, svg)
      .textContent = "milliseconds since the step began";
    let top = TOP;
    shown.forEach((one, i) => {
      drawLane(svg, one, top, heights[i], x);
      top += heights[i];
    });
    view.replaceChildren(svg);
  };

  const show = (begin, end) => {
    const least = 5, length = Math.min(Math.max(end - begin, least), whole[1] - whole[0]);
    const from = Math.min(Math.max(begin, whole[0]), whole[1] - length);
    range = [from, from + length];
    draw();
  };
  const zoom = (factor, share = 0.5) => {
    const at = range[0] + share * (range[1] - range[0]), length = (range[1] - range[0]) * factor;
    show(at - share * length, at + (1 - share) * length);
  };
  const move = (share) => {
    const by = share * (range[1] - range[0]);
    show(range[0] + by, range[1] + by);
  };
  const showBackward = () => {
    const ranks = rankBox.value === ALL ? data.ranks : [rankBox.value];
    const spans = ranks.flatMap((rank) => spansOf(rank).filter((span) => span[0] === "backward"));
    if (spans.length === 0) return;
    const begin = Math.max(...spans.map((span) => span[2])), end = Math.max(...spans.map((span) => span[3]));
    show(begin - 0.02 * (end - begin), end + 0.02 * (end - begin));
  };

  const fillTable = () => {
    const ranks = rankBox.value === ALL ? data.ranks : [rankBox.value];
    const rows = ranks.flatMap((rank) => spansOf(rank).map((span) => [rank, ...span])).sort((a, b) => a[3] - b[3]);
    const table = document.createElement("table");
    const add = (cells, kind) => {
      const row = table.insertRow();
      cells.forEach((cell, i) => {
        const node = document.createElement(kind);
        node.textContent = cell;
        if (i > 2) node.className = "number";
        row.appendChild(node);
      });
    };
    add(["rank", "what", "bucket", "begin, ms", "length, ms", "MB"], "th");
    for (const [rank, what, bucket, begin, end, bytes] of rows) {
      add([rank, what, bucket < 0 ? "" : bucket, (begin / 1000).toFixed(3), ((end - begin) / 1000).toFixed(3),
        bytes > 0 ? (bytes / 1e6).toFixed(3) : ""], "td");
    }
    byId("span-table").replaceChildren(table);
  };
  const rebuild = () => {
    buildLanes();
    show(...whole);
    if (byId("spans").open) fillTable();
  };

  for (const step of data.steps) stepBox.add(new Option(String(step), String(step)));
  stepBox.value = String(data.steps[data.steps.length - 1]);
  for (const rank of data.ranks) rankBox.add(new Option(String(rank), String(rank)));
  if (data.ranks.length > 1) rankBox.add(new Option("all, on one clock", ALL));
  byId("timeline").hidden = false;
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  stepBox.addEventListener("change", rebuild);
  rankBox.addEventListener("change", rebuild);
  byId("in").addEventListener("click", () => zoom(0.5));
  byId("out").addEventListener("click", () => zoom(2));
  byId("all").addEventListener("click", () => show(...whole));
  byId("backward").addEventListener("click", showBackward);
  byId("spans").addEventListener("toggle", () => byId("spans").open && fillTable());
  view.addEventListener("keydown", (event) => {
    const keys = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "ArrowLeft": () => move(-0.2),
      "ArrowRight": () => move(0.2), "0": () => show(...whole), "b": showBackward };
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });

  const shareAt = (event) => {
    const box = view.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT)));
  };
  view.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;  // the page scrolls
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, shareAt(event));
  }, { passive: false });
  let drag = null;
  view.addEventListener("pointerdown", (event) => {
    drag = { at: shareAt(event), range: range.slice() };
    view.setPointerCapture(event.pointerId);
  });
  view.addEventListener("pointermove", (event) => {
    if (drag) {
      const by = (drag.at - shareAt(event)) * (drag.range[1] - drag.range[0]);
      show(drag.range[0] + by, drag.range[1] + by);
      return;
    }
    const text = event.target.dataset && event.target.dataset.text;
    tip.hidden = !text;
    if (!text) return;
    if (tip.textContent !== text) tip.textContent = text;
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8) + "px";
  });
  for (const name of ["pointerup", "pointercancel"]) view.addEventListener(name, () => { drag = null; });
  view.addEventListener("pointerleave", () => { tip.hidden = true; });
  window.addEventListener("resize", draw);
  rebuild();
})();
