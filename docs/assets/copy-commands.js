// Lets the copy button of a console example copy its commands alone: no prompts, no output.
(() => {
  "use strict";

  const PROMPT = "$ ";

  function commandsOf(text) {
    const lines = text.split("\n").filter((line) => line.startsWith(PROMPT));
    return lines.map((line) => line.slice(PROMPT.length)).join("\n");
  }

  // Before the theme, which copies the text that its button names. It puts the buttons there when they are seen.
  const name = ({ target }) => {
    const button = target.closest(".language-console button[data-clipboard-target]");
    const commands = button && commandsOf(document.querySelector(button.dataset.clipboardTarget)?.textContent ?? "");
    if (commands) {
      button.setAttribute("data-clipboard-text", commands);
    }
  };
  addEventListener("click", name, true);
})();
