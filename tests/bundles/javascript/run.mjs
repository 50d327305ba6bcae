// Trains bundles under Node, on the package of ONNX Runtime that is named, as `jobs.json` of a folder says, and writes
// what every step gave.

import {readFile, writeFile} from 'node:fs/promises';

const [folder, runtime] = process.argv.slice(2);
const ort = await import(runtime);
if (ort.env.wasm) ort.env.wasm.numThreads = 1;
const {Step, readSafetensors} = await import(`${folder}/step.mjs`);

for (const {name, steps, count} of JSON.parse(await readFile(`${folder}/jobs.json`, 'utf8'))) {
  const step = await Step.load(ort, `${folder}/${name}`);
  const batches = [];
  for (let i = 0; i < count; i++) batches.push(readSafetensors(new Uint8Array(await readFile(`${folder}/${name}/${i}.safetensors`))));
  const results = [];
  const start = performance.now();
  for (let i = 0; i < steps; i++) {
    const found = await step.run(batches[i % count]);
    results.push(Object.fromEntries(Object.entries(found).map(([key, tensor]) => [key, Array.from(tensor.data, Number)])));
  }
  const milliseconds = (performance.now() - start) / steps;
  await writeFile(`${folder}/${name}/results.json`, JSON.stringify({milliseconds, results}));
  await writeFile(`${folder}/${name}/trained.safetensors`, step.save());
}
