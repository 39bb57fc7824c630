// Python in a worker: it starts once, then answers one question after the other.
"use strict";
importScripts("pyodide/pyodide.js");

// A web server may not know what a .wasm file is; compiled from its bytes, nobody asks.
const content = async (answer) => (await answer).arrayBuffer();
WebAssembly.compileStreaming = async (answer) => WebAssembly.compile(await content(answer));
WebAssembly.instantiateStreaming = async (answer, imports) =>
  WebAssembly.instantiate(await content(answer), imports);

const LIBRARY = "/lib/python3.12/site-packages";
const START = `
import ctypes
ctypes.CDLL("/lib/backtrace.so", ctypes.RTLD_GLOBAL)
import json
from companion.publish.play import pages

def told(question):
    asked = json.loads(question)
    page, settings, lines = asked["page"], asked["settings"], asked["lines"]
    found = pages.answer(page, settings) if lines is None else pages.run(page, settings, lines)
    return json.dumps(found)
`;

async function bytes(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return answer.arrayBuffer();
}

async function start() {
  const files = Promise.all(["numpy.zip", "code.zip", "backtrace.so"].map(bytes));
  const python = await loadPyodide({ indexURL: "pyodide/" });
  const [numpy, code, library] = await files;
  python.unpackArchive(numpy, "zip", { extractDir: LIBRARY });
  python.unpackArchive(code, "zip", { extractDir: LIBRARY });
  python.FS.writeFile("/lib/backtrace.so", new Uint8Array(library));
  python.runPython(START);
  return python.globals.get("told");
}

const started = start();
started.then(
  () => postMessage({ ready: true }),
  (error) => postMessage({ failed: String(error) }),
);

onmessage = async (event) => {
  const told = await started;
  const before = performance.now();
  const { id, question } = event.data;
  try {
    const found = JSON.parse(told(JSON.stringify(question)));
    postMessage({ id, found, milliseconds: performance.now() - before });
  } catch (error) {
    postMessage({ id, found: { sentence: String(error).trim().split("\n").pop() } });
  }
};
