"use strict";
(() => {
  const root = document.documentElement;
  const SVG = "http://www.w3.org/2000/svg";
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);
  const made = (name, text = "", className = "") => {
    const element = document.createElement(name);
    element.textContent = text;
    if (className) { element.className = className; }
    return element;
  };

  // --- colours: those of the system, or as chosen here; reports in frames follow
  const themes = [["", "◐", "system"], ["dark", "●", "dark"], ["light", "○", "light"]];
  const remember = (name) => { try { localStorage.setItem("inferometer-theme", name); } catch { /* private window */ } };
  const recall = () => { try { return localStorage.getItem("inferometer-theme") || ""; } catch { return ""; } };
  let theme = recall();
  const paint = () => { if (theme) { root.dataset.theme = theme; } else { delete root.dataset.theme; } };
  paint(); // before the first paint

  const themed = () => {
    const button = one("#theme");
    if (!button) { return; }
    const tell = () => {
      const [, sign, words] = themes.find((row) => row[0] === theme) || themes[0];
      button.textContent = sign;
      button.setAttribute("aria-label", "Colours: " + words);
      button.title = "Colours: " + words;
    };
    tell();
    button.hidden = false;
    button.addEventListener("click", () => {
      theme = themes[(themes.findIndex((row) => row[0] === theme) + 1) % themes.length][0];
      remember(theme);
      paint();
      tell();
      frames();
    });
  };
  const frames = () => {
    for (const frame of all("iframe.report")) {
      const place = frame.dataset.place;
      frame.src = place + (place.includes("?") ? "&" : "?") + "theme=" + theme;
    }
  };
  addEventListener("message", (event) => {
    const frame = all("iframe.report").find((row) => row.contentWindow === event.source);
    const height = event.data && event.data.height;
    if (frame && Number.isFinite(height)) { frame.style.height = Math.min(Math.max(height, 200), 60000) + "px"; }
  });

  // --- texts to copy
  const copies = () => {
    for (const button of all("button.copy")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        let done = true;
        try { await navigator.clipboard.writeText(one("pre", button.parentNode).textContent); } catch { done = false; }
        button.textContent = done ? "Copied" : "Not copied";
        setTimeout(() => { button.textContent = "Copy"; }, 2000);
      });
    }
  };

  const ask = async (place, content) => {
    const reply = await fetch(place, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(content) });
    return reply.json();
  };

  // --- numbers, formatted as in reports
  const digits = (value, count) => Number(value.toPrecision(count)).toLocaleString("en", { maximumFractionDigits: 6 });
  const amount = (value) => (value >= 1000 ? Math.round(value).toLocaleString("en") : digits(value, 3));
  const time = (ms) => {
    if (ms >= 1000) { return digits(ms / 1000, 3) + " s"; }
    return ms >= 1 || ms === 0 ? digits(ms, 3) + " ms" : digits(ms * 1000, 3) + " µs";
  };
  const clock = (s) => (s >= 60 ? Math.floor(s / 60) + " min " + Math.round(s % 60) + " s" : Math.round(s) + " s");
  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

  // --- charts: lines over time, marks with error bars, scattered points; text keeps its size at any width
  const draw = (name, attributes, text) => {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) { element.setAttribute(key, attributes[key]); }
    if (text !== undefined) { element.textContent = text; }
    return element;
  };
  const nice = (rough) => {
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 2.5, 5, 10].find((step) => step * power >= rough * (1 - 1e-9));
  };
  const axis = (most, count) => {
    const step = nice(Math.max(most, 1e-9) / count);
    const ticks = [];
    for (let tick = 0; tick < most + step * 0.999 && ticks.length < 12; tick += step) { ticks.push(Number(tick.toPrecision(12))); }
    return ticks;
  };
  /** A chart in its figure, which replaces the previous drawing; `y` maps values to positions. */
  const chart = (name, mostY, written) => {
    const figure = one(`[data-chart="${name}"]`);
    figure.hidden = false;
    const svg = one("svg", figure);
    const width = svg.clientWidth || 500;
    const height = svg.clientHeight || 210;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const ticks = axis(mostY, 4);
    const top = ticks[ticks.length - 1];
    const left = 12 + 7 * Math.max(...ticks.map((tick) => written(tick).length));
    const [right, up, down] = [width - 12, 22, height - 26];
    const y = (value) => down - (Math.min(value, top) / top) * (down - up);
    const shapes = [];
    for (const tick of ticks) {
      shapes.push(draw("line", { class: tick ? "grid" : "axis", x1: left, x2: right, y1: y(tick), y2: y(tick) }));
      shapes.push(draw("text", { class: "end", x: left - 6, y: y(tick) + 4 }, written(tick)));
    }
    return { svg, top, left, right, up, down, y, shapes, show: () => svg.replaceChildren(...shapes) };
  };
  const speak = (() => { // chart descriptions for screen readers, not updated at every sample
    const said = new Map();
    return (svg, words) => {
      const now = Date.now();
      if (now - (said.get(svg) || 0) > 3000) { svg.setAttribute("aria-label", words); said.set(svg, now); }
    };
  })();

  /** The highest value of an axis: limits within a small factor of the measured values are shown. */
  const NEAR = 3;
  const reach = (values, limits) => {
    const most = Math.max(...values, 0);
    return Math.max(most, ...limits.map((limit) => limit.value).filter((value) => value <= most * NEAR));
  };
  /** SLO limits as horizontal lines; one far above is labelled at the upper edge. */
  const across = (plot, limits) => {
    limits.forEach((limit, number) => {
      const y = plot.y(limit.value);
      const isAbove = limit.value > plot.top;
      if (!isAbove) { plot.shapes.push(draw("line", { class: "limit", x1: plot.left, x2: plot.right, y1: y, y2: y })); }
      plot.shapes.push(draw("text", { class: "limit-name end", x: plot.right - 4, y: (isAbove ? plot.up + 11 + 14 * number : Math.max(y - 5, plot.up + 11)) }, `SLO: ${limit.text}${isAbove ? " ↑" : ""}`));
    });
  };

  const SHOWN_S = 90;
  /** Lines over the last minute and a half; `rows` are [key, colour, name]. */
  const overTime = (name, title, state, rows, written, limits = []) => {
    const samples = state.samples;
    const seen = rows.filter(([key]) => samples.some((sample) => isNumber(sample[key])));
    if (!seen.length) { return; }
    const last = samples[samples.length - 1].at;
    const first = Math.max(samples[0].at, last - SHOWN_S);
    const shown = samples.filter((sample) => sample.at >= first);
    const values = shown.flatMap((sample) => seen.map(([key]) => sample[key]).filter(isNumber));
    const plot = chart(name, reach(values, limits), written);
    const span = Math.max(last - first, 10);
    const x = (at) => plot.left + ((at - first) / span) * (plot.right - plot.left);
    const warm = [];
    for (const sample of shown) {
      if (sample.phase !== "measuring") {
        const before = warm[warm.length - 1];
        if (before && sample.at - before[1] < 1) { before[1] = sample.at; } else { warm.push([sample.at, sample.at]); }
      }
    }
    for (const [from, to] of warm) {
      plot.shapes.unshift(draw("rect", { class: "warm", x: x(from), width: Math.max(x(to) - x(from), 2), y: plot.up, height: plot.down - plot.up }));
    }
    let clear = 0; // overlapping names are omitted
    for (const level of state.levels.values()) {
      const place = Math.max(x(level.at), plot.left);
      if (level.at < first - 2) { continue; }
      plot.shapes.push(draw("line", { class: "boundary", x1: place, x2: place, y1: plot.up, y2: plot.down }));
      if (place > clear && place + 7 * level.title.length < plot.right) {
        plot.shapes.push(draw("text", { x: place, y: plot.up - 9 }, level.title));
        clear = place + 7 * level.title.length;
      }
    }
    const step = nice(span / 5);
    for (let tick = Math.ceil((first - state.began) / step) * step; tick <= last - state.began; tick += step) {
      plot.shapes.push(draw("text", { class: "middle", x: x(state.began + tick), y: plot.down + 18 }, Math.round(tick) + " s"));
    }
    for (const [key, colour] of seen) {
      let path = "";
      let pen = "M";
      let before = shown[0];
      for (const sample of shown) {
        if (!isNumber(sample[key]) || sample.number !== before.number || sample.at - before.at > 3) { pen = "M"; }
        before = sample;
        if (!isNumber(sample[key])) { continue; }
        path += `${pen}${x(sample.at).toFixed(1)} ${plot.y(sample[key]).toFixed(1)}`;
        pen = "L";
      }
      plot.shapes.push(draw("path", { class: "line " + colour, d: path }));
    }
    across(plot, limits);
    plot.show();
    const newest = shown[shown.length - 1];
    const words = seen.filter(([key]) => isNumber(newest[key])).map(([key, , label]) => `${label} ${written(newest[key])}`);
    speak(plot.svg, `${title}: ${[...words, ...limits.map((limit) => "SLO " + limit.text)].join(", ")}`);
  };

  /** A mark with its interval for each level. */
  const byLevel = (name, title, levels, key, written, limits = []) => {
    const rows = levels.filter((level) => level[key] && isNumber(level[key][0]));
    if (rows.length < 2) { return; }
    const plot = chart(name, reach(rows.flatMap((row) => row[key].filter(isNumber)), limits), written);
    const step = (plot.right - plot.left) / rows.length;
    const every = Math.ceil(70 / step);
    let path = "";
    rows.forEach((row, number) => {
      const x = plot.left + (number + 0.5) * step;
      const [value, low, high] = row[key];
      path += `${path ? "L" : "M"}${x} ${plot.y(value)}`;
      if (isNumber(low) && isNumber(high)) {
        plot.shapes.push(draw("path", { class: "error blue", d: `M${x} ${plot.y(low)}V${plot.y(high)}M${x - 5} ${plot.y(low)}h10M${x - 5} ${plot.y(high)}h10` }));
      }
      plot.shapes.push(draw("circle", { class: "mark blue", cx: x, cy: plot.y(value), r: 4.5 }));
      if (number % every === 0) { plot.shapes.push(draw("text", { class: "middle", x, y: plot.down + 18 }, amount(row.value))); }
    });
    plot.shapes.unshift(draw("path", { class: "line blue", d: path }));
    across(plot, limits);
    plot.show();
    speak(plot.svg, `${title}: ${rows.map((row) => `${row.title} ${written(row[key][0])}`).join(", ")}`);
  };

  const front = (trials) => {
    const rows = trials.filter((row) => isNumber(row.per_s) && isNumber(row.p99_ms) && !row.failed_because);
    if (!rows.length) { return; }
    const plot = chart("front", Math.max(...rows.map((row) => row.per_s)), amount);
    const ticks = axis(Math.max(...rows.map((row) => row.p99_ms)), 4);
    const x = (value) => plot.left + (value / ticks[ticks.length - 1]) * (plot.right - plot.left);
    for (const tick of ticks) { plot.shapes.push(draw("text", { class: "middle", x: x(tick), y: plot.down + 18 }, time(tick))); }
    let most = -1;
    const best = [...rows].sort((a, b) => a.p99_ms - b.p99_ms || b.per_s - a.per_s).filter((row) => row.per_s > most && ((most = row.per_s), true));
    plot.shapes.push(draw("polyline", { class: "front", points: best.map((row) => `${x(row.p99_ms)},${plot.y(row.per_s)}`).join(" ") }));
    for (const row of rows) {
      plot.shapes.push(draw("circle", { class: "mark " + (row.is_best ? "orange" : "blue"), cx: x(row.p99_ms), cy: plot.y(row.per_s), r: row.is_best ? 6.5 : 4 }));
    }
    plot.show();
    speak(plot.svg, `${rows.length} configurations measured`);
  };
  const forecast = (trials) => {
    const rows = trials.filter((row) => isNumber(row.per_s) && isNumber(row.predicted_per_s) && !row.failed_because);
    if (!rows.length) { return; }
    const most = Math.max(...rows.flatMap((row) => [row.per_s, row.predicted_per_s]));
    const plot = chart("forecast", most, amount);
    const top = axis(most, 4).pop();
    const x = (value) => plot.left + (value / top) * (plot.right - plot.left);
    for (const tick of axis(most, 4)) { plot.shapes.push(draw("text", { class: "middle", x: x(tick), y: plot.down + 18 }, amount(tick))); }
    plot.shapes.push(draw("line", { class: "rule", x1: x(0), y1: plot.y(0), x2: x(top), y2: plot.y(top) }));
    for (const row of rows) { plot.shapes.push(draw("circle", { class: "mark blue", cx: x(row.predicted_per_s), cy: plot.y(row.per_s), r: 4.5 })); }
    plot.show();
    speak(plot.svg, `${rows.length} configurations with a forecast`);
  };

  // --- a running test
  const TILES = {
    per_s: [amount], p50_ms: [time], p90_ms: [time], p95_ms: [time], p99_ms: [time], failed: [amount], outstanding: [amount],
    client_cores: [(value) => digits(value, 2), "cores"], server_waiting: [(value) => digits(value, 2), "in the server"],
    gpu: [(value) => Math.round(value * 100) + " %"], tokens_per_s: [amount],
  };
  const SILENT_S = 3; // without any answer
  const MOST_SAMPLES = 3000;
  const CHARTS_MS = 950; // shortest time between two drawings of the charts
  const live = () => {
    const state = { samples: [], levels: new Map(), trials: [], began: 0, planned: null, ended: 0, bracket: null, limits: [], isOver: false };
    let isDirty = false;
    let drawn = -Infinity; // time of the last drawing of the charts

    const cell = (row, name, text, small = "") => {
      const element = made("td", text, "number");
      element.dataset.name = name;
      if (small) { element.append(made("small", small)); }
      row.append(element);
    };
    const interval = ([, low, high], written) => (isNumber(low) && isNumber(high) ? `${written(low)} – ${written(high)}` : "");

    const kinds = {
      planned: (line) => { state.planned = line; },
      prepared: (line) => {
        if (line.server || line.url) { one("#server").textContent = [line.server, line.url].filter(Boolean).join(" at "); }
        if (line.model) {
          one("h1").textContent = line.model.replaceAll(",", ", ");
          document.title = one("h1").textContent + ", live · Inferometer";
        }
        state.limits = line.limits || [];
      },
      level: (line) => { state.levels.set(line.number, { ...line }); },
      sample: (line) => {
        state.began = state.began || line.at;
        if (line.elapsed_s < 0.3 && !line.per_s) { line.per_s = null; } // the first replies have not arrived yet
        state.samples.push(line);
        if (state.samples.length > MOST_SAMPLES) { state.samples.splice(0, MOST_SAMPLES / 2); }
      },
      level_end: (line) => {
        const level = { ...state.levels.get(line.number), ...line, isDone: true };
        level.title = level.title || `${level.mode} ${level.value}`;
        level.at = (state.levels.get(line.number) || line).at;
        state.levels.set(line.number, level);
        const row = made("tr");
        const name = made("th", level.title);
        name.scope = "row";
        row.append(name);
        for (const [key, label, written] of [["per_s", "Per second", amount], ["p50_ms", "p50", time], ["p90_ms", "p90", time], ["p95_ms", "p95", time], ["p99_ms", "p99", time]]) {
          const found = line[key];
          cell(row, label, found && isNumber(found[0]) ? written(found[0]) : "–", found ? interval(found, written) : "");
        }
        cell(row, "Failed", amount(line.failed || 0));
        one("#levels tbody").append(row);
        one("#levels").hidden = false;
      },
      bracket: (line) => { state.bracket = line; },
      round: (line) => {
        const rates = Object.entries(line.rates || {}).map(([name, rate]) => `${name} ${amount(rate)}/s`);
        say(`Round ${line.number}${line.rounds ? " of " + line.rounds : ""}: ${rates.join(", ")}`);
      },
      trial: (line) => {
        if (line.is_best) { state.trials.forEach((trial) => { trial.is_best = false; }); }
        state.trials.push(line);
        const row = made("tr");
        const name = made("th", line.title || line.name);
        name.scope = "row";
        row.append(name);
        cell(row, "Per second", isNumber(line.per_s) ? amount(line.per_s) : "–");
        cell(row, "Forecast", isNumber(line.predicted_per_s) ? amount(line.predicted_per_s) : "–");
        cell(row, "p99", isNumber(line.p99_ms) ? time(line.p99_ms) : "–");
        const remark = made("td", line.failed_because || (line.is_best ? "best so far" : line.is_known ? "known from an earlier run" : ""));
        remark.dataset.name = "Remark";
        row.append(remark);
        one("#trials tbody").prepend(row);
        one("#trials").hidden = false;
        if (line.is_best) { one("#best").textContent = `Best so far: ${line.title || line.name}, ${amount(line.per_s)} per second${isNumber(line.p99_ms) ? ", p99 " + time(line.p99_ms) : ""}.`; }
      },
      said: (line) => say(line.text, line.is_warning),
    };
    const say = (text, isWarning = false) => {
      one("#said ul").append(made("li", text, isWarning ? "warning" : ""));
      one("#said").hidden = false;
    };
    const over = (how, tone = "bad", badge = "", why = "") => {
      if (state.isOver) { return; }
      state.isOver = true;
      const now = one("#now");
      const [words, act, place] = {
        killed: ["The process of this run was killed. ", "See what it had measured", "/runs/" + one("#live").dataset.run],
        "left alone": ["The browser interface has exited; the run continues. ", "Its page, once `inferometer ui` is running again", location.pathname],
        failed: [why ? `The run failed: ${why}. ` : "The run failed. ", "Open its page", "/runs/" + one("#live").dataset.run],
        gone: ["The run ended before anything was measured. ", "See the list of runs for the reason", "/"],
      }[how] || [badge === "finished" ? "The run has ended. " : `The run has ended: ${badge}. `, "Open its report", "/runs/" + one("#live").dataset.run];
      now.textContent = words;
      now.classList.remove("warning");
      now.classList.add(tone);
      const link = made("a", act);
      link.href = place;
      now.append(link);
      one("#stop").hidden = true;
      one("#done").hidden = true;
    };

    /** Seconds without an answer, if there are more than a few. */
    const silent = (sample) => {
      const answered = state.samples.findLast((row) => row.per_s > 0);
      const since = sample.at - (answered ? answered.at : state.began);
      return since >= SILENT_S ? since : 0;
    };
    const sentence = (sample) => {
      const level = state.levels.get(sample.number);
      const phase = sample.phase === "measuring" ? "Measuring" : "Warming up";
      const parts = [level ? `${phase} ${level.title}` : phase];
      if (state.planned && state.planned.levels > 1) { parts[0] += `, level ${sample.number} of ${state.planned.levels}`; }
      if (isNumber(sample.left_s)) { parts.push(`at most ${clock(sample.left_s)} left`); }
      if (silent(sample)) { parts.push(`no request has been answered for ${clock(silent(sample))}`); }
      if (state.bracket) {
        const { low, high } = state.bracket;
        parts.push(isNumber(high) ? `the limit lies between ${amount(low || 0)} and ${amount(high)}` : `the limit lies above ${amount(low || 0)}`);
      }
      return parts.join("; ") + ".";
    };
    const redraw = () => {
      if (!isDirty || document.hidden) { return; }
      isDirty = false;
      const sample = state.samples[state.samples.length - 1];
      if (sample) {
        one("#time").hidden = false;
        if (!state.isOver && one("#live").dataset.stopping === undefined) {
          const words = sentence(sample);
          if (one("#now").textContent !== words) { one("#now").textContent = words; }
          one("#now").classList.toggle("warning", silent(sample) > 0);
        }
        for (const [name, [written, unit]] of Object.entries(TILES)) {
          const tile = one(`[data-tile="${name}"]`);
          tile.classList.toggle("none", !state.samples.some((row) => isNumber(row[name])));
          tile.classList.toggle("bad", name === "failed" && sample.failed > 0);
          one("strong", tile).textContent = isNumber(sample[name]) ? written(sample[name]) : "–";
          one("span", tile).textContent = name === "per_s" ? `${amount(sample.ended || 0)} so far` : unit || "";
        }
        const planned = state.planned && state.planned.longest_s;
        if (planned && !state.isOver) { one("#done").hidden = false; one("#done").value = Math.min(1, (sample.at - state.planned.at) / planned); }
      }
      root.dataset.updates = Number(root.dataset.updates || 0) + 1;
      // Figures update at once. Charts take most of the browser's CPU time, which the measured server may need.
      if (state.isOver || performance.now() - drawn >= CHARTS_MS) { drawn = performance.now(); charts(sample); }
    };
    const charts = (sample) => {
      const ofRate = state.limits.filter((limit) => limit.figure === "throughput");
      const ofTime = state.limits.filter((limit) => limit.figure !== "throughput");
      if (sample) {
        overTime("per_s", "Requests per second", state, [["per_s", "blue", "now"]], amount, ofRate);
        overTime("latency", "Latency", state, [["p50_ms", "blue", "p50"], ["p90_ms", "green", "p90"], ["p95_ms", "purple", "p95"], ["p99_ms", "orange", "p99"]], time, ofTime);
        overTime("requests", "Outstanding requests", state, [["outstanding", "blue", "outstanding"], ["server_waiting", "orange", "waiting in the server"]], amount);
        overTime("cores", "Client CPU, in cores", state, [["client_cores", "blue", "now"]], (value) => digits(value, 2));
        overTime("gpu", "GPU busy", state, [["gpu", "blue", "now"]], (value) => Math.round(value * 100) + " %");
      }
      const done = [...state.levels.values()].filter((level) => level.isDone);
      byLevel("levels", "Requests per second", done, "per_s", amount, ofRate);
      byLevel("levels_p99", "p99", done, "p99_ms", time, ofTime.filter((limit) => limit.figure === "p99"));
      front(state.trials);
      forecast(state.trials);
    };

    // A hidden page closes its stream: a browser has only a few connections for all its pages.
    let source = null;
    let seen = "0";
    const follow = () => {
      source = new EventSource(`/runs/${one("#live").dataset.run}/events?after=${seen}`);
      source.addEventListener("message", (event) => {
        seen = event.lastEventId;
        for (const text of event.data.split("\n")) {
          const line = JSON.parse(text);
          if (Object.hasOwn(kinds, line.kind)) { kinds[line.kind](line); isDirty = true; }
        }
        requestAnimationFrame(redraw);
      });
      source.addEventListener("over", (event) => { source.close(); source = null; over(...event.data.split("\t")); isDirty = true; requestAnimationFrame(redraw); });
    };
    follow();
    document.addEventListener("visibilitychange", () => {
      if (document.hidden && source) { source.close(); source = null; }
      if (!document.hidden) {
        if (!source && !state.isOver) { follow(); }
        requestAnimationFrame(redraw);
      }
    });
    one("#stop").addEventListener("submit", () => { const button = one("#stop button"); button.textContent = "Stopping …"; button.disabled = true; });
    addEventListener("resize", () => { isDirty = true; drawn = -Infinity; requestAnimationFrame(redraw); });
  };

  // --- the list of runs: selection and automatic refresh
  const runs = () => {
    const every = one("#all");
    const count = () => {
      const boxes = all("#chosen [name=run]");
      const chosen = boxes.filter((box) => box.checked).length;
      const button = one("#compare");
      if (!button) { return; }
      every.checked = chosen > 0 && chosen === boxes.length;
      every.indeterminate = chosen > 0 && chosen < boxes.length;
      button.disabled = chosen < 2;
      all("#acts button[formaction]").forEach((act) => { act.disabled = chosen < 1; });
      one("#chosen-count").textContent = chosen === 0 ? "Select one or more." : `${chosen} selected`;
    };
    document.addEventListener("change", count);
    if (every) {
      every.hidden = false;
      every.addEventListener("change", () => { all("#chosen [name=run]").forEach((box) => { box.checked = every.checked; }); count(); });
      one("#tag").addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); one("#add-tag").click(); } });
    }
    for (const menu of all(".menus select")) { menu.addEventListener("change", () => menu.form.requestSubmit()); }
    addEventListener("pageshow", count); // after the back button, boxes are checked as before
    count();
    setInterval(async () => {
      if (document.hidden || all("#chosen [name=run]").includes(document.activeElement)) { return; }
      let fresh;
      try { fresh = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html"); } catch { return; }
      if (!one("#chosen") !== !one("#chosen", fresh) && !document.activeElement.matches("input, select")) { location.reload(); return; }
      const chosen = new Set(all("#chosen [name=run]:checked").map((box) => box.value));
      for (const part of all("[data-fresh]")) {
        const other = one(`[data-fresh="${part.dataset.fresh}"]`, fresh);
        if (!other || part.contains(document.activeElement)) { continue; }
        if (other.innerHTML !== part.innerHTML) { part.replaceChildren(...other.childNodes); }
      }
      all("#chosen [name=run]").forEach((box) => { box.checked = chosen.has(box.value); });
      count();
    }, 3000);
  };

  // --- a waiting job becomes a run
  const job = () => {
    const waiting = one("[data-waiting]");
    if (!waiting) { return; }
    setInterval(async () => {
      let reply;
      try { reply = await fetch(location.href); } catch { return; }
      if (reply.redirected) { location.replace(reply.url); return; }
      const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
      const heading = one("h1", fresh);
      if (!heading || heading.textContent !== waiting.textContent) { location.reload(); }
    }, 400);
  };

  // --- the form for a new run
  const form = () => {
    const own = one("#form");
    const touched = new Set();
    const fields = () => {
      const found = {};
      for (const element of own.elements) {
        if (!element.name) { continue; }
        if (element.type === "checkbox") { if (element.checked) { found[element.name] = true; } } else if (element.value.trim()) { found[element.name] = element.value; }
      }
      return found;
    };
    const content = () => ({ command: own.dataset.command, fields: fields() });
    const later = (wait, act) => { let timer = 0; return () => { clearTimeout(timer); timer = setTimeout(act, wait); }; };

    const tell = (errors, isAll) => {
      for (const field of all("[data-field]", own)) {
        const name = field.dataset.field;
        const text = isAll || touched.has(name) ? errors[name] || "" : "";
        const place = one(".trouble", field);
        place.textContent = text;
        place.hidden = !text;
        const input = one("[name]", field);
        if (text) { input.setAttribute("aria-invalid", "true"); } else { input.removeAttribute("aria-invalid"); }
      }
      const whole = one("#form-error");
      const text = isAll || touched.size > 1 ? errors[""] || "" : "";
      whole.textContent = text;
      whole.hidden = !text;
    };
    let asked = 0;
    const check = async () => {
      const number = ++asked;
      let reply;
      try { reply = await ask("/new/check", content()); } catch { return; }
      if (number !== asked) { return; }
      if (reply.error) { tell({ "": reply.error }, true); return; }
      one("#line").textContent = reply.line;
      tell(reply.errors, false);
    };
    const checkSoon = later(150, check);

    const model = one("#model");
    let looked = "";
    const look = async () => {
      const wanted = JSON.stringify([one("#url").value.trim(), model.value.trim().split("\n")[0]]);
      const seen = one("#seen");
      if (wanted === looked) { return; }
      looked = wanted;
      if (!one("#url").value.trim()) { seen.textContent = ""; return; }
      seen.textContent = "Identifying the server …";
      let reply;
      try { reply = await ask("/new/look", content()); } catch { return; }
      if (looked !== wanted) { return; }
      seen.textContent = reply.error || reply.server;
      if (reply.error) { return; }
      const names = reply.models || [];
      one("#models").replaceChildren(...names.map((name) => { const option = made("option"); option.value = name; return option; }));
      one("#choices").replaceChildren(...names.slice(0, 30).map((name) => {
        const item = made("li");
        const button = made("button", name);
        button.type = "button";
        button.addEventListener("click", () => {
          const lines = model.value.split("\n").filter((line) => line.trim() && line !== name);
          model.value = model.tagName === "TEXTAREA" ? [...lines, name].join("\n") : name;
          touched.add("model");
          check();
          look();
        });
        item.append(button);
        return item;
      }));
      const inputs = reply.inputs || [];
      one("#tensors").hidden = !inputs.length;
      one("#tensors tbody").replaceChildren(...inputs.map((row) => {
        const line = made("tr");
        const name = made("th", row.name);
        name.scope = "row";
        line.append(name, made("td", row.datatype), made("td", row.shape));
        return line;
      }));
    };
    const lookSoon = later(500, look);

    own.addEventListener("input", (event) => {
      const name = event.target.name;
      if (!name) { return; }
      touched.add(name);
      checkSoon();
      if (name === "url" || name === "model") { lookSoon(); }
    });
    own.addEventListener("submit", async (event) => {
      event.preventDefault();
      one("#go").disabled = true;
      const reply = await ask("/new/start", content()).catch(() => ({ error: "the browser interface does not respond; is it still running?" }));
      one("#go").disabled = false;
      if (reply.place) { location.assign(reply.place); return; }
      tell(reply.errors || { "": reply.error }, true);
      const wrong = one('[aria-invalid="true"]', own);
      if (wrong) { const group = wrong.closest("details"); if (group) { group.open = true; } wrong.focus(); }
    });

    const put = async (field, files) => {
      const input = one("[name]", field);
      const mark = one("[type=file]", field).dataset.mark;
      for (const file of files) {
        if (file.size > Number(own.dataset.most)) { tell({ [input.name]: `${file.name} is larger than ${Math.floor(own.dataset.most / 2 ** 20)} MiB` }, true); return; }
        const reply = await (await fetch("/uploads/" + encodeURIComponent(file.name), { method: "PUT", headers: { "content-type": "application/json" }, body: file })).json();
        if (reply.error) { tell({ [input.name]: reply.error }, true); return; }
        const value = mark + reply.path;
        input.value = input.tagName === "TEXTAREA" && input.value.trim() ? `${input.value.trim()}\n${value}` : value;
      }
      touched.add(input.name);
      check();
    };
    for (const picker of all("[type=file]", own)) {
      const field = picker.closest("[data-field]");
      picker.addEventListener("change", () => put(field, [...picker.files]));
      field.addEventListener("dragover", (event) => { event.preventDefault(); field.classList.add("over"); });
      field.addEventListener("dragleave", () => field.classList.remove("over"));
      field.addEventListener("drop", (event) => { event.preventDefault(); field.classList.remove("over"); put(field, [...event.dataTransfer.files]); });
    }
    for (const tab of all(".tabs a")) {
      tab.addEventListener("click", () => {
        const { url, model: name } = fields();
        const place = new URL(tab.href);
        if (url) { place.searchParams.set("url", url); }
        if (name) { place.searchParams.set("model", name); }
        tab.href = place.href;
      });
    }
    check();
    if (model) { look(); }
  };

  document.addEventListener("DOMContentLoaded", () => {
    themed();
    frames();
    copies();
    const pages = { live, runs, job, new: form };
    const kind = document.body.dataset.page;
    if (Object.hasOwn(pages, kind)) { pages[kind](); }
    setInterval(() => { fetch("/alive").catch(() => {}); }, 30000); // an interface started for one run exits after its last page is closed
  });
})();
