// Lets the copy button of a console example copy its commands alone: no prompts, no output.
(() => {
  "use strict";

  const PROMPT = "$ ";

  function commandsOf(text) {
    const lines = text.split("\n").filter((line) => line.startsWith(PROMPT));
    return lines.map((line) => line.slice(PROMPT.length)).join("\n");
  }

  addEventListener("load", () => {
    for (const button of document.querySelectorAll(".language-console button[data-clipboard-target]")) {
      const code = document.querySelector(button.dataset.clipboardTarget);
      const commands = code && commandsOf(code.textContent);
      if (commands) {
        button.setAttribute("data-clipboard-text", commands);
      }
    }
  });
})();
