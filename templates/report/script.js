"use strict";
for (const button of document.querySelectorAll("button[data-copies]")) {
  const source = document.getElementById(button.dataset.copies);
  const said = button.parentElement.querySelector("[role=status]");
  const byHand = () => {
    getSelection().selectAllChildren(source);
    const copied = document.execCommand("copy");
    if (copied) getSelection().removeAllRanges();
    return copied;
  };
  button.hidden = false;
  button.addEventListener("click", async () => {
    let copied = false;
    try {
      await navigator.clipboard.writeText(source.textContent);
      copied = true;
    } catch {
      copied = byHand();
    }
    said.textContent = copied ? "Copied" : "Selected: copy it with your keyboard";
  });
}

// a table that has all its columns in sight is no stop of the Tab key
const boxes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const scrolls = target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
    target.toggleAttribute("tabindex", scrolls);
    if (scrolls) target.tabIndex = 0;
  }
});
for (const box of document.querySelectorAll(".box")) boxes.observe(box);
