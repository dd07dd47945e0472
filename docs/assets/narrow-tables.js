// Stacks the rows of a table that is too wide for a phone: a block for each row, a line for each cell.
(() => {
  "use strict";

  const NARROW = matchMedia("(max-width: 44.9375em)");

  // The row of titles is out of sight in a stack, so each cell carries its own; and a browser forgets the roles of
  // elements that are shown as blocks.
  function name(table) {
    const titles = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
    table.setAttribute("role", "table");
    for (const row of table.rows) {
      row.setAttribute("role", "row");
      for (const [index, cell] of [...row.cells].entries()) {
        cell.setAttribute("role", cell.tagName === "TH" ? "columnheader" : "cell");
        if (index && titles[index]) {
          cell.dataset.title = titles[index];
        }
      }
    }
  }

  function fit() {
    for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) {
      box.classList.remove("stacked");
      box.classList.toggle("stacked", NARROW.matches && box.scrollWidth > box.clientWidth);
    }
  }

  // The theme puts the boxes around the tables before the page is loaded.
  const start = () => {
    document.querySelectorAll(".md-typeset__scrollwrap table").forEach(name);
    fit();
    addEventListener("resize", fit);
  };
  if (document.readyState === "complete") {
    start();
  } else {
    addEventListener("load", start);
  }
})();
