"use strict";
// Everything works without this; with it: arrow keys in rows, parts that come later, copies of SQL, sliders, the end of a drawing, and / for the search.
(() => {
  const rows = [...document.querySelectorAll(".rows tbody tr")].map((row) => [...row.querySelectorAll("a")]);
  rows.forEach((links) => links.slice(1).forEach((link) => { link.tabIndex = -1; }));
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      const search = document.getElementById("search");
      if (search) {
        event.preventDefault();
        search.focus();
      }
      return;
    }
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    const y = rows.findIndex((links) => links.includes(document.activeElement));
    if (!step || y < 0) return;
    const x = rows[y].indexOf(document.activeElement);
    const next = rows[y + step[0]]?.[Math.min(x, rows[y + step[0]].length - 1) + step[1]];
    if (next) {
      event.preventDefault();
      next.focus();
      next.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  });

  for (const part of document.querySelectorAll("[data-part]")) {
    const link = part.querySelector("a");
    link.addEventListener("click", async (event) => {
      event.preventDefault();
      part.setAttribute("aria-busy", "true");
      link.textContent = "Counting …";
      try {
        const answer = await fetch(`${part.dataset.part}?part=1`, { credentials: "same-origin" });
        if (!answer.ok) throw new Error(String(answer.status));
        part.replaceChildren(...new DOMParser().parseFromString(await answer.text(), "text/html").body.childNodes);
      } catch {
        link.textContent = "That failed; try again";
      }
      part.removeAttribute("aria-busy");
    });
  }

  for (const button of document.querySelectorAll("[data-copies]")) {
    const source = document.getElementById(button.dataset.copies);
    const said = button.parentElement.querySelector("[role=status]");
    button.hidden = false;
    button.addEventListener("click", async () => {
      let copied = false;
      try {
        await navigator.clipboard.writeText(source.textContent);
        copied = true;
      } catch { // a file of this machine may not reach the clipboard so
        getSelection().selectAllChildren(source);
        copied = document.execCommand("copy");
        if (copied) getSelection().removeAllRanges();
      }
      said.textContent = copied ? "Copied" : "Selected: copy it with your keyboard";
    });
  }

  for (const slider of document.querySelectorAll("[data-sets]")) {
    slider.addEventListener("input", () => {
      document.getElementById(slider.dataset.sets).value = new Date(slider.value * 1000).toISOString().replace(".000Z", "Z");
    });
  }

  // sliders span the landings, which say nothing of other instants
  const instants = document.getElementById("clock");
  if (instants) instants.addEventListener("change", () => {
    for (const slider of document.querySelectorAll("[data-sets]")) slider.hidden = instants.value !== "landed_as_of";
  });

  document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // the winner is the newest, at the right end
  for (const drawing of document.querySelectorAll(".timeline")) {
    const ends = [...drawing.querySelectorAll(".mark")].map((mark) => mark.getBoundingClientRect().right);
    const box = drawing.parentElement;
    box.scrollLeft = Math.max(0, ...ends) - box.getBoundingClientRect().right + 40;
  }

  const again = document.querySelector("[data-again]");
  if (again) setTimeout(() => { if (!document.activeElement.matches("input")) location.reload(); }, Number(again.dataset.again));
})();
