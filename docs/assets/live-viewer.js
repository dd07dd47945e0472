// Puts the viewer in place of its picture, once the reader asks for it: a page that is only read does not load it.
(() => {
  "use strict";

  for (const link of document.querySelectorAll(".live-viewer > a")) {
    link.addEventListener("click", (event) => {
      if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) {
        return;
      }
      event.preventDefault();
      const frame = document.createElement("iframe");
      frame.title = link.dataset.title;
      frame.src = link.href;
      link.replaceWith(frame);
      frame.focus();
    });
  }
})();
