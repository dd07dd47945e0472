// Builds the checker of the site: one script, and one file that is the whole checker.

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

mkdirSync(join(out, "page"), { recursive: true });
writeFileSync(join(out, "page/main.js"), script);
writeFileSync(join(out, "toyspec-check.html"), whole);
