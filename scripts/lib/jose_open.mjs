// Opens a sealed checkpoint and verifies its signature with npm's jose, which shares no code with us.
// usage: node jose_open.mjs FILE ENCRYPTION_KEY SIGNING_KEY PAYLOAD
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.cwd() + "/");
const jose = await import(pathToFileURL(require.resolve("jose")));
const [file, encryptionKey, signingKey, payload] = process.argv.slice(2).map((path) => readFileSync(path));
const checkpoint = JSON.parse(file);

const key = await jose.importJWK(JSON.parse(encryptionKey), encryptionKey.includes('"oct"') ? "dir" : "ECDH-ES+A256KW");
const { plaintext, protectedHeader } = await jose.compactDecrypt(checkpoint.state_snapshot.$sealed, key);

const [header, , signature] = checkpoint.integrity.signature.split(".");
const verifying = await jose.importJWK(JSON.parse(signingKey), "EdDSA");
await jose.compactVerify(`${header}.${jose.base64url.encode(payload)}.${signature}`, verifying);

console.log(JSON.stringify({ state: JSON.parse(new TextDecoder().decode(plaintext)), protectedHeader }));
