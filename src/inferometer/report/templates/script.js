"use strict";
(() => {
  const root = document.documentElement;

  // --- colours: those of the system, or as chosen here
  const themes = [["", "◐", "system"], ["dark", "●", "dark"], ["light", "○", "light"]];
  const button = document.getElementById("theme");
  const remember = (name) => { try { localStorage.setItem("inferometer-theme", name); } catch { /* not allowed for a page from a file */ } };
  const recall = () => { try { return localStorage.getItem("inferometer-theme") || ""; } catch { return ""; } };
  const paint = (name) => {
    const [value, sign, words] = themes.find((row) => row[0] === name) || themes[0];
    if (value) { root.dataset.theme = value; } else { delete root.dataset.theme; }
    button.textContent = sign;
    button.setAttribute("aria-label", "Colours: " + words);
    button.title = "Colours: " + words;
    return value;
  };
  let theme = paint(recall() || root.dataset.theme || "");
  button.hidden = false;
  button.addEventListener("click", () => {
    const place = themes.findIndex((row) => row[0] === theme);
    theme = paint(themes[(place + 1) % themes.length][0]);
    remember(theme);
  });

  // --- the file this page was made from
  const download = document.getElementById("download");
  if (download) {
    download.hidden = false;
    download.addEventListener("click", () => {
      const text = document.getElementById("source").textContent;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = download.dataset.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  // --- texts to copy; if the browser forbids it, the text is selected for Ctrl-C
  for (const copy of document.querySelectorAll("button.copy")) {
    copy.hidden = false;
    copy.addEventListener("click", () => {
      const range = document.createRange();
      range.selectNodeContents(copy.parentNode.querySelector("pre"));
      const selection = getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      let done = false;
      try { done = document.execCommand("copy"); } catch { /* it stays selected */ }
      copy.textContent = done ? "Copied" : "Selected";
      setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    });
  }

  // --- tooltips: the nearest mark of a chart, or the segment of a bar
  const tip = document.getElementById("tip");
  const show = (words, x, y) => {
    tip.textContent = words;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, x - box.width / 2), root.clientWidth - box.width - 8);
    const top = y - box.height - 14 < 4 ? y + 18 : y - box.height - 14;
    tip.style.transform = `translate(${left}px, ${top}px)`;
  };
  const hide = () => { tip.hidden = true; document.querySelectorAll(".mark.near").forEach((mark) => mark.classList.remove("near")); };
  for (const title of document.querySelectorAll("svg title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  for (const segment of document.querySelectorAll(".segment[title]")) {
    segment.dataset.tip = segment.title;
    segment.removeAttribute("title");
    segment.addEventListener("pointermove", (event) => show(segment.dataset.tip, event.clientX, event.clientY));
    segment.addEventListener("pointerleave", hide);
  }
  for (const plot of document.querySelectorAll("svg.plot")) {
    const marks = [...plot.querySelectorAll(".mark")];
    plot.addEventListener("pointermove", (event) => {
      hide();
      let near = null;
      let least = 40 ** 2;
      for (const mark of marks) {
        const box = mark.getBoundingClientRect();
        const distance = (box.x + box.width / 2 - event.clientX) ** 2 + (box.y + box.height / 2 - event.clientY) ** 2;
        if (distance < least) { near = mark; least = distance; }
      }
      if (!near) { return; }
      const box = near.getBoundingClientRect();
      near.classList.add("near");
      show(near.dataset.tip, box.x + box.width / 2, box.y);
    });
    plot.addEventListener("pointerleave", hide);
  }
  addEventListener("scroll", hide, { passive: true });

  // --- inside a page of `inferometer ui`, which resizes the frame to fit
  if (parent !== window) {
    new ResizeObserver(() => parent.postMessage({ height: document.body.scrollHeight }, "*")).observe(document.body);
  }
})();
