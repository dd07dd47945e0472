// Builds the checker of the site, one script and one file that is the whole checker, the viewer as one file, and the search.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const page = dirname(fileURLToPath(import.meta.url));
const docs = join(page, "../../../docs");
const out = join(docs, "assets/checker");

async function bundled(name, define = {}) {
  const options = { bundle: true, format: "iife", target: "es2022", minify: true, write: false, define };
  const { outputFiles } = await build({ entryPoints: [join(page, name)], ...options });
  return outputFiles[0].text;
}

const worker = await bundled("worker.ts");
// A script that is no module, with its worker in it: a browser runs it from a file, too.
const script = await bundled("main.ts", { WORKER_SOURCE: JSON.stringify(worker) });
const style = readFileSync(join(docs, "assets/check.css"), "utf8");
const frame = readFileSync(join(page, "saved.html"), "utf8");
const whole = frame
  .replace("/* style */", () => style)
  .replace("/* script */", () => script.replaceAll("</script", "<\\/script"));

const viewer = join(page, "../../viewer/src");
const css = await bundled("../../viewer/src/site.css");
const reader = await bundled("../../viewer/src/folder/worker.ts");
const code = (await bundled("../../viewer/src/site.ts", { WORKER_SOURCE: JSON.stringify(reader) })).replaceAll("</script", "<\\/script");
const digest = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
// A link may name the address of a log (#url=); a log has no way to name one.
const policy = `default-src 'none'; script-src ${digest(code)}; style-src ${digest(css)}; worker-src blob:; connect-src 'self' https:; img-src data: blob:; media-src data: blob:; base-uri 'none'; form-action 'none'`;
const mark = encodeURIComponent(readFileSync(join(docs, "assets/mark.svg"), "utf8").trim());
const shown = readFileSync(join(viewer, "index.html"), "utf8")
  .replace("data:,", `data:image/svg+xml,${mark}`)
  .replace(/(Content-Security-Policy" content=")[^"]*/, (_, start) => start + policy)
  .replace("<title>toyspec</title>", "<title>See your runs – toyspec</title>")
  .replace('<link rel="stylesheet" href="app.css">', () => `<style>${css}</style>`)
  .replace('<script src="app.js"></script>', () => `<script>${code}</script>`);

mkdirSync(join(out, "page"), { recursive: true });
writeFileSync(join(out, "search.js"), await bundled("search.ts"));
writeFileSync(join(out, "page/main.js"), script);
writeFileSync(join(out, "toyspec-check.html"), whole);
writeFileSync(join(out, "toyspec-viewer.html"), shown);
