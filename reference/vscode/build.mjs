// Builds the extension and the page that it shows into built/, which `vsce` packs.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "built");
const usual = { bundle: true, minify: true, write: false, legalComments: "none", charset: "utf8", logLevel: "error", loader: { ".svg": "dataurl" } };

async function bundled(path, options) {
  const { outputFiles } = await build({ entryPoints: [join(here, path)], ...usual, ...options });
  return outputFiles[0].text;
}

const page = { format: "iife", target: ["es2022", "chrome120"] };
const worker = await bundled("../viewer/src/folder/worker.ts", page);
const script = await bundled("webview/main.ts", { ...page, define: { WORKER_SOURCE: JSON.stringify(worker) } });
const style = await bundled("../viewer/src/app.css", page);
const program = { format: "cjs", platform: "node", target: "node20", external: ["vscode"], minify: false };

rmSync(out, { recursive: true, force: true });
mkdirSync(out);
// What stands in a script element of a page ends at its end tag.
writeFileSync(join(out, "page.js"), script.replaceAll("</script", "<\\/script"));
writeFileSync(join(out, "page.css"), style);
for (const name of ["check-report", "run-files", "viewer-page", "extension"]) {
  writeFileSync(join(out, `${name}.cjs`), await bundled(`src/${name}.ts`, program));
}
