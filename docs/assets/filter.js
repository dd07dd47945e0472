// Puts a field above each long table that leaves only the rows with all the words that are typed into it.
(() => {
  "use strict";
  const fewest = 25;

  const rowsOf = (table) => [...table.tBodies].flatMap((body) => [...body.rows]);

  function addFilter(table, number) {
    const rows = rowsOf(table).map((row) => [row, row.textContent.toLowerCase()]);
    const field = document.createElement("input");
    field.type = "search";
    field.id = `table-filter-${number}`;
    field.autocomplete = "off";
    const label = document.createElement("label");
    label.htmlFor = field.id;
    label.textContent = "Filter";
    const count = document.createElement("output");
    count.htmlFor.add(field.id);

    const show = () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const [row, text] of rows) {
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = words.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
    };
    field.addEventListener("input", show);
    show();

    const box = document.createElement("p");
    box.className = "table-filter";
    box.append(label, " ", field, " ", count);
    // What the theme puts around a table scrolls with it.
    (table.closest(".md-typeset__scrollwrap") ?? table).before(box);
  }

  const start = () => {
    const tables = [...document.querySelectorAll(".md-content table")].filter((table) => rowsOf(table).length >= fewest);
    tables.forEach(addFilter);
  };
  if (document.readyState === "loading") {
    document.addEventListener("DOMContentLoaded", start, { once: true });
  } else {
    start();
  }
})();
