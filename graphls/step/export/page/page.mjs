// The page: loads the bundle beside it, trains it and shows what happens.

import {drawCurve, drawImage, short} from './curves.mjs';
import {Pad} from './pad.mjs';
import {Step, numbers, readSafetensors} from './step.mjs';
import {forget, keep, kept} from './store.mjs';

const SAMPLES = 24, EVERY = 10, SAVED = 50;
const element = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));
const text = (/** @type {string} */ id, /** @type {unknown} */ value) => { element(id).textContent = String(value); };

/** ONNX Runtime, and what may compute here, the best first: WebGPU where the browser has it, and WebAssembly. */
async function runtime() {
  const adapter = await /** @type {any} */ (navigator).gpu?.requestAdapter().catch(() => null);
  const ort = await import(adapter ? './ort/ort.webgpu.min.mjs' : './ort/ort.wasm.min.mjs');
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = new URL('./ort/', import.meta.url).href;
  const wasm = {name: 'WebAssembly', providers: ['wasm']};
  return {ort, ways: adapter ? [{name: 'WebGPU', providers: ['webgpu', 'wasm']}, wasm] : [wasm]};
}

/** @param {string} name @returns {Promise<Uint8Array>} */
async function read(name) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name} cannot be read: ${response.status}.`);
  return new Uint8Array(await response.arrayBuffer());
}

class Page {
  async load() {
    const {ort, ways} = await runtime();
    this.ort = ort;
    this.first = await read('state.safetensors');
    this.data = readSafetensors(await read('data.safetensors'));
    this.extra = {images: /** @type {Float32Array[]} */ ([]), labels: /** @type {number[]} */ ([])};
    this.isTraining = false;
    const started = performance.now(), name = await this.open(ways);
    const model = await read(this.step.manifest.predict.file.name);
    this.predictor = await ort.InferenceSession.create(model, {executionProviders: ['wasm']});
    this.key = this.step.manifest.model.sha256;
    const scaled = this.step.manifest.outputs.some((/** @type {{name: string}} */ port) => port.name === 'scale');
    for (const id of ['scale', 'skipped', 'scales']) element(id).closest('div, figure').hidden = !scaled;
    const classes = this.step.manifest.predict.outputs[0].shape[1];
    this.pad = new Pad(element('pad'), this.images.shape[3], () => this.guess());
    await this.resume(await kept(this.key));
    this.wire(classes);
    text('status', `Runs on ${name}; ready after ${Math.round(performance.now() - started)} ms.`);
    await this.look();
  }

  /**
   * Open the step on the first that runs a step of it: many a graphics card has no 16-bit numbers, which shows there.
   * @param {{name: string, providers: string[]}[]} ways @returns {Promise<string>} what it runs on
   */
  async open([{name, providers}, ...others]) {
    try {
      this.step = await Step.load(this.ort, read, {states: this.first, options: {executionProviders: providers}});
      [this.images, this.labels] = this.step.manifest.inputs;
      this.rows = this.images.shape[0];
      this.order = [];
      if (others.length > 0) await this.trainOnce();
      return name;
    } catch (error) {
      if (others.length === 0) throw error;
      console.warn(`${name} cannot run the step:`, error);
      return `${await this.open(others)}, as ${name} cannot run this step here`;
    }
  }

  trainOnce() {
    const {images, labels} = this.batch();
    return this.step.run({[this.images.name]: images, [this.labels.name]: labels});
  }

  /** Go on from a run that was kept, or begin one. @param {any} run */
  async resume(run) {
    this.history = run?.history ?? {losses: [], scales: [], skipped: [], accuracies: [], count: 0};
    try {
      this.step.load(run?.states ?? this.first);
    } catch {
      this.step.load(this.first);
    }
    this.order = [];
  }

  /** @param {number} classes */
  wire(classes) {
    for (const id of ['train', 'reset', 'download', 'upload', 'add']) element(id).disabled = false;
    element('train').onclick = () => this.isTraining ? this.pause() : this.train();
    element('reset').onclick = async () => { this.pause(); await this.running; await forget(this.key); await this.resume(undefined); await this.look(); };
    element('download').onclick = () => download(this.step.save(), 'trained.safetensors');
    element('upload').onchange = () => this.upload(element('upload').files[0]);
    element('clear').onclick = () => this.pad.clear();
    element('add').onclick = () => this.add();
    for (let i = 0; i < classes; i++) element('digit').add(new Option(String(i), String(i)));
    this.told();
  }

  /** @param {File | undefined} file */
  async upload(file) {
    if (file === undefined) return;
    this.pause();
    await this.running;
    try {
      this.step.load(new Uint8Array(await file.arrayBuffer()));
      text('status', `The states of ${file.name} are loaded.`);
      await this.save();
      await this.look();
    } catch (error) {
      fail(error);
    }
  }

  add() {
    this.extra.images.push(this.pad.pixels.slice());
    this.extra.labels.push(Number(element('digit').value));
    this.pad.clear();
    this.told();
  }

  told() {
    const own = this.extra.labels.length;
    text('data', `The training data are ${this.data.labels.data.length} digits${own ? ` and ${own} of yours` : ''}.`);
  }

  /** Training ends behind the step that runs, and its states are saved: until then the button neither trains nor pauses. */
  pause() {
    this.isTraining = false;
    if (this.running) text('train', 'Pausing');
  }

  train() {
    if (this.running) return;
    this.isTraining = true;
    text('train', 'Pause');
    this.running = this.loop().catch(fail).finally(() => {
      this.isTraining = false;
      this.running = undefined;
      text('train', 'Train');
    });
  }

  async loop() {
    while (this.isTraining) {
      const start = performance.now(), results = await this.trainOnce();
      const {losses, scales, skipped} = this.history, count = ++this.history.count;
      losses.push([count, number(results.loss)]);
      if (results.scale) scales.push([count, number(results.scale)]);
      if (results.overflow && number(results.overflow)) skipped.push(count);
      text('time', (performance.now() - start).toFixed(1));
      if (count % EVERY === 0) await this.look();
      if (count % SAVED === 0) await this.save();
      await new Promise((resolve) => setTimeout(resolve));
    }
    await this.look();
    await this.save();
  }

  save() {
    return keep(this.key, {history: this.history, states: this.step.save()});
  }

  /** The next rows in random order; your own digits come as often as all others together where there are few. */
  batch() {
    const {images: all, labels} = this.data, size = all.data.length / labels.data.length;
    const found = {images: new Float32Array(this.rows * size), labels: new Int32Array(this.rows)};
    for (let row = 0; row < this.rows; row++) {
      if (this.order.length === 0) this.order = shuffled(labels.data.length);
      const own = this.extra.labels.length, take = /** @type {number} */ (this.order.pop());
      const useOwn = own > 0 && Math.random() < Math.min(0.5, own / 20), i = Math.floor(Math.random() * own);
      found.images.set(useOwn ? this.extra.images[i] : all.data.subarray(take * size, (take + 1) * size), row * size);
      found.labels[row] = useOwn ? this.extra.labels[i] : labels.data[take];
    }
    return found;
  }

  /** The scores of images, [rows, classes]. @param {Float32Array} images @param {number} rows */
  async predict(images, rows) {
    const {inputs, outputs, states} = this.step.manifest.predict;
    const feeds = Object.fromEntries(states.map((/** @type {string} */ name) => [name, this.step.states[name]]));
    feeds[inputs[0].name] = new this.ort.Tensor('float32', images, [rows, ...inputs[0].shape.slice(1)]);
    return numbers((await this.predictor.run(feeds))[outputs[0].name]);
  }

  /** Judge the network on what it never saw, and show everything. */
  async look() {
    const {test_images: images, test_labels: labels} = this.data, rows = labels.data.length, {history} = this;
    const guesses = best(await this.predict(images.data, rows), rows);
    const accuracy = guesses.filter((guess, i) => guess === labels.data[i]).length / rows;
    const {accuracies, losses, scales, skipped, count} = history;
    if (count > 0 && accuracies.at(-1)?.[0] !== count) accuracies.push([count, accuracy]);
    text('steps', count);
    text('accuracy', accuracy.toFixed(3));
    text('loss', losses.length ? short(losses.at(-1)[1]) : '–');
    text('scale', scales.length ? power(scales.at(-1)[1]) : '–');
    text('skipped', skipped.length);
    drawCurve(element('losses'), 'Loss', losses, {colour: 'var(--forward)'});
    drawCurve(element('scales'), 'Loss scale', scales, {colour: 'var(--check)', isLog: true, stairs: true, marks: skipped, show: power});
    drawCurve(element('accuracies'), 'Test accuracy', accuracies, {colour: 'var(--update)'});
    this.showSamples(guesses);
    this.showFilters();
    await this.guess();
  }

  /** @param {number[]} guesses */
  showSamples(guesses) {
    const {test_images: images, test_labels: labels} = this.data, size = images.data.length / labels.data.length;
    const tiles = guesses.slice(0, SAMPLES).map((guess, i) => {
      const isRight = guess === labels.data[i];
      const words = `${guess}${isRight ? '' : `, is ${labels.data[i]}`}`;
      return tile(images.data.subarray(i * size, (i + 1) * size), this.images.shape[3], [0, 1], words, isRight ? 'right' : 'wrong');
    });
    element('samples').replaceChildren(...tiles);
  }

  showFilters() {
    const {data, dims} = this.step.states[this.step.manifest.states[0].name];
    if (dims.length !== 4) return;
    const size = dims[2] * dims[3], top = data.reduce((/** @type {number} */ most, /** @type {number} */ n) => Math.max(most, Math.abs(n)), 0);
    const tiles = Array.from({length: dims[0]}, (_, i) => tile(data.subarray(i * size * dims[1], i * size * dims[1] + size), dims[3], [-top, top], '', ''));
    element('filters').replaceChildren(...tiles);
  }

  async guess() {
    const scores = await this.predict(this.pad.pixels, 1), isEmpty = this.pad.pixels.every((ink) => ink === 0);
    const shares = softmax(scores), first = best(scores, 1)[0];
    const rows = shares.map((share, i) => {
      const row = document.createElement('li'), bar = document.createElement('i');
      bar.style.width = isEmpty ? '0' : `${share * 70}%`;
      row.className = !isEmpty && i === first ? 'best' : '';
      row.append(String(i), bar, isEmpty ? '' : share.toFixed(2));
      return row;
    });
    element('guess').replaceChildren(...rows);
  }
}

/** @param {ArrayLike<number>} pixels @param {number} columns @param {[number, number]} range @param {string} words @param {string} kind */
function tile(pixels, columns, range, words, kind) {
  const figure = document.createElement('figure'), canvas = document.createElement('canvas'), caption = document.createElement('figcaption');
  drawImage(canvas, pixels, columns, range);
  caption.textContent = words;
  figure.className = kind;
  figure.append(canvas, caption);
  return figure;
}

/** The number of a tensor of one element. */
function number(/** @type {{type: string, data: any}} */ tensor) {
  return Number(numbers(tensor)[0]);
}

const power = (/** @type {number} */ value) => Number.isInteger(Math.log2(value)) ? `2^${Math.log2(value)}` : short(value);

/** @param {ArrayLike<number>} scores @param {number} rows @returns {number[]} */
function best(scores, rows) {
  const classes = scores.length / rows;
  return Array.from({length: rows}, (_, row) => {
    let first = 0;
    for (let i = 1; i < classes; i++) if (scores[row * classes + i] > scores[row * classes + first]) first = i;
    return first;
  });
}

/** @param {ArrayLike<number>} scores @returns {number[]} */
function softmax(scores) {
  const top = Math.max(...Array.from(scores)), powers = Array.from(scores, (score) => Math.exp(score - top));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((value) => value / sum);
}

/** @param {number} count @returns {number[]} */
function shuffled(count) {
  const order = Array.from({length: count}, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

/** @param {Uint8Array} bytes @param {string} name */
function download(bytes, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([/** @type {any} */ (bytes)]));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** @param {unknown} error */
function fail(error) {
  element('status').className = 'error';
  text('status', error instanceof Error ? error.message : String(error));
}

new Page().load().catch(fail);
