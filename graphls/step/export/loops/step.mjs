// Train a bundle that graphls has exported, on onnxruntime-web or onnxruntime-node.
//
//   const step = await Step.load(ort, 'bundle');
//   const results = await step.run({images, labels});    // results.loss, results.overflow ...
//   const bytes = step.save();                           // safetensors; `step.states` are tensors by name
//
// Results of the type float16 come as float32, which has all of its numbers. Arrays of float16 inputs may have numbers
// (Array, Float32Array, Float64Array) or bits (Uint16Array); `numbers(tensor)` are the numbers of a state.

/** @typedef {{name: string, dtype: string, shape: any[], next?: string | null}} Port */
/** @typedef {{dims: readonly number[], data: any, type: string}} Tensor */

/** Types of elements: the name in safetensors, and the array. @type {Record<string, [string, any]>} */
const KINDS = {
  float32: ['F32', Float32Array], float64: ['F64', Float64Array], float16: ['F16', Uint16Array], bool: ['BOOL', Uint8Array],
  int8: ['I8', Int8Array], int16: ['I16', Int16Array], int32: ['I32', Int32Array], int64: ['I64', BigInt64Array],
  uint8: ['U8', Uint8Array], uint16: ['U16', Uint16Array], uint32: ['U32', Uint32Array], uint64: ['U64', BigUint64Array],
};

const HAS_NUMBERS = [Array, Float32Array, Float64Array];

export class Step {
  /**
   * @param {any} ort the module of ONNX Runtime
   * @param {string | ((name: string) => Promise<Uint8Array>)} source the folder or its URL, or what reads a file of it
   * @param {{states?: Uint8Array, options?: object}} settings states in place of those of the bundle; options of the session
   * @returns {Promise<Step>}
   */
  static async load(ort, source, {states, options} = {}) {
    const read = typeof source === 'function' ? source : reader(source);
    const manifest = JSON.parse(new TextDecoder().decode(await read('step.json')));
    if (manifest.format !== 'graphls bundle' || manifest.version !== 1) {
      throw new Error(`This is not a bundle of version 1, which this loop reads, but of version ${manifest.version}.`);
    }
    const fail = (/** @type {Error} */ error) => { throw new Error(`This ONNX Runtime cannot run ${manifest.model.name}: ${error.message}`); };
    const session = await ort.InferenceSession.create(await read(manifest.model.name), options).catch(fail);
    const step = new Step(ort, manifest, session);
    step.load(states ?? await read('state.safetensors'));
    return step;
  }

  /** @param {any} ort @param {any} manifest @param {any} session */
  constructor(ort, manifest, session) {
    this.ort = ort, this.manifest = manifest, this.session = session;
    this.states = /** @type {Record<string, Tensor>} */ ({});
  }

  /** Take over the states of a file of safetensors. @param {Uint8Array} bytes */
  load(bytes) {
    const found = readSafetensors(bytes);
    this.states = Object.fromEntries(this.manifest.states.map((/** @type {Port} */ state) => [state.name, this.tensor(state, found[state.name])]));
  }

  /** The states as a file of safetensors. @returns {Uint8Array} */
  save() {
    return writeSafetensors(this.manifest.states.map((/** @type {Port} */ state) => ({...state, data: this.states[state.name].data})));
  }

  /** One step on tensors, typed arrays or arrays. @param {Record<string, any>} inputs @returns {Promise<Record<string, Tensor>>} */
  async run(inputs) {
    const feeds = {...this.states}, sizes = /** @type {Record<string, number>} */ ({});
    for (const port of this.manifest.inputs) feeds[port.name] = this.tensor(port, inputs[port.name], sizes);
    const other = Object.keys(inputs).find((name) => !this.manifest.inputs.some((/** @type {Port} */ port) => port.name === name));
    if (other !== undefined) throw new Error(`The step has no input '${other}'.`);
    for (const draw of this.manifest.random.draws) {
      const shape = sized(draw.shape, sizes);
      feeds[draw.name] = this.tensor({...draw, shape}, drawn({...draw, shape}, this.states[draw.state].data));
    }
    const results = await this.session.run(feeds);
    for (const {name, next} of this.manifest.states) if (next) this.states[name] = results[next];
    return Object.fromEntries(this.manifest.outputs.map((/** @type {Port} */ {name}) => [name, this.readable(results[name])]));
  }

  /** A result, in float32 if it is of float16. @param {Tensor} result @returns {Tensor} */
  readable(result) {
    return result.type === 'float16' ? new this.ort.Tensor('float32', numbers(result), result.dims) : result;
  }

  /** A tensor of what a port takes. @param {Port} port @param {any} given @param {Record<string, number>} sizes @returns {Tensor} */
  tensor({name, dtype, shape: wish}, given, sizes = {}) {
    if (given === undefined) throw new Error(`There is no value for '${name}', ${dtype}[${wish}].`);
    const kind = KINDS[dtype];
    if (kind === undefined) throw new Error(`'${name}' is of the type ${dtype}, which this loop does not have.`);
    let data = given.data ?? given;
    const row = wish.reduce((product, n) => typeof n === 'string' ? product : product * n, 1);
    const dims = given.dims ?? given.shape ?? wish.map((n) => typeof n === 'string' ? sizes[n] ?? data.length / row : n);
    const shape = sized(wish, sizes, dims), size = shape.reduce((product, n) => product * n, 1);
    if (dims.join() !== shape.join() || data.length !== size) {
      throw new Error(`'${name}' has the shape [${dims}] and ${data.length} elements, not the shape [${shape}].`);
    }
    if (dtype === 'float16' && (given.type ?? 'float32') === 'float32' && HAS_NUMBERS.some((Kind) => data instanceof Kind)) {
      return new this.ort.Tensor(dtype, Uint16Array.from(data, halfBits), shape);
    }
    const type = given.type ?? (ArrayBuffer.isView(data) ? null : dtype);
    if (type !== null ? type !== dtype : data.BYTES_PER_ELEMENT !== kind[1].BYTES_PER_ELEMENT) {
      throw new Error(`'${name}' is of the type ${type ?? data.constructor.name}, not ${dtype}.`);
    }
    if (!ArrayBuffer.isView(data)) data = kind[1].from(data);
    return new this.ort.Tensor(dtype, data, shape);
  }
}

/** The numbers of a tensor; those of float16 come as bits where JavaScript has no such arrays. @param {{type: string, data: any}} tensor @returns {any} */
export function numbers({type, data}) {
  return type !== 'float16' ? data : data instanceof Uint16Array ? Float32Array.from(data, halfNumber) : Float32Array.from(data);
}

/** The number of the bits of a float16. @param {number} bits */
function halfNumber(bits) {
  const exponent = bits >> 10 & 31, part = bits & 1023, sign = bits >> 15 ? -1 : 1;
  return sign * (exponent === 31 ? (part ? NaN : Infinity) : exponent ? 2 ** (exponent - 15) * (1 + part / 1024) : part * 2 ** -24);
}

/** The bits of the float16 that is nearest to a number, the even one of two. @param {number} value */
function halfBits(value) {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0, size = Math.abs(value);
  if (Number.isNaN(size)) return 0x7E00;
  if (size >= 65520) return sign | 0x7C00;
  const exponent = Math.max(-14, Math.floor(Math.log2(size))), units = size / 2 ** (exponent - 10), below = Math.floor(units);
  const rest = units - below, up = rest > 0.5 || rest === 0.5 && below % 2 ? 1 : 0;
  return sign | (exponent + 14 << 10) + below + up;
}

/** A shape with numbers for names, those known or else those of `dims`. */
function sized(/** @type {any[]} */ shape, /** @type {Record<string, number>} */ sizes, /** @type {readonly number[]} */ dims = []) {
  return shape.map((n, i) => typeof n === 'string' ? sizes[n] ??= dims[i] : n);
}

/** What reads files of a folder: over the network, or from the disk under Node. @param {string} folder */
function reader(folder) {
  return async (/** @type {string} */ name) => {
    if (typeof process !== 'undefined' && process.versions?.node && !/^https?:/.test(folder)) {
      const {readFile} = await import('node:fs/promises');
      return new Uint8Array(await readFile(`${folder}/${name}`));
    }
    const response = await fetch(`${folder}/${name}`);
    if (!response.ok) throw new Error(`${folder}/${name} cannot be read: ${response.status}.`);
    return new Uint8Array(await response.arrayBuffer());
  };
}

/** The tensors of a file of safetensors by name. @param {Uint8Array} bytes @returns {Record<string, any>} */
export function readSafetensors(bytes) {
  const end = 8 + (bytes.length < 8 ? NaN : Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true)));
  if (!(end <= bytes.length)) throw new Error('The file of safetensors is damaged: it ends within its header.');
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, end)));
  delete header.__metadata__;
  return Object.fromEntries(Object.entries(header).map(([name, {dtype, shape, data_offsets: [from, to]}]) => {
    const [type, [, Kind]] = Object.entries(KINDS).find(([, kind]) => kind[0] === dtype) ?? [dtype, []];
    if (Kind === undefined) throw new Error(`'${name}' is of the type ${dtype}, which this loop does not have.`);
    if (!(end + to <= bytes.length)) throw new Error(`The file of safetensors is damaged: it ends before '${name}'.`);
    return [name, {type, dims: shape, data: new Kind(bytes.slice(end + from, end + to).buffer)}];
  }));
}

/** A file of safetensors. @param {(Port & {data: any})[]} tensors @returns {Uint8Array} */
export function writeSafetensors(tensors) {
  const header = /** @type {Record<string, any>} */ ({});
  let place = 0;
  for (const {name, dtype, shape, data} of tensors) {
    header[name] = {dtype: KINDS[dtype][0], shape, data_offsets: [place, place += data.byteLength]};
  }
  let text = JSON.stringify(header);
  text += ' '.repeat((8 - new TextEncoder().encode(text).length % 8) % 8);
  const head = new TextEncoder().encode(text);
  const bytes = new Uint8Array(8 + head.length + place);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(head.length), true);
  bytes.set(head, 8);
  for (const {name, data} of tensors) {
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), 8 + head.length + header[name].data_offsets[0]);
  }
  return bytes;
}

/** The random numbers of a step. @param {any} draw @param {BigInt64Array} state seed and step @returns {any} */
export function drawn({kind, site, shape, options}, [seed, step]) {
  const size = shape.reduce((/** @type {number} */ product, /** @type {number} */ n) => product * n, 1);
  const key = [BigInt.asUintN(64, seed), BigInt.asUintN(64, BigInt(site))], bytes = /** @type {Record<string, number>} */ ({bytes: 1, bernoulli: 2, uniform: 4})[kind] ?? 8;
  const words = philox(key, BigInt.asUintN(64, step), Math.ceil(size * bytes / 8) + (kind === 'normal' ? size % 2 : 0));
  if (kind === 'bytes') return new Uint8Array(words.buffer, 0, size);
  if (kind === 'bernoulli') {
    const below = Math.round(options.probability * 65536);
    return Uint8Array.from(new Uint16Array(words.buffer, 0, size), (bits) => bits < below ? 1 : 0);
  }
  if (kind === 'uniform') return Float32Array.from(new Uint32Array(words.buffer, 0, size), (bits) => (bits >>> 8) * 2 ** -24);
  if (kind === 'normal') {
    const unit = (/** @type {number} */ i) => Number(words[i] >> 11n) * 2 ** -53;
    return Float32Array.from({length: size}, (_, i) => {
      const radius = Math.sqrt(-2 * Math.log(unit(i - i % 2) + 2 ** -53)), angle = 2 * Math.PI * unit(i - i % 2 + 1);
      return radius * (i % 2 ? Math.sin(angle) : Math.cos(angle));
    });
  }
  if (kind === 'integers') {
    const start = BigInt(options.start), range = BigInt(options.stop) - start;
    return BigInt64Array.from(words.subarray(0, size), (word) => BigInt.asIntN(64, word % range + start));
  }
  if (kind !== 'permutation') throw new Error(`This loop does not draw random numbers of the kind '${kind}'.`);
  const order = Array.from({length: size}, (_, i) => i);
  order.sort((a, b) => words[a] < words[b] ? -1 : words[a] > words[b] ? 1 : a - b);
  return BigInt64Array.from(order, BigInt);
}

/** Words of Philox4x64-10, counted from (0, 0, step, 0) as NumPy does, in halves of 32 bits. */
function philox(/** @type {bigint[]} */ key, /** @type {bigint} */ step, /** @type {number} */ count) {
  const blocks = Math.ceil(count / 4), words = new Uint32Array(blocks * 8), half = (/** @type {bigint} */ n) => [Number(n & 0xFFFFFFFFn), Number(n >> 32n)];
  const [[a0, a1], [b0, b1], [s0, s1]] = [half(key[0]), half(key[1]), half(step)];
  const x = new Uint32Array(8), first = new Uint32Array(4), second = new Uint32Array(4);
  for (let block = 0; block < blocks; block++) {
    x.set([block + 1, Math.floor((block + 1) / 2 ** 32), 0, 0, s0, s1, 0, 0]);
    let k0 = a0, k1 = a1, l0 = b0, l1 = b1;
    for (let round = 0; round < 10; round++) {
      product(x[0], x[1], 0xE14C6C93, 0xD2E7470E, first);
      product(x[4], x[5], 0x95121157, 0xCA5A8263, second);
      x.set([second[2] ^ x[2] ^ k0, second[3] ^ x[3] ^ k1, second[0], second[1], first[2] ^ x[6] ^ l0, first[3] ^ x[7] ^ l1, first[0], first[1]]);
      [k0, k1] = [(k0 + 0x7F4A7C15) >>> 0, (k1 + 0x9E3779B9 + (k0 + 0x7F4A7C15 > 0xFFFFFFFF ? 1 : 0)) >>> 0];
      [l0, l1] = [(l0 + 0x84CAA73B) >>> 0, (l1 + 0xBB67AE85 + (l0 + 0x84CAA73B > 0xFFFFFFFF ? 1 : 0)) >>> 0];
    }
    words.set(x, block * 8);
  }
  return new BigUint64Array(words.buffer);
}

/** The 128 bits of a product of 64 bits by 64 bits, lowest first; each digit of 16 bits, so that sums are exact. */
function product(/** @type {number} */ a0, /** @type {number} */ a1, /** @type {number} */ b0, /** @type {number} */ b1, /** @type {Uint32Array} */ out) {
  const a = [a0 & 65535, a0 >>> 16, a1 & 65535, a1 >>> 16], b = [b0 & 65535, b0 >>> 16, b1 & 65535, b1 >>> 16];
  let carry = 0, low = 0;
  for (let digit = 0; digit < 8; digit++) {
    for (let i = Math.max(0, digit - 3); i <= Math.min(3, digit); i++) carry += a[i] * b[digit - i];
    if (digit % 2) out[digit >> 1] = low + (carry % 65536) * 65536;
    else low = carry % 65536;
    carry = Math.floor(carry / 65536);
  }
}
